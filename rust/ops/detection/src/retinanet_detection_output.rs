//! retinanet_detection_output: decodes and suppresses boxes of several feature levels.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::DetectionOutputs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::detection::detection_rows::{of_levels, DetectionRows, FeatureLevel, NmsRule};
use oar_ops_common::axis;

attrs! {
    pub struct RetinaAttrs {
        score_threshold: f32, nms_top_k: i32, nms_threshold: f32, nms_eta: f32, keep_top_k: i32,
    }
}

slots! {
    mod retina {
        BOXES "BBoxes".duplicable(), SCORES "Scores".duplicable(), ANCHORS "Anchors".duplicable(), INFO "ImInfo" => OUT "Out".kernel_allocated()
    }
}

fn infer_retina(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.count(retina::SCORES);
    let counts = [cx.count(retina::BOXES), cx.count(retina::ANCHORS)];
    ensure!(
        n > 0 && counts == [n, n],
        InvalidArgument,
        "operator {}: BBoxes, Scores and Anchors must be as many as there are levels, got {}, {n} and {}",
        cx.op.name,
        counts[0],
        counts[1]
    );
    cx.shaped_in_run(retina::INFO, &[-1, 3])?;
    let first = cx.dtype(retina::SCORES)?;
    let lists = [retina::BOXES, retina::SCORES, retina::ANCHORS].map(|slot| cx.tensors(slot));
    if let [Some(boxes), Some(scores), Some(anchors)] = lists {
        let classes = scores[0].dims().get(2).copied().unwrap_or(0);
        for (l, of_level) in boxes.iter().zip(scores).zip(anchors).map(|((b, s), a)| [*b, s, a]).enumerate() {
            let count = of_level[1].dims().get(1).copied().unwrap_or(0);
            let images = cx.dims(retina::INFO)?[0];
            let want: [&[i64]; 3] = [&[images, count, 4], &[images, count, classes], &[count, 4]];
            let fits = of_level.iter().zip(want).all(|(t, want)| t.dims() == want && t.dtype() == first);
            ensure!(
                fits,
                InvalidArgument,
                "operator {}: BBoxes, Scores and Anchors of level {l} must be {first} of shapes {want:?}, got {of_level:?}",
                cx.op.name
            );
        }
    }
    set_rows(cx, retina::OUT, 6, first, 1);
    Ok(())
}

fn retina_rows<T: BoxFloat>(cx: &KernelContext) -> Result<DetectionRows<T>> {
    let (boxes, scores) = (cx.inputs(retina::BOXES)?, cx.inputs(retina::SCORES)?);
    let (anchors, info, a) = (cx.inputs(retina::ANCHORS)?, cx.input(retina::INFO)?, cx.attrs::<RetinaAttrs>());
    axis::like(cx, info, info.dims(), scores[0].dtype(), "ImInfo")?;
    let of = |v: f32| T::from_f64(v.into());
    let rule = NmsRule {
        background: -1,
        score: of(a.score_threshold),
        top: a.nms_top_k,
        keep: a.keep_top_k,
        bounds: (of(a.nms_threshold), of(a.nms_eta)),
        normalized: false,
    };
    let classes = scores[0].dims()[2] as usize;
    let mut rows = DetectionRows::new(4);
    for (image, info) in info.data::<T>().chunks_exact(3).enumerate() {
        let level = |l: usize| {
            let n = scores[l].dims()[1] as usize;
            FeatureLevel {
                deltas: &boxes[l].data::<T>()[image * n * 4..(image + 1) * n * 4],
                scores: &scores[l].data::<T>()[image * n * classes..(image + 1) * n * classes],
                anchors: anchors[l].data::<T>(),
            }
        };
        let levels: Vec<_> = (0..scores.len()).map(level).collect();
        of_levels(&levels, classes, info, &rule, &mut rows);
    }
    Ok(rows)
}

pub static RETINANET_DETECTION_OUTPUT: Op = Op {
    name: "retinanet_detection_output",
    inputs: retina::INS,
    outputs: retina::OUTS,
    attrs: RetinaAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_retina,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.inputs(retina::SCORES)?[0].dtype();
        let out =
            dispatch!(dtype, T in [f32, f64], retina_rows::<T>(cx)?.boxes()?, other => return cx.unsupported(other));
        cx.set(retina::OUT, out);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&RETINANET_DETECTION_OUTPUT];
