//! Automatic mixed precision of eager calls: inputs are cast before the call, by lists of operators.
//!
//! With element type `low`: white operators read `low`, black ones float32. The others read float32 if one of their
//! inputs is float32 or if they have no kernel for `low`, else they keep their inputs. Casts are recorded on the tape,
//! so that gradients of float32 inputs are float32.

use super::tape::{EagerVar, Ins};
use oar_core::base::{DType, Result};
use oar_core::ir::Attr;
use oar_core::op::attrs::unshared;
use oar_core::op::run::Env;
use oar_core::op::{profile, table, Args, Attrs, Op};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

/// The element type and the lists of one thread's calls.
pub struct Lists {
    pub low: DType,
    pub white: HashSet<String>,
    pub black: HashSet<String>,
}

thread_local! {
    static LISTS: RefCell<Option<Rc<Lists>>> = const { RefCell::new(None) };
}

/// The number of threads that cast.
static CASTING: Mutex<usize> = Mutex::new(0);

/// Sets what this thread's calls cast by; `None`: nothing.
pub fn set(lists: Option<Lists>) {
    let (now, before) = (lists.is_some(), LISTS.replace(lists.map(Rc::new)).is_some());
    if now != before {
        let mut casting = CASTING.lock();
        *casting = if now { *casting + 1 } else { *casting - 1 };
        profile::set_casting(*casting > 0);
    }
}

/// Operators whose first input alone may be of low precision: scales and statistics stay float32.
fn is_norm(op: &Op) -> bool {
    matches!(op.name, "batch_norm" | "layer_norm")
}

fn dtype_of(v: &EagerVar) -> Option<DType> {
    v.cell.lock().as_dense().map(|t| t.dtype())
}

/// The type that the input in a slot is cast to; `None`: it stays as it is.
fn target(lists: &Lists, op: &Op, ins: &Ins) -> Option<DType> {
    let supported = op.dtypes.has(lists.low);
    if lists.white.contains(op.name) && supported {
        return Some(lists.low);
    }
    if lists.black.contains(op.name) || !supported {
        return Some(DType::F32);
    }
    let wide = ins.flat.iter().flatten().any(|v| dtype_of(v) == Some(DType::F32));
    wide.then_some(DType::F32)
}

/// Computes and records a call of an operator with one output.
type Compute = fn(&'static Op, &Attrs, &Ins, &dyn Env) -> Result<Option<EagerVar>>;

fn cast(v: &EagerVar, from: DType, to: DType, env: &dyn Env, compute: Compute) -> Result<Option<EagerVar>> {
    let missing = || oar_core::err!(Fatal, "the table has no operator cast");
    let op = table::lookup("cast").ok_or_else(missing)?;
    let mut attrs = (op.attrs.new)();
    for (name, dtype) in [("in_dtype", from), ("out_dtype", to)] {
        let field = op.attrs.field(name).ok_or_else(missing)?;
        unshared(&mut attrs).set(field, Attr::Int(dtype.proto())).map_err(|_| missing())?;
    }
    let mut ins: Ins = Args::new();
    ins.push_one(Some(v));
    compute(op, &attrs, &ins, env)
}

/// The cast inputs of a call, at their places in the flat list; `None` if nothing is cast.
#[cold]
pub(super) fn inputs(
    op: &'static Op,
    ins: &Ins,
    env: &dyn Env,
    compute: Compute,
) -> Result<Option<Vec<Option<EagerVar>>>> {
    // The operators of a Program have their own casts.
    let exempt = matches!(op.name, "cast" | "run_program");
    let Some(lists) = LISTS.with_borrow(Clone::clone).filter(|_| !exempt) else { return Ok(None) };
    let Some(to) = target(&lists, op, ins) else { return Ok(None) };
    let from = if to == DType::F32 { lists.low } else { DType::F32 };
    let mut made: Option<Vec<Option<EagerVar>>> = None;
    for slot in 0..ins.slots() {
        // A norm casts its first input by the lists only, and the others never to low precision.
        let listed = lists.white.contains(op.name) || lists.black.contains(op.name) || !op.dtypes.has(lists.low);
        if is_norm(op) && if slot == 0 { !listed } else { to == lists.low } {
            continue;
        }
        for i in ins.range(slot) {
            let Some(v) = ins.flat[i].filter(|v| dtype_of(v) == Some(from)) else { continue };
            made.get_or_insert_with(|| vec![None; ins.flat.len()])[i] = cast(v, from, to, env, compute)?;
        }
    }
    Ok(made)
}
