//! warpctc: the CTC loss (connectionist temporal classification) of logits.

use super::lod::{lengths, offsets};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::pool::{self, Shared};
use oar_kernels::rnn::ctc;
use oar_ops_common::index::index_of;
use std::ops::Range;

attrs! {
    pub struct WarpctcAttrs { blank: i32 = 0, norm_by_times: bool = false }
}

slots! {
    /// Padded: Logits [steps, batch, classes] and Label [batch, labels], with their lengths. Without lengths Logits
    /// [steps of all sequences, classes] and Label [labels of all sequences, 1], with LoD.
    mod warpctc {
        LOGITS "Logits", LABEL "Label", STEPS "LogitsLength".dispensable(), LABELS "LabelLength".dispensable()
        => GRAD "WarpCTCGrad".intermediate().kernel_allocated(), LOSS "Loss".kernel_allocated()
    }
    mod warpctc_grad {
        GRAD "WarpCTCGrad", LOGITS "Logits", DLOSS "Loss@GRAD", STEPS "LogitsLength".dispensable() => DLOGITS "Logits@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, label) = (cx.dims(warpctc::LOGITS)?, cx.dims(warpctc::LABEL)?);
    let (dtype, blank) = (cx.dtype(warpctc::LOGITS)?, cx.attrs::<WarpctcAttrs>().blank);
    let padded = cx.has(warpctc::STEPS);
    ensure!(
        padded == cx.has(warpctc::LABELS),
        InvalidArgument,
        "operator {}: LogitsLength and LabelLength must be given together",
        cx.op.name
    );
    let rank = if padded { 3 } else { 2 };
    // While sizes are unknown, extra dimensions are accepted: `fluid.layers.data` prepends one to shapes that have a
    // batch.
    let passes = |dims: &[i64], rank: usize| dims.len() == rank || dims.len() > rank && dims.contains(&-1);
    if !passes(&x, rank) {
        return cx
            .wrong(warpctc::LOGITS, if padded { "of three dimensions, with lengths" } else { "of two, with LoD" });
    }
    if !passes(&label, 2) {
        return cx.wrong(warpctc::LABEL, "of two dimensions");
    }
    let classes = x[x.len() - 1];
    ensure!(
        blank >= 0 && (classes < 0 || (blank as i64) < classes),
        InvalidArgument,
        "operator {}: blank must be in [0, {classes}), the number of classes, got {blank}",
        cx.op.name
    );
    let batch = if padded && x.len() == rank { x[1] } else { -1 };
    if padded {
        ensure!(
            label[0] == batch || label[0] < 0 || batch < 0,
            InvalidArgument,
            "operator {}: Label must have a row for each of {batch} sequences, got shape {:?}",
            cx.op.name,
            &label[..]
        );
    }
    cx.set(warpctc::LOSS, &[batch, 1], dtype);
    cx.set(warpctc::GRAD, &[if padded { x[0] } else { -1 }, batch, classes], dtype);
    Ok(())
}

/// The layout of sequences and labels: rows of scores in `x` (one per step), steps, labels.
struct Batch {
    steps: Vec<usize>,
    labels: Vec<Range<usize>>,
    /// The row of a sequence's first step, and the stride of its steps.
    rows: Vec<(usize, usize)>,
    classes: usize,
}

fn rows_of(op: &str, logits: &Tensor, lens: Option<&Tensor>) -> Result<(Vec<usize>, Vec<(usize, usize)>)> {
    let rank = if lens.is_some() { 3 } else { 2 };
    ensure!(
        logits.rank() == rank,
        InvalidArgument,
        "operator {op}: Logits must have {rank} dimensions, got {logits:?}"
    );
    if let Some(t) = lens {
        let (most, batch) = (logits.dims()[0] as usize, logits.dims()[1] as usize);
        return Ok((lengths(op, "LogitsLength", t, batch, most)?, (0..batch).map(|b| (b, batch)).collect()));
    }
    let at = offsets(op, "Logits", logits)?;
    Ok((at.windows(2).map(|w| w[1] - w[0]).collect(), at[..at.len() - 1].iter().map(|&a| (a, 1)).collect()))
}

fn batch(cx: &KernelContext) -> Result<Batch> {
    let (logits, label, op) = (cx.input(warpctc::LOGITS)?, cx.input(warpctc::LABEL)?, cx.op.name);
    let (steps, rows) = rows_of(op, logits, cx.opt(warpctc::STEPS))?;
    let width = label.dims()[1] as usize;
    let labels: Vec<Range<usize>> = match cx.opt(warpctc::LABELS) {
        Some(t) => {
            let lengths = lengths(op, "LabelLength", t, steps.len(), width)?;
            lengths.iter().enumerate().map(|(b, &n)| b * width..b * width + n).collect()
        }
        None => {
            let at = offsets(op, "Label", label)?;
            ensure!(
                at.len() == steps.len() + 1 && width == 1,
                InvalidArgument,
                "operator {op}: Label must be [labels, 1] of {} sequences, got {label:?} of {}",
                steps.len(),
                at.len() - 1
            );
            at.windows(2).map(|w| w[0]..w[1]).collect()
        }
    };
    let classes = logits.dims().last().copied().unwrap_or(0) as usize;
    Ok(Batch { steps, labels, rows, classes })
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (logits, label, op) = (cx.input(warpctc::LOGITS)?, cx.input(warpctc::LABEL)?, cx.op.name);
    let Batch { steps, labels, rows, classes } = batch(cx)?;
    let blank = cx.attrs::<WarpctcAttrs>().blank as usize;
    let ids = index_of(op, label)?;
    if let Some(id) = labels.iter().cloned().flatten().map(|i| ids[i]).find(|&id| id < 0 || id as usize >= classes) {
        bail!(InvalidArgument, "operator {op}: Label must be in [0, {classes}), the number of classes, got {id}");
    }
    let n = steps.len();
    let most = match cx.has(warpctc::STEPS) {
        true => logits.dims()[0] as usize,
        false => steps.iter().copied().max().unwrap_or(0),
    };
    let mut losses = Tensor::empty(logits.dtype(), &[n as i64, 1])?;
    let mut grad = match cx.wants(warpctc::GRAD) {
        true => Some(Tensor::zeros(logits.dtype(), &[most as i64, n as i64, classes as i64])?),
        false => None,
    };
    dispatch!(logits.dtype(), T in [f32, f64], {
        let x = logits.data::<T>();
        let mut none: [T; 0] = [];
        let to = Shared::new(match &mut grad {
            Some(t) => t.data_mut::<T>()?,
            None => &mut none,
        });
        pool::parts(losses.data_mut::<T>()?, 1, |b, out| {
            let (first, apart) = rows[b];
            let row = |t: usize| &x[(first + t * apart) * classes..][..classes];
            let own: Vec<usize> = ids[labels[b].clone()].iter().map(|&id| id as usize).collect();
            let mut put = |t: usize, g: &[T]| {
                let at = (t * n + b) * classes;
                // SAFETY: sequences have disjoint rows.
                unsafe { to.part(at..at + classes) }.copy_from_slice(g);
            };
            let grad: Option<&mut dyn FnMut(usize, &[T])> = if grad.is_some() { Some(&mut put) } else { None };
            out[0] = ctc::loss(steps[b], row, &own, blank, grad) as T;
        });
    }, other => return cx.unsupported(other));
    cx.set(warpctc::LOSS, losses);
    if let Some(grad) = grad {
        cx.set(warpctc::GRAD, grad);
    }
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use warpctc_grad::{DLOGITS, DLOSS, GRAD, LOGITS, STEPS};
    let (grad, logits, dloss, op) = (cx.input(GRAD)?, cx.input(LOGITS)?, cx.input(DLOSS)?, cx.op.name);
    let (steps, rows) = rows_of(op, logits, cx.opt(STEPS))?;
    let (n, classes) = (steps.len(), logits.dims().last().copied().unwrap_or(0) as usize);
    let most = steps.iter().copied().max().unwrap_or(0);
    ensure!(
        grad.rank() == 3
            && grad.dims()[0] as usize >= most
            && grad.dims()[1..] == [n as i64, classes as i64]
            && dloss.numel() == n
            && grad.dtype() == logits.dtype()
            && dloss.dtype() == logits.dtype(),
        InvalidArgument,
        "operator {op}: WarpCTCGrad {grad:?} and the gradient of Loss {dloss:?} do not fit Logits {logits:?}"
    );
    let by_times = cx.attrs::<WarpctcAttrs>().norm_by_times;
    dispatch!(logits.dtype(), T in [f32, f64], {
        let (g, d, out) = (grad.data::<T>(), dloss.data::<T>(), cx.out_data::<T>(DLOGITS)?);
        out.fill(0.0);
        ctc::scale_grad((g, classes), (&steps, &rows), d, by_times, out);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static WARPCTC: Op = Op {
    name: "warpctc",
    inputs: warpctc::INS,
    outputs: warpctc::OUTS,
    attrs: WarpctcAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&WARPCTC_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static WARPCTC_GRAD: Op = Op {
    name: "warpctc_grad",
    inputs: warpctc_grad::INS,
    outputs: warpctc_grad::OUTS,
    attrs: WarpctcAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        cx.like(warpctc_grad::DLOGITS, warpctc_grad::LOGITS)?;
        cx.share_lod(warpctc_grad::DLOGITS, warpctc_grad::LOGITS);
        Ok(())
    },
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&WARPCTC, &WARPCTC_GRAD];
