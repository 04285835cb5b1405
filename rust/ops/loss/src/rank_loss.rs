//! rank_loss: pairwise logistic ranking loss.

use super::elements::{agree, each3, of_size};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_ops_common::half::in_f32;

slots! {
    mod rank { LABEL "Label", LEFT "Left", RIGHT "Right" => OUT "Out" }
    mod rank_grad {
        LABEL "Label", LEFT "Left", RIGHT "Right", DOUT "Out@GRAD" => DLEFT "Left@GRAD", DRIGHT "Right@GRAD"
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer_rank(cx: &mut ShapeContext) -> Result<()> {
    let rows = *cx.dims(rank::LABEL)?.first().unwrap_or(&-1);
    for slot in [rank::LABEL, rank::LEFT, rank::RIGHT] {
        let dims = cx.dims(slot)?;
        ensure!(
            (dims.len() == 1 || dims.len() == 2 && agree(dims[1], 1)) && agree(dims[0], rows),
            InvalidArgument,
            "operator rank_loss: Label, Left and Right must have the shape [N] or [N, 1] with one N, got {:?} for {}",
            &dims[..],
            cx.op.inputs[slot.0].name
        );
    }
    cx.like(rank::OUT, rank::LABEL)
}

fn run_rank(cx: &mut KernelContext) -> Result<()> {
    let label = cx.input(rank::LABEL)?;
    let (n, dtype) = (label.numel(), label.dtype());
    let (left, right) = (of_size(cx, rank::LEFT, n, dtype)?, of_size(cx, rank::RIGHT, n, dtype)?);
    dispatch!(label.dtype(), T in [f32, f64], {
        each3(label.data::<T>(), left.data::<T>(), right.data::<T>(), cx.out_data::<T>(rank::OUT)?, |y, l, r| {
            let v = l - r;
            // ln(1 + e^v) without overflow
            v.max(0.0) + (-v.abs()).exp().ln_1p() - y * v
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_rank_grad(cx: &mut KernelContext) -> Result<()> {
    use rank_grad::{DLEFT, DOUT, DRIGHT, LABEL, LEFT, RIGHT};
    let label = cx.input(LABEL)?;
    let (n, dtype) = (label.numel(), label.dtype());
    let [left, right, dout] =
        [of_size(cx, LEFT, n, dtype)?, of_size(cx, RIGHT, n, dtype)?, of_size(cx, DOUT, n, dtype)?];
    dispatch!(label.dtype(), T in [f32, f64], {
        let (y, l, r) = (label.data::<T>(), left.data::<T>(), right.data::<T>());
        for (slot, sign) in [(DLEFT, 1.0), (DRIGHT, -1.0)] {
            if cx.wants(slot) {
                let out = cx.out_data::<T>(slot)?;
                each3(y, l, r, out, |y, l, r| sign * (1.0 / (1.0 + (r - l).exp()) - y));
                out.iter_mut().zip(dout.data::<T>()).for_each(|(o, d)| *o *= d);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static RANK: Op = Op {
    name: "rank_loss",
    inputs: rank::INS,
    outputs: rank::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: NoAttrs::FIELDS,
    infer: infer_rank,
    cpu: Kernel::Pure(|cx| in_f32(cx, rank::LABEL, run_rank)),
    grad: Grad::By(&RANK_GRAD),
    ..OP
};

pub static RANK_GRAD: Op = Op {
    name: "rank_loss_grad",
    inputs: rank_grad::INS,
    outputs: rank_grad::OUTS,
    dtypes: FLOATS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, rank_grad::LABEL, run_rank_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&RANK, &RANK_GRAD];
