//! assert: fails, after printing tensors, if a condition is false.

use super::{describe, PrintAttrs};
use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{ensure, slots};
use std::io::Write as _;

attrs! {
    pub struct AssertAttrs { summarize: i64 = -1 }
}

slots! {
    mod assert { COND "Cond", DATA "Data".duplicable() => }
}

fn assert(cx: &mut KernelContext) -> Result<()> {
    let (op, cond) = (cx.op.name, cx.input(assert::COND)?);
    ensure!(
        cond.dims() == [1] && cond.dtype() == DType::Bool,
        InvalidArgument,
        "operator {op}: Cond must be a bool of shape [1], got {cond:?}"
    );
    if cond.data::<bool>()[0] {
        return Ok(());
    }
    let summarize = cx.attrs::<AssertAttrs>().summarize.clamp(-1, i32::MAX as i64) as i32;
    let shown = PrintAttrs { summarize, ..PrintAttrs::default() };
    let names = cx.env.names("Data");
    let mut text = String::new();
    for (i, t) in cx.inputs(assert::DATA)?.iter().enumerate() {
        text += &describe(t, names.get(i).map_or("", String::as_str), &shown);
    }
    let _ = std::io::stdout().lock().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
    let name = cx.env.names("Cond").first().cloned().unwrap_or_default();
    oar_core::bail!(InvalidArgument, "operator {op}: the condition '{name}' must be true, but it is false")
}

pub static ASSERT: Op = Op {
    name: "assert",
    inputs: assert::INS,
    outputs: assert::OUTS,
    attrs: AssertAttrs::FIELDS,
    cpu: Kernel::Host(assert),
    ..OP
};

pub static TABLE: &[&Op] = &[&ASSERT];
