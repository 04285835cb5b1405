//! locality_aware_nms: merges consecutive overlapping boxes before suppression.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::{infer_images, row, sizes, DetectionOutputs};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::detection::detection_rows::{locality_aware, DetectionRows, NmsRule};

attrs! {
    pub struct LocalAttrs {
        background_label: i32 = -1, score_threshold: f32, nms_top_k: i32, nms_threshold: f32 = 0.3,
        nms_eta: f32 = 1.0, keep_top_k: i32, normalized: bool = true,
    }
}

slots! {
    mod local { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated() }
}

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
    let rule = NmsRule {
        background: a.background_label,
        score: of(a.score_threshold),
        top: a.nms_top_k,
        keep: a.keep_top_k,
        bounds: (of(a.nms_threshold), of(a.nms_eta)),
        normalized: a.normalized,
    };
    Ok(locality_aware((&mut boxes, &mut scores), (images, classes, n), size, &rule))
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

pub static TABLE: &[&Op] = &[&LOCALITY_AWARE_NMS];
