//! iou_similarity: intersection over union of boxes.

use super::boxes::BoxFloat;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::detection::boxes::{pixel, similarities};
use oar_ops_common::axis;

attrs! {
    pub struct IouAttrs { box_normalized: bool = true }
}

slots! {
    mod iou { X "X", Y "Y" => OUT "Out" }
}

fn infer_iou(cx: &mut ShapeContext) -> Result<()> {
    cx.shaped(iou::X, &[-1, 4])?;
    cx.shaped(iou::Y, &[-1, 4])?;
    let dims = [cx.dims(iou::X)?[0], cx.dims(iou::Y)?[0]];
    let dtype = cx.dtype(iou::X)?;
    cx.set(iou::OUT, &dims, dtype);
    cx.share_lod(iou::OUT, iou::X);
    Ok(())
}

fn run_iou<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(iou::X)?, cx.input(iou::Y)?);
    axis::like(cx, y, y.dims(), x.dtype(), "Y")?;
    let (a, b) = (x.data::<T>(), y.data::<T>());
    let p = pixel::<T>(cx.attrs::<IouAttrs>().box_normalized);
    similarities(a, b, p, cx.out_data::<T>(iou::OUT)?);
    Ok(())
}

pub static IOU_SIMILARITY: Op = Op {
    name: "iou_similarity",
    inputs: iou::INS,
    outputs: iou::OUTS,
    attrs: IouAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_iou,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(iou::X)?.dtype();
        dispatch!(dtype, T in [f32, f64], run_iou::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&IOU_SIMILARITY];
