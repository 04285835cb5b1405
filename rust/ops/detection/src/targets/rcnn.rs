//! generate_proposal_labels: sampled proposals and ground truth boxes with classes and target deltas.

use super::{draws, images, marks, put, rows, sizes};
use crate::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::detection::targets::rcnn::{table, ProposalResults, ProposalTargets, SamplingRule};
use std::ops::Range;

attrs! {
    pub struct LabelAttrs {
        batch_size_per_im: i32, fg_fraction: f32, fg_thresh: f32, bg_thresh_hi: f32, bg_thresh_lo: f32,
        bbox_reg_weights: Vec<f32>, class_nums: i32, use_random: bool = true, is_cascade_rcnn: bool = false,
        is_cls_agnostic: bool = false,
    }
}

slots! {
    mod io {
        ROIS "RpnRois", CLASSES "GtClasses", CROWD "IsCrowd", BOXES "GtBoxes", INFO "ImInfo", OVERLAP "MaxOverlap".dispensable()
        => OUT "Rois".kernel_allocated(), LABELS "LabelsInt32".kernel_allocated(), TARGETS "BboxTargets".kernel_allocated(),
        INSIDE "BboxInsideWeights".kernel_allocated(), OUTSIDE "BboxOutsideWeights".kernel_allocated(), OVERLAPS "MaxOverlapWithGT".kernel_allocated()
    }
}

/// Limit of elements of the deltas (four per class).
const MOST: usize = 1 << 31;

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a, dtype) = (cx.op.name, cx.attrs::<LabelAttrs>(), cx.dtype(io::ROIS)?);
    for (slot, width) in [(io::ROIS, 4), (io::BOXES, 4), (io::INFO, 3)] {
        let dims = cx.dims(slot)?;
        if dims.len() != 2 || (dims[1] != width && dims[1] >= 0) {
            return cx.wrong(slot, &format!("of two dimensions, [rows, {width}]"));
        }
    }
    ensure!(
        !a.is_cascade_rcnn || cx.has(io::OVERLAP),
        NotFound,
        "operator {op}: input 'MaxOverlap' must be given where is_cascade_rcnn is True"
    );
    for (name, value) in [("class_nums", a.class_nums), ("batch_size_per_im", a.batch_size_per_im)] {
        ensure!(value > 0, InvalidArgument, "operator {op}: attribute '{name}' must be above 0, got {value}");
    }
    ensure!(
        a.bbox_reg_weights.len() == 4,
        InvalidArgument,
        "operator {op}: attribute 'bbox_reg_weights' must be 4 numbers, got {:?}",
        a.bbox_reg_weights
    );
    let width = 4 * a.class_nums as i64;
    for (slot, dims, dtype) in [
        (io::OUT, &[-1, 4][..], dtype),
        (io::LABELS, &[-1, 1], DType::I32),
        (io::TARGETS, &[-1, width], dtype),
        (io::INSIDE, &[-1, width], dtype),
        (io::OUTSIDE, &[-1, width], dtype),
        (io::OVERLAPS, &[-1], dtype),
    ] {
        cx.set(slot, dims, dtype);
        cx.set_levels(slot, 1);
    }
    Ok(())
}

fn compute<R: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<LabelAttrs>());
    let rois_of = images(cx, io::ROIS, None)?;
    let boxes_of: Vec<Range<usize>> = images(cx, io::BOXES, Some(rois_of.len()))?;
    let (classes, crowd) = (marks(cx, io::CLASSES, &boxes_of)?, marks(cx, io::CROWD, &boxes_of)?);
    let (rois, boxes) = (rows::<R>(cx, io::ROIS, 4)?, rows::<R>(cx, io::BOXES, 4)?);
    let info = sizes::<R>(cx, io::INFO, rois_of.len())?;
    let seen = if a.is_cascade_rcnn { Some(rows::<R>(cx, io::OVERLAP, 1)?) } else { None };
    ensure!(
        seen.is_none_or(|s| s.len() * 4 == rois.len()),
        InvalidArgument,
        "operator {op}: input 'MaxOverlap' must have one number for each of the {} proposals",
        rois.len() / 4
    );
    let rule = SamplingRule {
        samples: a.batch_size_per_im,
        fraction: a.fg_fraction,
        foreground: a.fg_thresh,
        background: (a.bg_thresh_lo, a.bg_thresh_hi),
        weights: &a.bbox_reg_weights,
        classes: a.class_nums,
        agnostic: a.is_cls_agnostic,
    };
    let (mut all, mut ends) = (ProposalResults::default(), vec![0]);
    for (i, (r, b)) in rois_of.iter().zip(&boxes_of).enumerate() {
        if !r.is_empty() {
            let image = ProposalTargets {
                rois: &rois[r.start * 4..r.end * 4],
                seen: seen.map(|s| &s[r.clone()]),
                boxes: &boxes[b.start * 4..b.end * 4],
                classes: &classes[b.clone()],
                crowd: &crowd[b.clone()],
                scale: info[i * 3 + 2],
            };
            let draws = (!a.is_cascade_rcnn).then(|| draws(a.use_random));
            image.run(&rule, draws.as_ref(), &mut all).map_err(|label| {
                err!(
                    InvalidArgument,
                    "operator {op}: the classes of true boxes must be below class_nums {}, got {label}",
                    a.class_nums
                )
            })?;
        }
        ends.push(all.labels.len());
    }
    let width = 4 * a.class_nums as usize;
    ensure!(
        all.labels.len().checked_mul(width).is_some_and(|n| n <= MOST),
        ResourceExhausted,
        "operator {op}: {} rows of deltas for {} classes are too many",
        all.labels.len(),
        a.class_nums
    );
    put(cx, io::OUT, &all.rois, 4, &ends)?;
    put(cx, io::LABELS, &all.labels, 1, &ends)?;
    put(cx, io::OVERLAPS, &all.overlaps, 0, &ends)?;
    for (slot, weights) in [(io::TARGETS, false), (io::INSIDE, true), (io::OUTSIDE, true)] {
        let table = table(&all, a.class_nums as usize, weights);
        put(cx, slot, &table, width as i64, &ends)?;
    }
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    dispatch!(cx.input(io::ROIS)?.dtype(), T in [f32, f64], compute::<T>(cx), other => cx.unsupported(other))
}

pub static GENERATE_PROPOSAL_LABELS: Op = Op {
    name: "generate_proposal_labels",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: LabelAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Random(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&GENERATE_PROPOSAL_LABELS];
