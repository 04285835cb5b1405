//! roi_perspective_transform: quadrangles of the maps transformed to rectangles.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, slots};
use oar_kernels::detection::rois::{quads, Pooling, RoiGrid};

attrs! {
    pub struct PerspectiveAttrs { spatial_scale: f32 = 1.0, transformed_height: i32 = 1, transformed_width: i32 = 1 }
}

slots! {
    mod fwd {
        X "X", ROIS "ROIs"
        => OUT "Out", MASK "Mask", MATRIX "TransformMatrix", INDEX "Out2InIdx".intermediate(), WEIGHTS "Out2InWeights".intermediate()
    }
    mod grad {
        X "X".meta_only(), ROIS "ROIs", INDEX "Out2InIdx".meta_only(), WEIGHTS "Out2InWeights".meta_only(),
        DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<PerspectiveAttrs>();
    let sizes = (a.transformed_height, a.transformed_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, None), 8, None, sizes, ErrorKind::InvalidArgument)?;
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    cx.set(fwd::MASK, &[out[0], 1, out[2], out[3]], DType::I32);
    cx.set(fwd::MATRIX, &[out[0], 9], dtype);
    cx.set(fwd::INDEX, &out, DType::I32);
    cx.set(fwd::WEIGHTS, &out, dtype);
    cx.share_lod(fwd::OUT, fwd::ROIS);
    Ok(())
}

fn grid(a: &PerspectiveAttrs) -> RoiGrid {
    RoiGrid { scale: a.spatial_scale, rows: a.transformed_height as usize, cols: a.transformed_width as usize }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PerspectiveAttrs>();
    rois::pooling(cx, (x, rois, None), (a.transformed_height, a.transformed_width))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(fwd::X)?, cx.input(fwd::ROIS)?, cx.attrs::<PerspectiveAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS)?;
    let size = p.size;
    // Unused: the gradient recomputes positions and weights.
    for slot in [fwd::INDEX, fwd::WEIGHTS] {
        if cx.wants(slot) {
            cx.out(slot)?.bytes_mut()?.fill(0);
        }
    }
    let [mask, matrix] = cx.each_out([fwd::MASK, fwd::MATRIX]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (rois, grid) = (rois.data::<T>(), grid(a));
        if let Some(mask) = mask {
            quads::mask(&grid, rois, size, mask.data_mut::<i32>()?);
        }
        if let Some(matrix) = matrix {
            quads::matrices(&grid, rois, matrix.data_mut::<T>()?);
        }
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| quads::bins(&grid, &rois[n * 8..][..8], size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(grad::X)?, cx.input(grad::ROIS)?, cx.attrs::<PerspectiveAttrs>());
    let p = pooling(cx, grad::X, grad::ROIS)?;
    let out = [rois.dims()[0], x.dims()[1], a.transformed_height as i64, a.transformed_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (rois, grid) = (rois.data::<T>(), grid(a));
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| quads::bins(&grid, &rois[n * 8..][..8], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static PERSPECTIVE: Op = Op {
    name: "roi_perspective_transform",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PerspectiveAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&PERSPECTIVE_GRAD),
    ..OP
};

pub static PERSPECTIVE_GRAD: Op = Op {
    name: "roi_perspective_transform_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PerspectiveAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PERSPECTIVE, &PERSPECTIVE_GRAD];
