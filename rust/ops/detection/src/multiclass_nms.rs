//! multiclass_nms, multiclass_nms2 and multiclass_nms3: non-maximum suppression per class.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::{infer_images, row, DetectionOutputs};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::detection_rows::{ClassBoxes, DetectionRows, NmsRule};
use oar_ops_common::{axis, levels};

attrs! {
    pub struct NmsAttrs {
        background_label: i32 = 0, score_threshold: f32, nms_top_k: i32, nms_threshold: f32 = 0.3,
        nms_eta: f32 = 1.0, keep_top_k: i32, normalized: bool = true,
    }
}

slots! {
    /// BBoxes [images, count, 4 (or polygon corners)] and Scores [images, classes, count]; or for all images BBoxes
    /// [count, classes, 4] with LoD and Scores [count, classes].
    mod nms { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated() }
    mod nms2 { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated().intermediate() }
    mod nms3 {
        BOXES "BBoxes", SCORES "Scores", COUNTS "RoisNum".dispensable()
        => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated().intermediate(), KEPT "NmsRoisNum".kernel_allocated().dispensable()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(nms::SCORES)?;
    let size = if cx.dims(nms::SCORES)?.len() == 2 {
        let s = cx.dims(nms::SCORES)?;
        cx.shaped_in_run(nms::BOXES, &[s[0], s[1], 4])?;
        4
    } else {
        infer_images(cx, nms::BOXES, nms::SCORES, &[4, 8, 16, 24, 32])?
    };
    let level = cx.meta(nms::BOXES, 0)?.lod_level.max(1);
    set_rows(cx, nms::OUT, row(size), dtype, level);
    Ok(())
}

fn infer2(cx: &mut ShapeContext) -> Result<()> {
    infer(cx)?;
    let level = cx.meta(nms2::BOXES, 0)?.lod_level.max(1);
    set_rows(cx, nms2::INDEX, 1, DType::I32, level);
    Ok(())
}

fn infer3(cx: &mut ShapeContext) -> Result<()> {
    infer2(cx)?;
    cx.set(nms3::KEPT, &[-1], DType::I32);
    Ok(())
}

/// Row offsets of the images, from LoD or RoisNum.
fn images(cx: &KernelContext, boxes: &Tensor) -> Result<Vec<usize>> {
    let op = cx.op.name;
    let counts = match cx.op.input("RoisNum") {
        Some(_) => cx.opt(nms3::COUNTS),
        None => None,
    };
    let Some(t) = counts else { return Ok(levels::last(op, "BBoxes", boxes)?.to_vec()) };
    axis::like(cx, t, t.dims(), DType::I32, "RoisNum")?;
    let (counts, rows) = (t.data::<i32>(), boxes.dims()[0] as usize);
    let sum: i64 = counts.iter().map(|&n| i64::from(n)).sum();
    ensure!(
        counts.iter().all(|&n| n >= 0) && sum == rows as i64,
        InvalidArgument,
        "operator {op}: RoisNum must hold the numbers of boxes of the images, {rows} in total, got {:?}",
        &counts[..counts.len().min(16)]
    );
    Ok(levels::offsets(counts.iter().map(|&n| n as usize)))
}

fn rows<T: BoxFloat>(cx: &KernelContext) -> Result<DetectionRows<T>> {
    let (scores, a) = (cx.input(nms::SCORES)?, cx.attrs::<NmsAttrs>());
    let boxes = cx.input(nms::BOXES)?;
    axis::like(cx, boxes, boxes.dims(), scores.dtype(), "BBoxes")?;
    let by_image = scores.rank() == 3;
    let (n, classes) = (boxes.dims()[1] as usize, scores.dims()[1] as usize);
    let level = match by_image {
        true => levels::offsets((0..scores.dims()[0]).map(|_| n)),
        false => images(cx, boxes)?,
    };
    let all = ClassBoxes {
        boxes: boxes.data::<T>(),
        scores: scores.data::<T>(),
        size: boxes.dims()[2] as usize,
        classes,
        per_image: by_image.then_some(n),
    };
    let of = |v: f32| T::from_f64(v.into());
    let rule = NmsRule {
        background: a.background_label,
        score: of(a.score_threshold),
        top: a.nms_top_k,
        keep: a.keep_top_k,
        bounds: (of(a.nms_threshold), of(a.nms_eta)),
        normalized: a.normalized,
    };
    Ok(all.select(&level, &rule))
}

pub static MULTICLASS_NMS: Op = Op {
    name: "multiclass_nms",
    inputs: nms::INS,
    outputs: nms::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(nms::SCORES)?.dtype();
        let out =
            dispatch!(dtype, T in [f32, f64], rows::<T>(cx)?.boxes_or_mark()?, other => return cx.unsupported(other));
        cx.set(nms::OUT, out);
        Ok(())
    }),
    ..OP
};

fn with_index(cx: &mut KernelContext) -> Result<()> {
    let dtype = cx.input(nms::SCORES)?.dtype();
    dispatch!(dtype, T in [f32, f64], {
        let rows = rows::<T>(cx)?;
        cx.set(nms2::INDEX, rows.places()?);
        if cx.op.output("NmsRoisNum").is_some() {
            cx.set(nms3::KEPT, rows.counts()?);
        }
        cx.set(nms2::OUT, rows.boxes()?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static MULTICLASS_NMS2: Op = Op {
    name: "multiclass_nms2",
    inputs: nms2::INS,
    outputs: nms2::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer2,
    cpu: Kernel::Pure(with_index),
    ..OP
};

pub static MULTICLASS_NMS3: Op = Op {
    name: "multiclass_nms3",
    inputs: nms3::INS,
    outputs: nms3::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer3,
    cpu: Kernel::Pure(with_index),
    ..OP
};

pub static TABLE: &[&Op] = &[&MULTICLASS_NMS, &MULTICLASS_NMS2, &MULTICLASS_NMS3];
