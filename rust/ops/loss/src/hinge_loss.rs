//! hinge_loss of labels 0 or 1.

use super::elements::{each2, each3, like, one_column, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::{dispatch, slots};
use oar_ops_common::half::in_f32;

slots! {
    mod hinge { LOGITS "Logits", LABELS "Labels" => LOSS "Loss" }
    mod hinge_grad { LOGITS "Logits", LABELS "Labels", DLOSS "Loss@GRAD" => DLOGITS "Logits@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_hinge(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(hinge::LOGITS)?;
    let y = like(cx, hinge::LABELS, x)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        each2(x.data::<T>(), y.data::<T>(), cx.out_data::<T>(hinge::LOSS)?, |x, y| {
            let v = 1.0 - x * (2.0 * y - 1.0);
            if v < 0.0 { 0.0 } else { v }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_hinge_grad(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(hinge_grad::LOGITS)?;
    let (y, d) = (like(cx, hinge_grad::LABELS, x)?, like(cx, hinge_grad::DLOSS, x)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        each3(x.data::<T>(), y.data::<T>(), d.data::<T>(), cx.out_data::<T>(hinge_grad::DLOGITS)?, |x, y, d| {
            let sign = 2.0 * y - 1.0;
            d * if x * sign < 1.0 { -sign } else { 0.0 }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static HINGE: Op = Op {
    name: "hinge_loss",
    inputs: hinge::INS,
    outputs: hinge::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[hinge::LOGITS, hinge::LABELS])?;
        one_column(cx, hinge::LOGITS)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, hinge::LOGITS, run_hinge)),
    grad: Grad::By(&HINGE_GRAD),
    ..OP
};

pub static HINGE_GRAD: Op = Op {
    name: "hinge_loss_grad",
    inputs: hinge_grad::INS,
    outputs: hinge_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, hinge_grad::LOGITS, run_hinge_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&HINGE, &HINGE_GRAD];
