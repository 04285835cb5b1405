//! sequence_softmax: softmax over the steps of every sequence of the last level.

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::sequence::softmax as kernel;

attrs! {
    pub struct SoftmaxAttrs { use_cudnn: bool = false, data_format: Text = "AnyLayout".into() }
}

slots! {
    mod softmax { X "X" => OUT "Out" }
    mod softmax_grad { X "X".meta_only(), OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn level<'a>(op: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    let level = levels::last(op, "X", x)?;
    ensure!(
        x.numel() == x.dims()[0] as usize,
        InvalidArgument,
        "operator {op}: a step of X must have one element, got shape {:?}",
        x.dims()
    );
    Ok(level)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(softmax::X)?;
    let level = level(cx.op.name, x)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::softmax(level, x.data::<T>(), cx.out_data::<T>(softmax::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, out, dout) = (cx.input(softmax_grad::X)?, cx.input(softmax_grad::OUT)?, cx.input(softmax_grad::DOUT)?);
    let level = level(cx.op.name, x)?;
    for t in [out, dout] {
        ensure!(
            t.numel() == x.numel() && t.dtype() == x.dtype(),
            InvalidArgument,
            "operator sequence_softmax_grad: Out and its gradient must be like X {x:?}, got {t:?}"
        );
    }
    dispatch!(dout.dtype(), T in [f32, f64], {
        kernel::softmax_grad(level, out.data::<T>(), dout.data::<T>(), cx.out_data::<T>(softmax_grad::DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_SOFTMAX: Op = Op {
    name: "sequence_softmax",
    inputs: softmax::INS,
    outputs: softmax::OUTS,
    attrs: SoftmaxAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: like_first,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEQUENCE_SOFTMAX_GRAD),
    ..OP
};

pub static SEQUENCE_SOFTMAX_GRAD: Op = Op {
    name: "sequence_softmax_grad",
    inputs: softmax_grad::INS,
    outputs: softmax_grad::OUTS,
    attrs: SoftmaxAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_SOFTMAX, &SEQUENCE_SOFTMAX_GRAD];
