//! nll_loss: negative log likelihood, from log probabilities.

use super::label::by_label;
use oar_core::attrs;
use oar_core::base::{DTypes, Error, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::loss::cross_entropy::BadLabel;
use oar_kernels::loss::nll::Nll;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct NllAttrs { ignore_index: i64 = -100, reduction: Text = "mean".into() }
}

slots! {
    mod nll { X "X", LABEL "Label", WEIGHT "Weight".dispensable() => OUT "Out", TOTAL "Total_weight" }
    mod nll_grad {
        X "X".meta_only(), LABEL "Label", TOTAL "Total_weight", WEIGHT "Weight".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer_nll(cx: &mut ShapeContext) -> Result<()> {
    use nll::{LABEL, OUT, TOTAL, WEIGHT, X};
    let (x, label, dtype) = (cx.dims(X)?, cx.dims(LABEL)?, cx.dtype(X)?);
    let a = cx.attrs::<NllAttrs>();
    ensure!(
        x.len() == 2 || x.len() == 4,
        InvalidArgument,
        "operator nll_loss: X must have 2 or 4 dimensions, got shape {:?}",
        &x[..]
    );
    ensure!(
        ["none", "mean", "sum"].contains(&a.reduction.as_str()),
        InvalidArgument,
        "operator nll_loss: reduction must be 'none', 'mean' or 'sum', got '{}'",
        a.reduction
    );
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    let fits = match x.len() {
        2 => !label.is_empty() && agree(label[0], x[0]) && label[1..].iter().all(|&d| agree(d, 1)),
        _ => label.len() == 3 && agree(label[0], x[0]) && agree(label[1], x[2]) && agree(label[2], x[3]),
    };
    ensure!(
        fits,
        InvalidArgument,
        "operator nll_loss: Label must have the shape of X {:?} without its second dimension, got {:?}",
        &x[..],
        &label[..]
    );
    if cx.has(WEIGHT) {
        let w = cx.dims(WEIGHT)?;
        ensure!(
            w.len() == 1 && agree(w[0], x[1]),
            InvalidArgument,
            "operator nll_loss: Weight must have one number for each of the {} classes, got shape {:?}",
            x[1],
            &w[..]
        );
    }
    match (&a.reduction[..], x.len()) {
        ("none", 2) => cx.set(OUT, &[x[0]], dtype),
        ("none", _) => cx.set(OUT, &[x[0], x[2], x[3]], dtype),
        _ => cx.set(OUT, &[1], dtype),
    }
    cx.set(TOTAL, &[1], dtype);
    Ok(())
}

/// Samples, classes, and positions per sample.
fn sizes(op: &str, dims: &[i64], label: &Tensor) -> Result<(usize, usize)> {
    ensure!(dims.len() >= 2, InvalidArgument, "operator {op}: X must have 2 or 4 dimensions, got shape {dims:?}");
    let inner = dims[2..].iter().product::<i64>() as usize;
    ensure!(
        label.numel() == dims[0] as usize * inner,
        InvalidArgument,
        "operator {op}: Label must have one class for each loss of X {dims:?}, got {label:?}"
    );
    Ok((dims[1] as usize, inner))
}

/// The class weights, if given.
fn weights<'a>(cx: &KernelContext<'a>, slot: InSlot, like: &Tensor, classes: usize) -> Result<Option<&'a Tensor>> {
    let Some(w) = cx.opt(slot) else { return Ok(None) };
    ensure!(
        w.numel() == classes && w.dtype() == like.dtype(),
        InvalidArgument,
        "operator {}: Weight must have {classes} elements of data type {}, got {w:?}",
        cx.op.name,
        like.dtype()
    );
    Ok(Some(w))
}

fn bad_label(op: &str, ignored: i64, e: BadLabel) -> Error {
    err!(
        InvalidArgument,
        "operator {op}: Label must hold classes from 0 to below {}, or ignore_index {ignored}, got {}",
        e.classes,
        e.label
    )
}

fn run_nll(cx: &mut KernelContext) -> Result<()> {
    use nll::{LABEL, OUT, TOTAL, WEIGHT, X};
    let (x, label, a) = (cx.input(X)?, cx.input(LABEL)?, cx.attrs::<NllAttrs>());
    let name = cx.op.name;
    let at = sizes(name, x.dims(), label)?;
    let weight = weights(cx, WEIGHT, x, at.0)?;
    dispatch!(x.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let out = cx.out_data::<T>(OUT)?;
        let (classes, positions) = at;
        let nll = Nll { classes, positions, ignored: a.ignore_index, weights: weight.map(|w| w.data::<T>()) };
        let each = (a.reduction == "none").then_some(&mut *out);
        let (sum, total) = nll.loss(x.data::<T>(), l, each).map_err(|e| bad_label(name, a.ignore_index, e))?;
        if a.reduction != "none" {
            let by = if a.reduction == "mean" && total != 0.0 { total } else { 1.0 };
            out[0] = (sum / by) as T;
        }
        // As in Paddle, which sums weights only as a divisor.
        cx.out_data::<T>(TOTAL)?[0] = if a.reduction == "none" { 0.0 } else { total as T };
    }), other => return cx.unsupported(other));
    Ok(())
}

fn run_nll_grad(cx: &mut KernelContext) -> Result<()> {
    use nll_grad::{DOUT, DX, LABEL, TOTAL, WEIGHT};
    let (label, dout, a) = (cx.input(LABEL)?, cx.input(DOUT)?, cx.attrs::<NllAttrs>());
    let name = cx.op.name;
    let at = sizes(name, cx.out(DX)?.dims(), label)?;
    let weight = weights(cx, WEIGHT, dout, at.0)?;
    let each = a.reduction == "none";
    let want = if each { label.numel() } else { 1 };
    let total = cx.input(TOTAL)?;
    ensure!(
        dout.numel() == want && total.numel() == 1 && total.dtype() == dout.dtype(),
        InvalidArgument,
        "operator {name}: the gradient of Out must have {want} elements and Total_weight one, got {dout:?} and {total:?}"
    );
    dispatch!(dout.dtype(), T in [f32, f64], by_label!(cx, label, |l| {
        let total = total.data::<T>()[0];
        let by = if a.reduction == "mean" && total != 0.0 { total } else { 1.0 };
        let out = cx.out_data::<T>(DX)?;
        out.fill(0.0);
        let (classes, positions) = at;
        let nll = Nll { classes, positions, ignored: a.ignore_index, weights: weight.map(|w| w.data::<T>()) };
        nll.grad(l, dout.data::<T>(), each, by, out).map_err(|e| bad_label(name, a.ignore_index, e))?;
    }), other => return cx.unsupported(other));
    Ok(())
}

pub static NLL: Op = Op {
    name: "nll_loss",
    inputs: nll::INS,
    outputs: nll::OUTS,
    dtypes: FLOATS,
    attrs: NllAttrs::FIELDS,
    infer: infer_nll,
    cpu: Kernel::Pure(|cx| in_f32(cx, nll::X, run_nll)),
    grad: Grad::By(&NLL_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static NLL_GRAD: Op = Op {
    name: "nll_loss_grad",
    inputs: nll_grad::INS,
    outputs: nll_grad::OUTS,
    dtypes: FLOATS,
    attrs: NllAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, nll_grad::DOUT, run_nll_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&NLL, &NLL_GRAD];
