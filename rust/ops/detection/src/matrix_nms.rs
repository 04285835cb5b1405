//! matrix_nms: scores decay with the overlap of better boxes.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::{infer_images, sizes, DetectionOutputs};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::detection::detection_rows::{matrix as matrix_boxes, DetectionRows};
use oar_kernels::detection::nms::Decay;

attrs! {
    pub struct MatrixAttrs {
        background_label: i32 = 0, score_threshold: f32, post_threshold: f32 = 0.0, nms_top_k: i32, keep_top_k: i32,
        normalized: bool = true, use_gaussian: bool = false, gaussian_sigma: f32 = 2.0,
    }
}

slots! {
    mod matrix {
        BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated(), COUNTS "RoisNum".kernel_allocated().dispensable()
    }
}

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
    Ok(matrix_boxes((boxes, scores), (images, classes, n), &decay, a.background_label, a.keep_top_k))
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

pub static TABLE: &[&Op] = &[&MATRIX_NMS];
