//! kldiv_loss: Kullback-Leibler divergence from log probabilities.

use super::elements::{each2, like, of_size, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct KldivAttrs { reduction: Text = "mean".into() }
}

slots! {
    mod kldiv { X "X", TARGET "Target" => LOSS "Loss" }
    mod kldiv_grad { X "X".meta_only(), TARGET "Target", DLOSS "Loss@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

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

/// The divisor of the sum over `n` elements.
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

pub static TABLE: &[&Op] = &[&KLDIV, &KLDIV_GRAD];
