//! rpn_target_assign and retinanet_target_assign: foreground and background anchors, and target deltas.

use super::{draws, images, marks, put, rows, sizes};
use crate::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::targets::rpn::{AnchorResults, AnchorRule, AnchorTargets};
use oar_kernels::detection::targets::Draws;

attrs! {
    pub struct RpnAttrs {
        rpn_batch_size_per_im: i32 = 256, rpn_straddle_thresh: f32, rpn_positive_overlap: f32 = 0.7,
        rpn_negative_overlap: f32 = 0.3, rpn_fg_fraction: f32 = 0.25, use_random: bool = true,
    }
    pub struct RetinanetAttrs { positive_overlap: f32 = 0.5, negative_overlap: f32 = 0.4 }
}

slots! {
    mod rpn {
        ANCHOR "Anchor", BOXES "GtBoxes", CROWD "IsCrowd", INFO "ImInfo"
        => LOCATION "LocationIndex".kernel_allocated(), SCORE "ScoreIndex".kernel_allocated(), TARGET "TargetBBox".kernel_allocated(),
        LABEL "TargetLabel".kernel_allocated(), WEIGHT "BBoxInsideWeight".kernel_allocated()
    }
    mod retinanet {
        ANCHOR "Anchor", BOXES "GtBoxes", LABELS "GtLabels", CROWD "IsCrowd", INFO "ImInfo"
        => LOCATION "LocationIndex".kernel_allocated(), SCORE "ScoreIndex".kernel_allocated(), TARGET "TargetBBox".kernel_allocated(),
        LABEL "TargetLabel".kernel_allocated(), WEIGHT "BBoxInsideWeight".kernel_allocated(), COUNT "ForegroundNumber".kernel_allocated()
    }
}

/// The checked inputs of a call.
fn targets<'a, R: BoxFloat>(
    cx: &KernelContext<'a>,
    [anchor, boxes, crowd, info]: [InSlot; 4],
    labels: Option<InSlot>,
) -> Result<AnchorTargets<'a, R>> {
    let anchors = rows::<R>(cx, anchor, 4)?;
    let images = images(cx, boxes, None)?;
    let last = images.len().checked_mul(anchors.len() / 4).filter(|&n| n <= i32::MAX as usize);
    ensure!(
        last.is_some(),
        ResourceExhausted,
        "operator {}: the {} anchors of {} images have more numbers than int32 holds",
        cx.op.name,
        anchors.len() / 4,
        images.len()
    );
    Ok(AnchorTargets {
        anchors,
        boxes: rows(cx, boxes, 4)?,
        crowd: marks(cx, crowd, &images)?,
        labels: labels.map(|l| marks(cx, l, &images)).transpose()?,
        info: sizes(cx, info, images.len())?,
        images,
    })
}

fn finish<R: BoxFloat>(cx: &mut KernelContext, all: &AnchorResults<R>) -> Result<()> {
    put(cx, rpn::LOCATION, &all.location, 0, &all.located)?;
    put(cx, rpn::SCORE, &all.score, 0, &all.scored)?;
    put(cx, rpn::TARGET, &all.target, 4, &all.located)?;
    put(cx, rpn::LABEL, &all.label, 1, &all.scored)?;
    put(cx, rpn::WEIGHT, &all.weight, 4, &all.located)
}

fn run_rpn(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RpnAttrs>();
    let rule = AnchorRule {
        positive: a.rpn_positive_overlap,
        negative: a.rpn_negative_overlap,
        drawn: Some((a.rpn_batch_size_per_im, a.rpn_fg_fraction)),
    };
    let draws = draws(a.use_random);
    dispatch!(cx.input(rpn::ANCHOR)?.dtype(), T in [f32, f64], {
        let call = targets::<T>(cx, [rpn::ANCHOR, rpn::BOXES, rpn::CROWD, rpn::INFO], None)?;
        let all = call.run(a.rpn_straddle_thresh, &rule, &draws);
        let most = call.images.len() as i64 * a.rpn_batch_size_per_im as i64;
        ensure!(
            all.location.len() as i64 <= most && all.score.len() as i64 <= most,
            InvalidArgument,
            "operator rpn_target_assign: {} locations and {} scores are more than rpn_batch_size_per_im, {}, for each image",
            all.location.len(),
            all.score.len(),
            a.rpn_batch_size_per_im
        );
        finish(cx, &all)
    }, other => cx.unsupported(other))
}

fn run_retinanet(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RetinanetAttrs>();
    let rule = AnchorRule { positive: a.positive_overlap, negative: a.negative_overlap, drawn: None };
    dispatch!(cx.input(retinanet::ANCHOR)?.dtype(), T in [f32, f64], {
        use retinanet::{ANCHOR, BOXES, CROWD, INFO, LABELS};
        let call = targets::<T>(cx, [ANCHOR, BOXES, CROWD, INFO], Some(LABELS))?;
        let all = call.run(-1.0, &rule, &Draws::new(None));
        let each: Vec<usize> = (0..=all.count.len()).collect();
        put(cx, retinanet::COUNT, &all.count, 1, &each)?;
        finish(cx, &all)
    }, other => cx.unsupported(other))
}

/// Anchor and boxes must have rows of 4 numbers, ImInfo of 3; the outputs' rows are unknown.
fn infer(cx: &mut ShapeContext, flat: &[(InSlot, i64)]) -> Result<()> {
    for &(slot, width) in flat {
        let dims = cx.dims(slot)?;
        if dims.len() != 2 || (dims[1] != width && dims[1] >= 0) {
            return cx.wrong(slot, &format!("of two dimensions, [rows, {width}]"));
        }
    }
    let dtype = cx.dtype(rpn::ANCHOR)?;
    for (slot, dims, dtype) in [
        (rpn::LOCATION, &[-1][..], DType::I32),
        (rpn::SCORE, &[-1], DType::I32),
        (rpn::TARGET, &[-1, 4], dtype),
        (rpn::LABEL, &[-1, 1], DType::I32),
        (rpn::WEIGHT, &[-1, 4], dtype),
    ] {
        cx.set(slot, dims, dtype);
        cx.set_levels(slot, 1);
    }
    Ok(())
}

pub static RPN_TARGET_ASSIGN: Op = Op {
    name: "rpn_target_assign",
    inputs: rpn::INS,
    outputs: rpn::OUTS,
    attrs: RpnAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, &[(rpn::ANCHOR, 4), (rpn::BOXES, 4), (rpn::INFO, 3)]),
    cpu: Kernel::Random(run_rpn),
    ..OP
};

pub static RETINANET_TARGET_ASSIGN: Op = Op {
    name: "retinanet_target_assign",
    inputs: retinanet::INS,
    outputs: retinanet::OUTS,
    attrs: RetinanetAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        infer(cx, &[(retinanet::ANCHOR, 4), (retinanet::BOXES, 4), (retinanet::LABELS, 1), (retinanet::INFO, 3)])?;
        cx.set(retinanet::COUNT, &[-1, 1], DType::I32);
        cx.set_levels(retinanet::COUNT, 1);
        Ok(())
    },
    cpu: Kernel::Pure(run_retinanet),
    ..OP
};

pub static TABLE: &[&Op] = &[&RPN_TARGET_ASSIGN, &RETINANET_TARGET_ASSIGN];
