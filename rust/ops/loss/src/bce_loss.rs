//! bce_loss: binary cross entropy of probabilities.

use super::elements::{each2, each3, like, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, OP};
use oar_core::{bail, dispatch, slots};
use oar_ops_common::half::in_f32;

slots! {
    mod bce { X "X", LABEL "Label" => OUT "Out" }
    mod bce_grad { X "X", LABEL "Label", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_bce(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(bce::X)?;
    let label = like(cx, bce::LABEL, x)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let xs = x.data::<T>();
        if let Some(v) = xs.iter().find(|&&v| !(0.0..=1.0).contains(&v)) {
            bail!(InvalidArgument, "operator bce_loss: X must hold probabilities, numbers from 0 to 1, got {v}");
        }
        each2(xs, label.data::<T>(), cx.out_data::<T>(bce::OUT)?, |x, y| {
            (y - 1.0) * (1.0 - x).ln().max(-100.0) - y * x.ln().max(-100.0)
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_bce_grad(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(bce_grad::X)?;
    let (label, dout) = (like(cx, bce_grad::LABEL, x)?, like(cx, bce_grad::DOUT, x)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, y, d) = (x.data::<T>(), label.data::<T>(), dout.data::<T>());
        each3(xs, y, d, cx.out_data::<T>(bce_grad::DX)?, |x, y, d| {
            d * ((x - y) / ((1.0 - x) * x).max(1e-12))
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static BCE: Op = Op {
    name: "bce_loss",
    inputs: bce::INS,
    outputs: bce::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[bce::X, bce::LABEL])?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, bce::X, run_bce)),
    grad: Grad::By(&BCE_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static BCE_GRAD: Op = Op {
    name: "bce_loss_grad",
    inputs: bce_grad::INS,
    outputs: bce_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, bce_grad::X, run_bce_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&BCE, &BCE_GRAD];
