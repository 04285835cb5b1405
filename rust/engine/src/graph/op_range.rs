//! A range of a block's operators as a Program of its own, for the operator `run_program`.

use super::exec::Executor;
use oar_core::base::Result;
use oar_core::ir::Program;
use oar_core::op::callbacks::OpRange;
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
fn cut(range: &OpRange) -> Result<Arc<Program>> {
    let key = (range.program.uid(), range.program.revision(), range.block, range.ops.start, range.ops.end);
    if let Some(program) = CUT.lock().get(&key) {
        return Ok(program.clone());
    }
    let mut desc = range.program.to_desc();
    if let Some(block) = usize::try_from(range.block).ok().and_then(|i| desc.blocks.get_mut(i)) {
        block.ops = block.ops.get(range.ops.clone()).unwrap_or_default().to_vec();
    }
    let program = Program::from_desc(desc)?;
    let mut all = CUT.lock();
    if all.len() >= KEPT {
        all.clear();
    }
    all.insert(key, program.clone());
    Ok(program)
}

pub fn run(range: &OpRange, scope: &Arc<Scope>, feeds: Vec<(String, Value)>, fetches: &[String]) -> Result<Vec<Value>> {
    let program = cut(range)?;
    let (names, values): (Vec<String>, Vec<Value>) = feeds.into_iter().unzip();
    EXECUTOR.run_in(&program, range.block, scope, &names, values, fetches)
}
