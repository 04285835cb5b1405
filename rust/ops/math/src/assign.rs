//! assign: a copy-on-write reference to the input, whatever its kind.

use oar_core::op::infer::kind_of_first;
use oar_core::op::{Grad, GradOp, Kernel, NoAttrs, Op, SparseKernel, OP};
use oar_core::slots;

slots! {
    mod assign { X "X".dispensable() => OUT "Out".kernel_allocated() }
}

pub static ASSIGN: Op = Op {
    name: "assign",
    inputs: assign::INS,
    outputs: assign::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| if cx.has(assign::X) { kind_of_first(cx) } else { Ok(()) },
    cpu: Kernel::Pure(|cx| {
        let value = cx.value(assign::X)?.share()?;
        cx.set(assign::OUT, value);
        Ok(())
    }),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::Fn(|_| Ok(vec![GradOp::of_first(&ASSIGN, (ASSIGN.attrs.shared)().clone())])),
    cannot_fail: true,
    ..OP
};

pub static TABLE: &[&Op] = &[&ASSIGN];
