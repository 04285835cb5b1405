//! sigmoid_focal_loss: focal loss of logits.

use super::elements::{agree, like};
use super::label::{labels, one_label_a_row};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::loss::focal::Focal;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct FocalAttrs { gamma: f32 = 2.0, alpha: f32 = 0.25 }
}

slots! {
    mod focal { X "X", LABEL "Label", FOREGROUND "FgNum" => OUT "Out" }
    mod focal_grad { X "X", LABEL "Label", FOREGROUND "FgNum", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn kernel<'a>(cx: &KernelContext, labels: &'a [i64], width: usize, foreground: InSlot) -> Result<Focal<'a>> {
    let (n, a) = (cx.input(foreground)?.to_i64s()?, cx.attrs::<FocalAttrs>());
    ensure!(n.len() == 1, InvalidArgument, "operator {}: FgNum must hold one integer, got {}", cx.op.name, n.len());
    Ok(Focal { labels, width, alpha: a.alpha as f64, gamma: a.gamma, foreground: n[0].max(1) as f64 })
}

fn run_focal(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(focal::X)?;
    let (labels, width) = labels(cx, x, focal::LABEL)?;
    let focal = kernel(cx, &labels, width, focal::FOREGROUND)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        focal.loss(x.data::<T>(), cx.out_data::<T>(focal::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_focal_grad(cx: &mut KernelContext) -> Result<()> {
    use focal_grad::{DOUT, DX, FOREGROUND, LABEL, X};
    let x = cx.input(X)?;
    let dout = like(cx, DOUT, x)?;
    let (labels, width) = labels(cx, x, LABEL)?;
    let focal = kernel(cx, &labels, width, FOREGROUND)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        focal.grad(x.data::<T>(), dout.data::<T>(), cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static FOCAL: Op = Op {
    name: "sigmoid_focal_loss",
    inputs: focal::INS,
    outputs: focal::OUTS,
    dtypes: FLOATS,
    attrs: FocalAttrs::FIELDS,
    infer: |cx| {
        one_label_a_row(cx, focal::X, focal::LABEL)?;
        let n = cx.dims(focal::FOREGROUND)?;
        ensure!(
            n.len() == 1 && agree(n[0], 1),
            InvalidArgument,
            "operator sigmoid_focal_loss: FgNum must have the shape [1], got {:?}",
            &n[..]
        );
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, focal::X, run_focal)),
    grad: Grad::By(&FOCAL_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static FOCAL_GRAD: Op = Op {
    name: "sigmoid_focal_loss_grad",
    inputs: focal_grad::INS,
    outputs: focal_grad::OUTS,
    dtypes: FLOATS,
    attrs: FocalAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, focal_grad::X, run_focal_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&FOCAL, &FOCAL_GRAD];
