//! sigmoid_focal_loss: focal loss of logits.

use super::elements::{agree, like};
use super::label::{labels, one_label_a_row};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::pool;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct FocalAttrs { gamma: f32 = 2.0, alpha: f32 = 0.25 }
}

slots! {
    mod focal { X "X", LABEL "Label", FOREGROUND "FgNum" => OUT "Out" }
    mod focal_grad { X "X", LABEL "Label", FOREGROUND "FgNum", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

const GRAIN: usize = 1 << 12;

/// The weights of the two terms for class `k`: alpha or 1 - alpha, over the number of foreground samples.
fn shares(label: i64, k: usize, alpha: f64, foreground: f64) -> (f64, f64) {
    let own = label == k as i64 + 1;
    let positive = if own { alpha / foreground } else { 0.0 };
    (positive, if !own && label != -1 { (1.0 - alpha) / foreground } else { 0.0 })
}

fn foreground(cx: &KernelContext, slot: InSlot) -> Result<f64> {
    let n = cx.input(slot)?.to_i64s()?;
    ensure!(n.len() == 1, InvalidArgument, "operator {}: FgNum must hold one integer, got {}", cx.op.name, n.len());
    Ok(n[0].max(1) as f64)
}

fn run_focal(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(focal::X)?;
    let (labels, width) = labels(cx, x, focal::LABEL)?;
    let (n, a) = (foreground(cx, focal::FOREGROUND)?, cx.attrs::<FocalAttrs>());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, gamma) = (x.data::<T>(), a.gamma as T);
        pool::parts(cx.out_data::<T>(focal::OUT)?, GRAIN, |at, out| {
            for (k, o) in out.iter_mut().enumerate() {
                let (i, x) = (at + k, xs[at + k]);
                let (positive, negative) = shares(labels[i / width], i % width, a.alpha as f64, n);
                let p = 1.0 / (1.0 + (-x).exp());
                // ln(1 - p)
                let rest = -x.max(0.0) - (-x.abs()).exp().ln_1p();
                *o = -(1.0 - p).powf(gamma) * p.max(f32::MIN_POSITIVE as T).ln() * positive as T
                    - p.powf(gamma) * rest * negative as T;
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_focal_grad(cx: &mut KernelContext) -> Result<()> {
    use focal_grad::{DOUT, DX, FOREGROUND, LABEL, X};
    let x = cx.input(X)?;
    let dout = like(cx, DOUT, x)?;
    let (labels, width) = labels(cx, x, LABEL)?;
    let (n, a) = (foreground(cx, FOREGROUND)?, cx.attrs::<FocalAttrs>());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (xs, d, gamma) = (x.data::<T>(), dout.data::<T>(), a.gamma as T);
        pool::parts(cx.out_data::<T>(DX)?, GRAIN, |at, out| {
            for (k, o) in out.iter_mut().enumerate() {
                let (i, x) = (at + k, xs[at + k]);
                let (positive, negative) = shares(labels[i / width], i % width, a.alpha as f64, n);
                let p = 1.0 / (1.0 + (-x).exp());
                let rest = -x.max(0.0) - (-x.abs()).exp().ln_1p();
                let own = (1.0 - p).powf(gamma) * (1.0 - p - p * gamma * p.max(f32::MIN_POSITIVE as T).ln());
                let other = p.powf(gamma) * (rest * (1.0 - p) * gamma - p);
                *o = (-(positive as T) * own - negative as T * other) * d[i];
            }
        });
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
