//! locality_aware_nms: merges consecutive overlapping boxes before suppression.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::{infer_images, row, sizes, DetectionRows};
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::detection::nms::{best_by_class, merge_neighbors, ranked, suppress, Found};

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
    let mut rows = DetectionRows::new(size);
    for image in 0..images {
        let own = &mut boxes[image * n * size..(image + 1) * n * size];
        let mut found = Vec::new();
        // Boxes are shared by all classes: merges of earlier classes affect later ones.
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

pub static TABLE: &[&Op] = &[&LOCALITY_AWARE_NMS];
