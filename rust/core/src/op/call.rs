//! One operator on values: on the CPU, or on the device of a registered backend.

use super::run::{call_cpu, Env, NoEnv, Out};
use super::{backend, finite, profile, Args, Attrs, Meta, Op, SlotFlag};
use crate::base::{ErrorKind, Result};
use crate::ir::AttrMap;
use crate::tensor::device::NOT_KEPT;
use crate::tensor::Value;
use crate::{ensure, err};
use std::any::Any;

/// As [`call_cpu`], wherever the operands are.
#[inline]
pub fn call(
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    env: &dyn Env,
) -> Result<()> {
    if backend::is_active() {
        return backend::call(op, attrs, ins, outs, free, env);
    }
    call_cpu(op, attrs, ins, outs, free, env)
}

/// [`call`] with panics turned into errors, the operator named in every error, and its time logged if the profiler is
/// on.
pub fn call_checked(
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    env: &dyn Env,
) -> Result<()> {
    let _span = profile::span(|| op.name.into());
    checked(op, attrs, ins, outs, free, env)?;
    if profile::is_checked() {
        finite::check(op, outs, env)?;
    }
    Ok(())
}

fn checked(
    op: &'static Op,
    attrs: &Attrs,
    ins: &mut Args,
    outs: &mut Args<Out>,
    free: bool,
    env: &dyn Env,
) -> Result<()> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(op, attrs, ins, outs, free, env)));
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(explain(op, ins, e)),
        Err(panic) => Err(explain(op, ins, of_panic(panic_text(&*panic)))),
    }
}

#[cold]
fn of_panic(text: &str) -> crate::base::Error {
    if text == NOT_KEPT {
        return err!(PreconditionNotMet, "{text} (a table of a parameter server, which trainers do not hold?)");
    }
    if ["out of bounds", "out of range", "mid > len", "does not match destination"].iter().any(|t| text.contains(t)) {
        return err!(
            PreconditionNotMet,
            "an input does not have the values that were checked before it was read ({text}): do other threads write to \
             memory that it shares? Otherwise this is a defect of the operator"
        );
    }
    err!(Fatal, "internal error: {text}")
}

pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown panic")
}

#[cold]
fn explain(op: &'static Op, ins: &Args, e: crate::base::Error) -> crate::base::Error {
    if e.kind() == ErrorKind::Interrupted {
        return e;
    }
    let mut parts = Vec::new();
    for (i, s) in op.inputs.iter().enumerate() {
        for v in ins.slot(i) {
            if let Some(m) = Meta::from_value(v) {
                parts.push(format!("{}: {} {:?}", s.name, m.dtype, &m.dims[..]));
            }
        }
    }
    e.context(format!(
        "[operator < {} > with {}]",
        op.name,
        if parts.is_empty() { "no inputs".into() } else { parts.join(", ") }
    ))
}

/// Runs an operator on plain tensors: for tests and for kernels that are compositions.
pub fn call_simple(op: &'static Op, attrs: &AttrMap, ins: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>> {
    let attrs = op.attrs.parse(op.name, attrs)?;
    ensure!(ins.len() <= op.inputs.len(), InvalidArgument, "operator {} has {} inputs", op.name, op.inputs.len());
    let mut args = Args::new();
    for slot in ins {
        args.push_slot(slot);
    }
    let mut outs = Args::new();
    for s in op.outputs {
        if s.has(SlotFlag::Duplicable) {
            outs.push_slot([]);
        } else {
            outs.push_one(Out::wanted(true));
        }
    }
    // Not logged: its time belongs to the calling kernel.
    checked(op, &attrs, &mut args, &mut outs, true, &NoEnv)?;
    Ok((0..op.outputs.len())
        .map(|i| outs.slot_mut(i).iter_mut().map(|o| std::mem::take(&mut o.value)).collect())
        .collect())
}
