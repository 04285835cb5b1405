//! Other ways to keep the best of overlapping boxes: matrix_nms, locality_aware_nms, retinanet_detection_output.

use super::boxes::{clipped, set_rows, BoxFloat, CenterSize};
use super::suppress::{infer_images, row, DetectionRows};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::nms::{best, best_by_class, decayed, merge_neighbors, ranked, suppress, Decay, Found};
use oar_ops_common::axis;

attrs! {
    pub struct MatrixAttrs {
        background_label: i32 = 0, score_threshold: f32, post_threshold: f32 = 0.0, nms_top_k: i32, keep_top_k: i32,
        normalized: bool = true, use_gaussian: bool = false, gaussian_sigma: f32 = 2.0,
    }
    pub struct LocalAttrs {
        background_label: i32 = -1, score_threshold: f32, nms_top_k: i32, nms_threshold: f32 = 0.3,
        nms_eta: f32 = 1.0, keep_top_k: i32, normalized: bool = true,
    }
    pub struct RetinaAttrs {
        score_threshold: f32, nms_top_k: i32, nms_threshold: f32, nms_eta: f32, keep_top_k: i32,
    }
}

slots! {
    mod matrix {
        BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated(), COUNTS "RoisNum".kernel_allocated().dispensable()
    }
    mod local { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated() }
    mod retina {
        BOXES "BBoxes".duplicable(), SCORES "Scores".duplicable(), ANCHORS "Anchors".duplicable(), INFO "ImInfo" => OUT "Out".kernel_allocated()
    }
}

/// Images, classes and boxes of each image; boxes and scores are of one data type.
fn sizes(cx: &KernelContext, boxes: InSlot, scores: InSlot) -> Result<(usize, usize, usize)> {
    let (b, s) = (cx.input(boxes)?, cx.input(scores)?);
    axis::like(cx, b, b.dims(), s.dtype(), "BBoxes")?;
    Ok((s.dims()[0] as usize, s.dims()[1] as usize, s.dims()[2] as usize))
}

// matrix_nms: scores fall the more, the more a better box overlaps

fn infer_matrix(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(matrix::SCORES)?;
    infer_images(cx, matrix::BOXES, matrix::SCORES, &[4])?;
    let level = cx.meta(matrix::BOXES, 0)?.lod_level.max(1);
    set_rows(cx, matrix::OUT, 6, dtype, level);
    set_rows(cx, matrix::INDEX, 1, DType::I32, level);
    cx.set(matrix::COUNTS, &[-1], DType::I32);
    Ok(())
}

fn matrix_rows<T: BoxFloat>(cx: &KernelContext) -> Result<DetectionRows<T>> {
    let (images, classes, n) = sizes(cx, matrix::BOXES, matrix::SCORES)?;
    let (boxes, scores) = (cx.input(matrix::BOXES)?.data::<T>(), cx.input(matrix::SCORES)?.data::<T>());
    let a = cx.attrs::<MatrixAttrs>();
    let of = |v: f32| T::from_f64(v.into());
    let decay = Decay {
        score_threshold: of(a.score_threshold),
        post_threshold: of(a.post_threshold),
        top: a.nms_top_k,
        normalized: a.normalized,
        gaussian: a.use_gaussian.then(|| of(a.gaussian_sigma)),
    };
    let mut rows = DetectionRows::new(4);
    for image in 0..images {
        let own = &boxes[image * n * 4..(image + 1) * n * 4];
        let mut found = Vec::new();
        for class in (0..classes).filter(|&c| c as i64 != i64::from(a.background_label)) {
            let of_class = &scores[(image * classes + class) * n..][..n];
            decayed(own, of_class, &decay, |at, score| found.push(Found { class, at, score }));
        }
        best(&mut found, a.keep_top_k);
        for f in found {
            rows.push(f.class, f.score, &own[f.at * 4..f.at * 4 + 4], image * n + f.at);
        }
        rows.end_image();
    }
    Ok(rows)
}

pub static MATRIX_NMS: Op = Op {
    name: "matrix_nms",
    inputs: matrix::INS,
    outputs: matrix::OUTS,
    attrs: MatrixAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_matrix,
    cpu: Kernel::Pure(|cx| {
        dispatch!(cx.input(matrix::SCORES)?.dtype(), T in [f32, f64], {
            let rows = matrix_rows::<T>(cx)?;
            cx.set(matrix::INDEX, rows.places()?);
            cx.set(matrix::COUNTS, rows.counts()?);
            cx.set(matrix::OUT, rows.boxes()?);
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    ..OP
};

// locality_aware_nms: a box that overlaps with the one before it is merged with that first

fn infer_local(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(local::SCORES)?;
    let size = infer_images(cx, local::BOXES, local::SCORES, &[4, 8, 16, 24, 32])?;
    set_rows(cx, local::OUT, row(size), dtype, 1);
    Ok(())
}

fn local_rows<T: BoxFloat>(cx: &KernelContext) -> Result<DetectionRows<T>> {
    let (images, classes, n) = sizes(cx, local::BOXES, local::SCORES)?;
    let (boxes, scores) = (cx.input(local::BOXES)?, cx.input(local::SCORES)?);
    let size = boxes.dims()[2] as usize;
    let (mut boxes, mut scores) = (boxes.data::<T>().to_vec(), scores.data::<T>().to_vec());
    let a = cx.attrs::<LocalAttrs>();
    let of = |v: f32| T::from_f64(v.into());
    let mut rows = DetectionRows::new(size);
    for image in 0..images {
        let own = &mut boxes[image * n * size..(image + 1) * n * size];
        let mut found = Vec::new();
        // Boxes are common to all classes: a class finds them as those before it have merged them.
        for class in (0..classes).filter(|&c| c as i64 != i64::from(a.background_label)) {
            let scores = &mut scores[(image * classes + class) * n..][..n];
            let left = merge_neighbors(own, scores, size, of(a.nms_threshold), a.normalized);
            let order = ranked(left.iter().map(|&i| (i, scores[i])), of(a.score_threshold), a.nms_top_k);
            let bounds = (of(a.nms_threshold), of(a.nms_eta));
            let kept = suppress(order, bounds, a.normalized, |i| &own[i * size..(i + 1) * size]);
            found.extend(kept.into_iter().map(|at| Found { class, at, score: scores[at] }));
        }
        best_by_class(&mut found, a.keep_top_k);
        for f in found {
            rows.push(f.class, f.score, &own[f.at * size..(f.at + 1) * size], f.at);
        }
        rows.end_image();
    }
    Ok(rows)
}

pub static LOCALITY_AWARE_NMS: Op = Op {
    name: "locality_aware_nms",
    inputs: local::INS,
    outputs: local::OUTS,
    attrs: LocalAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_local,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(local::SCORES)?.dtype();
        let out = dispatch!(dtype, T in [f32, f64], local_rows::<T>(cx)?.boxes_or_mark()?, other => {
            return cx.unsupported(other)
        });
        cx.set(local::OUT, out);
        Ok(())
    }),
    ..OP
};

// retinanet_detection_output: levels of boxes [images, count, 4], scores [images, count, classes], anchors [count, 4]

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
    let classes = scores[0].dims()[2] as usize;
    let mut rows = DetectionRows::new(4);
    for (image, info) in info.data::<T>().chunks_exact(3).enumerate() {
        let end = [1, 0].map(|k| (info[k] / info[2]).round() - T::ONE);
        let mut decoded: Vec<Vec<([T; 4], T)>> = vec![Vec::new(); classes];
        for (l, t) in scores.iter().enumerate() {
            let n = t.dims()[1] as usize;
            let own = &t.data::<T>()[image * n * classes..(image + 1) * n * classes];
            let deltas = &boxes[l].data::<T>()[image * n * 4..(image + 1) * n * 4];
            // Of the last level all scores above 0 are candidates.
            let threshold = if l + 1 < scores.len() { of(a.score_threshold) } else { T::ZERO };
            for k in ranked(own.iter().copied().enumerate(), threshold, a.nms_top_k) {
                let (i, class) = (k / classes * 4, k % classes);
                let d = &deltas[i..i + 4];
                let place =
                    CenterSize::new(&anchors[l].data::<T>()[i..i + 4], false).moved([d[0], d[1], d[2], d[3]], false);
                let mut edge = 0;
                let place = place.map(|v| {
                    edge += 1;
                    clipped(v / info[2], end[(edge - 1) % 2])
                });
                decoded[class].push((place, own[k]));
            }
        }
        let mut found = Vec::new();
        for (class, all) in decoded.iter().enumerate() {
            let order = ranked(all.iter().map(|b| b.1).enumerate(), T::from_f64(f64::NEG_INFINITY), -1);
            let kept = suppress(order, (of(a.nms_threshold), of(a.nms_eta)), false, |i| &all[i].0);
            found.extend(kept.into_iter().map(|at| Found { class, at, score: all[at].1 }));
        }
        best(&mut found, a.keep_top_k);
        for f in found {
            // Class 0 is the background, which has no scores.
            rows.push(f.class + 1, f.score, &decoded[f.class][f.at].0, f.at);
        }
        rows.end_image();
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

pub static TABLE: &[&Op] = &[&MATRIX_NMS, &LOCALITY_AWARE_NMS, &RETINANET_DETECTION_OUTPUT];
