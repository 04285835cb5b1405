//! linear_chain_crf (negative log likelihood of a tag sequence) and crf_decoding (the best tag sequence).

use super::lod::{check, lengths, offsets};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::rnn::crf::{costs, costs_grad, paths, Sequences};
use oar_ops_common::axis::like;
use std::ops::Range;

slots! {
    /// Emission [rows, tags] and Label [rows, 1] with LoD, or [batch, steps, tags] and [batch, steps] with lengths.
    /// Transition [tags + 2, tags].
    mod crf {
        EMISSION "Emission", TRANSITION "Transition", LABEL "Label", LENGTH "Length".dispensable()
        => ALPHA "Alpha".intermediate(), X_EXPS "EmissionExps".intermediate(), W_EXPS "TransitionExps".intermediate(),
        COST "LogLikelihood".kernel_allocated()
    }
    mod crf_grad {
        EMISSION "Emission".meta_only(), TRANSITION "Transition".meta_only(), LABEL "Label", ALPHA "Alpha",
        X_EXPS "EmissionExps", W_EXPS "TransitionExps", LENGTH "Length".dispensable(), DCOST "LogLikelihood@GRAD"
        => DEMISSION "Emission@GRAD", DTRANSITION "Transition@GRAD"
    }
    mod decoding {
        EMISSION "Emission", TRANSITION "Transition", LABEL "Label".dispensable(), LENGTH "Length".dispensable()
        => PATH "ViterbiPath"
    }
}

/// Checks Emission, Transition and, if given, Label, which have the same slot numbers in both operators.
fn check_all(cx: &ShapeContext) -> Result<()> {
    let (x, w, dtype) = (cx.dims(crf::EMISSION)?, cx.dims(crf::TRANSITION)?, cx.dtype(crf::EMISSION)?);
    let padded = cx.has(crf::LENGTH);
    let rank = if padded { 3 } else { 2 };
    if x.len() != rank {
        return cx
            .wrong(crf::EMISSION, if padded { "[batch, steps, tags], with lengths" } else { "[rows, tags] with LoD" });
    }
    let tags = if x[rank - 1] >= 0 { x[rank - 1] } else { w.get(1).copied().unwrap_or(-1) };
    ensure!(tags != 0, InvalidArgument, "operator {}: Emission must have a tag or more", cx.op.name);
    check(cx, crf::TRANSITION, &[if tags < 0 { -1 } else { tags + 2 }, tags], dtype)?;
    if cx.has(crf::LABEL) {
        let label = cx.dims(crf::LABEL)?;
        let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
        let own = &x[..rank - 1];
        let fits = label.len() >= own.len()
            && own.iter().zip(&label).all(|(&a, &b)| agree(a, b))
            && (label.len() == own.len() || label.len() == rank && agree(label[rank - 1], 1));
        ensure!(
            fits,
            InvalidArgument,
            "operator {}: Label must have a tag for each row of Emission {:?}, got shape {:?}",
            cx.op.name,
            &x[..],
            &label[..]
        );
    }
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    check_all(cx)?;
    let (x, dtype) = (cx.dims(crf::EMISSION)?, cx.dtype(crf::EMISSION)?);
    cx.set(crf::ALPHA, &x, dtype);
    cx.set(crf::X_EXPS, &x, dtype);
    cx.like(crf::W_EXPS, crf::TRANSITION)?;
    cx.set(crf::COST, &[if cx.has(crf::LENGTH) { x[0] } else { -1 }, 1], dtype);
    Ok(())
}

/// The rows of each sequence, from lengths or the LoD of `of`.
fn sequences(cx: &KernelContext, x: &Tensor, length: InSlot, of: &Tensor, name: &str) -> Result<Vec<Range<usize>>> {
    let op = cx.op.name;
    if let Some(t) = cx.opt(length) {
        let (batch, steps) = (x.dims()[0] as usize, x.dims()[1] as usize);
        let n = lengths(op, "Length", t, batch, steps)?;
        return Ok(n.into_iter().enumerate().map(|(b, n)| b * steps..b * steps + n).collect());
    }
    let at = offsets(op, name, of)?;
    Ok(at.windows(2).map(|w| w[0]..w[1]).collect())
}

fn tags_of(op: &str, label: &Tensor, tags: usize) -> Result<Vec<usize>> {
    let ids = oar_ops_common::index::index_of(op, label)?;
    ids.iter()
        .map(|&id| match usize::try_from(id) {
            Ok(id) if id < tags => Ok(id),
            _ => bail!(InvalidArgument, "operator {op}: Label must be in [0, {tags}), the number of tags, got {id}"),
        })
        .collect()
}

/// The labels of the sequences; padding may hold any value.
fn labels(op: &str, label: &Tensor, parts: &[Range<usize>], tags: usize) -> Result<Vec<Vec<usize>>> {
    let flat = label.reshaped(&[label.numel() as i64]);
    parts.iter().map(|r| tags_of(op, &flat.rows(r.start, r.end), tags)).collect()
}

fn possible<T>(op: &str, found: Option<T>) -> Result<T> {
    match found {
        Some(found) => Ok(found),
        None => bail!(
            InvalidArgument,
            "operator {op}: the probabilities of all unfinished sequences are 0: the scores differ too much"
        ),
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, w, label) = (cx.input(crf::EMISSION)?, cx.input(crf::TRANSITION)?, cx.input(crf::LABEL)?);
    let (op, tags) = (cx.op.name, w.dims()[1] as usize);
    let parts = sequences(cx, x, crf::LENGTH, label, "Label")?;
    let labels = labels(op, label, &parts, tags)?;
    let mut cost = Tensor::empty(x.dtype(), &[parts.len() as i64, 1])?;
    let (mut alpha, mut x_exps) = (Tensor::zeros(x.dtype(), x.dims())?, Tensor::empty(x.dtype(), x.dims())?);
    let mut w_exps = Tensor::empty(x.dtype(), w.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let exps = (x_exps.data_mut::<T>()?, w_exps.data_mut::<T>()?);
        let all = Sequences { rows: &parts, labels: &labels };
        let operands = (x.data::<T>(), w.data::<T>(), tags);
        possible(op, costs(&all, operands, exps, alpha.data_mut::<T>()?, cost.data_mut::<T>()?))?;
    }, other => return cx.unsupported(other));
    cx.set_wanted([(crf::COST, cost), (crf::ALPHA, alpha), (crf::X_EXPS, x_exps), (crf::W_EXPS, w_exps)]);
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use crf_grad::*;
    let (x, w, label) = (cx.input(EMISSION)?, cx.input(TRANSITION)?, cx.input(LABEL)?);
    let (alpha, x_exps, w_exps, dcost) = (cx.input(ALPHA)?, cx.input(X_EXPS)?, cx.input(W_EXPS)?, cx.input(DCOST)?);
    let (op, dtype) = (cx.op.name, x_exps.dtype());
    like(cx, alpha, x.dims(), dtype, "Alpha")?;
    like(cx, x_exps, x.dims(), dtype, "EmissionExps")?;
    like(cx, w_exps, w.dims(), dtype, "TransitionExps")?;
    let tags = *w.dims().last().unwrap_or(&0) as usize;
    let parts = sequences(cx, x, LENGTH, label, "Label")?;
    let labels = labels(op, label, &parts, tags)?;
    like(cx, dcost, &[parts.len() as i64, 1], dtype, "the gradient of LogLikelihood")?;
    let mut dw = if cx.wants(DTRANSITION) { Some(cx.take_out(DTRANSITION)?) } else { None };
    let mut dx = Tensor::zeros(dtype, x.dims())?.with_lod(x.lod.clone());
    dispatch!(dtype, T in [f32, f64], {
        let mut dw = dw.as_mut().map(|t| t.data_mut::<T>()).transpose()?;
        if let Some(dw) = &mut dw {
            dw.fill(0.0);
        }
        let all = Sequences { rows: &parts, labels: &labels };
        let saved = (x_exps.data::<T>(), w_exps.data::<T>(), alpha.data::<T>(), tags);
        possible(op, costs_grad(&all, saved, dcost.data::<T>(), dx.data_mut::<T>()?, dw))?;
    }, other => return cx.unsupported(other));
    if cx.wants(DEMISSION) {
        cx.set(DEMISSION, dx);
    }
    if let Some(dw) = dw {
        cx.set(DTRANSITION, dw);
    }
    Ok(())
}

fn infer_decoding(cx: &mut ShapeContext) -> Result<()> {
    check_all(cx)?;
    let x = cx.dims(decoding::EMISSION)?;
    let dims = if cx.has(decoding::LENGTH) { [x[0], x[1]] } else { [x[0], 1] };
    cx.set(decoding::PATH, &dims, DType::I64);
    cx.share_lod(decoding::PATH, decoding::EMISSION);
    Ok(())
}

fn decode(cx: &mut KernelContext) -> Result<()> {
    let (x, w, label) = (cx.input(decoding::EMISSION)?, cx.input(decoding::TRANSITION)?, cx.opt(decoding::LABEL));
    let (op, tags) = (cx.op.name, w.dims()[1] as usize);
    let parts = sequences(cx, x, decoding::LENGTH, x, "Emission")?;
    let path = cx.out_data::<i64>(decoding::PATH)?;
    path.fill(0);
    dispatch!(x.dtype(), T in [f32, f64], {
        paths(&parts, (x.data::<T>(), w.data::<T>(), tags), path);
    }, other => return cx.unsupported(other));
    if let Some(label) = label {
        let ids = oar_ops_common::index::index_of(op, label)?;
        parts.into_iter().flatten().for_each(|row| path[row] = (path[row] == ids[row]) as i64);
    }
    Ok(())
}

pub static CRF: Op = Op {
    name: "linear_chain_crf",
    inputs: crf::INS,
    outputs: crf::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&CRF_GRAD),
    ..OP
};

pub static CRF_GRAD: Op = Op {
    name: "linear_chain_crf_grad",
    inputs: crf_grad::INS,
    outputs: crf_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static CRF_DECODING: Op = Op {
    name: "crf_decoding",
    inputs: decoding::INS,
    outputs: decoding::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_decoding,
    cpu: Kernel::Pure(decode),
    ..OP
};

pub static TABLE: &[&Op] = &[&CRF, &CRF_GRAD, &CRF_DECODING];
