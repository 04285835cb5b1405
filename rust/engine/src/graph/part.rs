//! A range of a block's operators as a Program of its own, for the operator `run_program`.

use super::exec::Executor;
use oar_core::base::Result;
use oar_core::ir::Program;
use oar_core::op::callbacks::Part;
use oar_core::tensor::{Scope, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Bound of the cached Programs.
const KEPT: usize = 64;

type Key = (u64, u64, i32, usize, usize);

static CUT: LazyLock<Mutex<HashMap<Key, Arc<Program>>>> = LazyLock::new(Default::default);
static EXECUTOR: LazyLock<Executor> = LazyLock::new(Executor::new);

/// The Program with only these operators in the block; the other blocks are unchanged.
fn cut(part: &Part) -> Result<Arc<Program>> {
    let key = (part.program.uid(), part.program.revision(), part.block, part.ops.start, part.ops.end);
    if let Some(program) = CUT.lock().get(&key) {
        return Ok(program.clone());
    }
    let mut desc = part.program.to_desc();
    if let Some(block) = usize::try_from(part.block).ok().and_then(|i| desc.blocks.get_mut(i)) {
        block.ops = block.ops.get(part.ops.clone()).unwrap_or_default().to_vec();
    }
    let program = Program::from_desc(desc)?;
    let mut all = CUT.lock();
    if all.len() >= KEPT {
        all.clear();
    }
    all.insert(key, program.clone());
    Ok(program)
}

pub fn run(part: &Part, scope: &Arc<Scope>, feeds: Vec<(String, Value)>, fetches: &[String]) -> Result<Vec<Value>> {
    let program = cut(part)?;
    let (names, values): (Vec<String>, Vec<Value>) = feeds.into_iter().unzip();
    EXECUTOR.run_in(&program, part.block, scope, &names, values, fetches)
}
