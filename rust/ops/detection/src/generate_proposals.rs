//! generate_proposals and generate_proposals_v2: anchors moved by predicted deltas, ranked by score, with non-maximum
//! suppression.

use crate::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::proposals::{all_images, ProposalRule, Proposals};
use oar_ops_common::levels;

attrs! {
    pub struct ProposalAttrs { pre_nms_topN: i32, post_nms_topN: i32, nms_thresh: f32, min_size: f32, eta: f32 }
    pub struct ProposalV2Attrs {
        pre_nms_topN: i32, post_nms_topN: i32, nms_thresh: f32, min_size: f32, eta: f32, pixel_offset: bool = true,
    }
}

slots! {
    mod io {
        SCORES "Scores", DELTAS "BboxDeltas", INFO "ImInfo", ANCHORS "Anchors", VARIANCES "Variances"
        => ROIS "RpnRois".kernel_allocated(), PROBS "RpnRoiProbs".kernel_allocated(), COUNT "RpnRoisNum".dispensable().kernel_allocated()
    }
    mod v2 {
        SCORES "Scores", DELTAS "BboxDeltas", INFO "ImShape", ANCHORS "Anchors", VARIANCES "Variances"
        => ROIS "RpnRois".kernel_allocated(), PROBS "RpnRoiProbs".kernel_allocated(), COUNT "RpnRoisNum".dispensable().kernel_allocated()
    }
}

fn rule(a: &ProposalAttrs) -> ProposalRule {
    let &ProposalAttrs { pre_nms_topN: before, post_nms_topN: after, nms_thresh: threshold, min_size, eta } = a;
    ProposalRule { before, after, threshold, min_size, eta, pixels: true, scaled: true }
}

fn rule_v2(a: &ProposalV2Attrs) -> ProposalRule {
    let &ProposalV2Attrs {
        pre_nms_topN: before,
        post_nms_topN: after,
        nms_thresh: threshold,
        min_size,
        eta,
        pixel_offset,
    } = a;
    ProposalRule { before, after, threshold, min_size, eta, pixels: pixel_offset, scaled: false }
}

fn infer(cx: &mut ShapeContext, width: i64) -> Result<()> {
    let (op, dtype) = (cx.op.name, cx.dtype(io::ANCHORS)?);
    let (scores, deltas, info) = (cx.dims(io::SCORES)?, cx.dims(io::DELTAS)?, cx.dims(io::INFO)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        scores.len() == 4 && deltas.len() == 4 && [0, 2, 3].iter().all(|&k| agree(scores[k], deltas[k])),
        InvalidArgument,
        "operator {op}: Scores must have shape [N, A, H, W] and BboxDeltas [N, 4 * A, H, W], got {:?} and {:?}",
        &scores[..],
        &deltas[..]
    );
    ensure!(
        scores[1] < 0 || deltas[1] < 0 || scores[1].checked_mul(4) == Some(deltas[1]),
        InvalidArgument,
        "operator {op}: BboxDeltas must have 4 channels for each of Scores, got {} and {}",
        deltas[1],
        scores[1]
    );
    ensure!(
        info.len() == 2 && agree(info[1], width) && agree(info[0], scores[0]),
        InvalidArgument,
        "operator {op}: input '{}' must have shape [{}, {width}], got {:?}",
        cx.op.inputs[io::INFO.0].name,
        scores[0],
        &info[..]
    );
    cx.set(io::ROIS, &[-1, 4], dtype);
    cx.set(io::PROBS, &[-1, 1], dtype);
    cx.set(io::COUNT, &[-1], DType::I32);
    let levels = cx.meta(io::SCORES, 0)?.lod_level.max(1);
    cx.set_levels(io::ROIS, levels);
    cx.set_levels(io::PROBS, levels);
    Ok(())
}

fn elements<'a, T: Element>(cx: &KernelContext<'a>, slot: InSlot, count: usize) -> Result<&'a [T]> {
    let t = cx.input(slot)?;
    ensure!(
        t.dtype() == T::DTYPE && t.numel() == count,
        InvalidArgument,
        "operator {}: input '{}' must be {} with {count} elements, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        T::DTYPE
    );
    Ok(t.data::<T>())
}

fn compute<R: BoxFloat>(cx: &mut KernelContext, rule: ProposalRule) -> Result<()> {
    let d = cx.input(io::SCORES)?.dims();
    let (images, anchors, places) = (d[0] as usize, d[1] as usize, (d[2] * d[3]) as usize);
    let all = anchors * places;
    ensure!(
        all <= u32::MAX as usize,
        ResourceExhausted,
        "operator {}: {all} anchors of an image are too many",
        cx.op.name
    );
    let call = Proposals::<R> {
        anchors,
        places,
        scores: elements(cx, io::SCORES, images * all)?,
        deltas: elements(cx, io::DELTAS, images * all * 4)?,
        info: elements(cx, io::INFO, images * if rule.scaled { 3 } else { 2 })?,
        boxes: elements(cx, io::ANCHORS, all * 4)?,
        variances: elements(cx, io::VARIANCES, all * 4)?,
        rule,
    };
    let (rois, probs, ends) = all_images(&call, images);
    if cx.wants(io::COUNT) {
        let counts: Vec<i32> = levels::lengths(&ends).map(|n| n as i32).collect();
        cx.set(io::COUNT, Tensor::from_slice(&counts, &[images as i64])?);
    }
    let lod = levels::one(ends);
    let rows = probs.len() as i64;
    cx.set(io::ROIS, Tensor::from_slice(&rois, &[rows, 4])?.with_lod(lod.clone()));
    cx.set(io::PROBS, Tensor::from_slice(&probs, &[rows, 1])?.with_lod(lod));
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let rule = rule(cx.attrs());
    dispatch!(cx.input(io::ANCHORS)?.dtype(), T in [f32, f64], compute::<T>(cx, rule), other => cx.unsupported(other))
}

fn run_v2(cx: &mut KernelContext) -> Result<()> {
    let rule = rule_v2(cx.attrs());
    dispatch!(cx.input(io::ANCHORS)?.dtype(), T in [f32, f64], compute::<T>(cx, rule), other => cx.unsupported(other))
}

pub static GENERATE_PROPOSALS: Op = Op {
    name: "generate_proposals",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: ProposalAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, 3),
    cpu: Kernel::Pure(run),
    ..OP
};

pub static GENERATE_PROPOSALS_V2: Op = Op {
    name: "generate_proposals_v2",
    inputs: v2::INS,
    outputs: v2::OUTS,
    attrs: ProposalV2Attrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, 2),
    cpu: Kernel::Pure(run_v2),
    ..OP
};

pub static TABLE: &[&Op] = &[&GENERATE_PROPOSALS, &GENERATE_PROPOSALS_V2];
