//! Losses of probabilities: bce_loss, log_loss, kldiv_loss.

use super::elements::{each2, each3, like, of_size, one_column, same_shapes};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{bail, dispatch, ensure, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct LogLossAttrs { epsilon: f32 }
    pub struct KldivAttrs { reduction: Text = "mean".into() }
}

slots! {
    mod bce { X "X", LABEL "Label" => OUT "Out" }
    mod bce_grad { X "X", LABEL "Label", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod log_loss { PREDICTED "Predicted", LABELS "Labels" => LOSS "Loss" }
    mod log_loss_grad { PREDICTED "Predicted", LABELS "Labels", DLOSS "Loss@GRAD" => DPREDICTED "Predicted@GRAD" }
    mod kldiv { X "X", TARGET "Target" => LOSS "Loss" }
    mod kldiv_grad { X "X".meta_only(), TARGET "Target", DLOSS "Loss@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

// bce_loss

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

// log_loss

fn run_log_loss(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(log_loss::PREDICTED)?;
    let label = like(cx, log_loss::LABELS, x)?;
    let epsilon = cx.attrs::<LogLossAttrs>().epsilon;
    dispatch!(x.dtype(), T in [f32, f64], {
        let e = epsilon as T;
        each2(x.data::<T>(), label.data::<T>(), cx.out_data::<T>(log_loss::LOSS)?, |x, y| {
            -(y * (x + e).ln()) - (1.0 - y) * (1.0 - x + e).ln()
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_log_loss_grad(cx: &mut KernelContext) -> Result<()> {
    use log_loss_grad::{DLOSS, DPREDICTED, LABELS, PREDICTED};
    let x = cx.input(PREDICTED)?;
    let (label, dloss) = (like(cx, LABELS, x)?, like(cx, DLOSS, x)?);
    let epsilon = cx.attrs::<LogLossAttrs>().epsilon;
    dispatch!(x.dtype(), T in [f32, f64], {
        let e = epsilon as T;
        let (xs, y, d) = (x.data::<T>(), label.data::<T>(), dloss.data::<T>());
        each3(xs, y, d, cx.out_data::<T>(DPREDICTED)?, |x, y, d| {
            d * (-(y / (x + e)) + (1.0 - y) / (1.0 - x + e))
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static LOG_LOSS: Op = Op {
    name: "log_loss",
    inputs: log_loss::INS,
    outputs: log_loss::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: LogLossAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[log_loss::PREDICTED, log_loss::LABELS])?;
        one_column(cx, log_loss::PREDICTED)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, log_loss::PREDICTED, run_log_loss)),
    grad: Grad::By(&LOG_LOSS_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static LOG_LOSS_GRAD: Op = Op {
    name: "log_loss_grad",
    inputs: log_loss_grad::INS,
    outputs: log_loss_grad::OUTS,
    dtypes: FLOATS,
    attrs: LogLossAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, log_loss_grad::PREDICTED, run_log_loss_grad)),
    ..OP
};

// kldiv_loss

fn infer_kldiv(cx: &mut ShapeContext) -> Result<()> {
    same_shapes(cx, &[kldiv::X, kldiv::TARGET])?;
    let (dims, dtype) = (cx.dims(kldiv::X)?, cx.dtype(kldiv::X)?);
    let reduction = &cx.attrs::<KldivAttrs>().reduction;
    ensure!(
        ["none", "batchmean", "sum", "mean"].contains(&reduction.as_str()),
        InvalidArgument,
        "operator kldiv_loss: reduction must be 'none', 'batchmean', 'sum' or 'mean', got '{reduction}'"
    );
    let whole: &[i64] = if *reduction == "none" { &dims } else { &[1] };
    cx.set(kldiv::LOSS, whole, dtype);
    Ok(())
}

/// What the sum over so many elements is divided by.
fn divisor(reduction: &str, dims: &[i64], n: usize) -> f64 {
    match reduction {
        "mean" => n as f64,
        "batchmean" => dims.first().map_or(1.0, |&b| b.max(1) as f64),
        _ => 1.0,
    }
}

fn run_kldiv(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(kldiv::X)?;
    let target = like(cx, kldiv::TARGET, x)?;
    let reduction = &cx.attrs::<KldivAttrs>().reduction;
    let by = divisor(reduction, x.dims(), x.numel());
    dispatch!(x.dtype(), T in [f32, f64], {
        let one = |x: T, t: T| if t <= 0.0 { 0.0 } else { t * (t.ln() - x) };
        let (xs, ts) = (x.data::<T>(), target.data::<T>());
        let out = cx.out_data::<T>(kldiv::LOSS)?;
        if *reduction == "none" {
            each2(xs, ts, out, one);
        } else {
            let sum: f64 = xs.iter().zip(ts).map(|(&x, &t)| f64::from(one(x, t))).sum();
            out[0] = (sum / by) as T;
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_kldiv_grad(cx: &mut KernelContext) -> Result<()> {
    let target = cx.input(kldiv_grad::TARGET)?;
    let reduction = &cx.attrs::<KldivAttrs>().reduction;
    let n = target.numel();
    let each = *reduction == "none";
    let dloss = of_size(cx, kldiv_grad::DLOSS, if each { n } else { 1 }, target.dtype())?;
    let by = divisor(reduction, target.dims(), n);
    super::elements::check_outs(cx, &[kldiv_grad::DX], n, target.dtype())?;
    dispatch!(target.dtype(), T in [f32, f64], {
        let (t, d) = (target.data::<T>(), dloss.data::<T>());
        let out = cx.out_data::<T>(kldiv_grad::DX)?;
        if each {
            each2(t, d, out, |t, d| if t <= 0.0 { 0.0 } else { -t * d });
        } else {
            let d = d[0] / by as T;
            each2(t, t, out, |t, _| if t <= 0.0 { 0.0 } else { -t * d });
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static KLDIV: Op = Op {
    name: "kldiv_loss",
    inputs: kldiv::INS,
    outputs: kldiv::OUTS,
    dtypes: FLOATS,
    attrs: KldivAttrs::FIELDS,
    infer: infer_kldiv,
    cpu: Kernel::Pure(|cx| in_f32(cx, kldiv::X, run_kldiv)),
    grad: Grad::By(&KLDIV_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static KLDIV_GRAD: Op = Op {
    name: "kldiv_loss_grad",
    inputs: kldiv_grad::INS,
    outputs: kldiv_grad::OUTS,
    dtypes: FLOATS,
    attrs: KldivAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, kldiv_grad::TARGET, run_kldiv_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&BCE, &BCE_GRAD, &LOG_LOSS, &LOG_LOSS_GRAD, &KLDIV, &KLDIV_GRAD];
