//! roi_pool: the maximum of each bin of a RoI, and its position.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::max::{backward, forward};
use oar_kernels::detection::rois::{Pooling, RoiGrid};

attrs! {
    pub struct RoiPoolAttrs { spatial_scale: f32 = 1.0, pooled_height: i32 = 1, pooled_width: i32 = 1 }
}

slots! {
    mod fwd { X "X", ROIS "ROIs", COUNT "RoisNum".dispensable() => OUT "Out", ARGMAX "Argmax".intermediate() }
    mod grad {
        X "X".meta_only(), ROIS "ROIs", COUNT "RoisNum".dispensable(), ARGMAX "Argmax", DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32]));

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot, count: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<RoiPoolAttrs>();
    rois::pooling(cx, (x, rois, Some(count)), (a.pooled_height, a.pooled_width))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<RoiPoolAttrs>();
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, Some(fwd::COUNT)), 4, None, sizes, ErrorKind::OutOfRange)?;
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    cx.set(fwd::ARGMAX, &out, DType::I64);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<RoiPoolAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?;
    let grid = RoiGrid { scale: a.spatial_scale, rows: a.pooled_height as usize, cols: a.pooled_width as usize };
    let places = cx.input(fwd::ROIS)?;
    let mut argmax = cx.take_out(fwd::ARGMAX)?;
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let out = (cx.out_data::<T>(fwd::OUT)?, argmax.data_mut::<i64>()?);
        forward(&p, &grid, (x.data::<T>(), places.data::<T>(), -T::MAX), out);
    }, other => return cx.unsupported(other));
    cx.set(fwd::ARGMAX, argmax);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, argmax, a) = (cx.input(grad::X)?, cx.input(grad::ARGMAX)?, cx.attrs::<RoiPoolAttrs>());
    let rois = cx.input(grad::ROIS)?.dims()[0];
    let out = [rois, x.dims()[1], a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    ensure!(
        argmax.dims() == out && argmax.dtype() == DType::I64,
        InvalidArgument,
        "operator roi_pool_grad: input 'Argmax' must be int64 of shape {out:?}, got {argmax:?}"
    );
    let (p, argmax) = (pooling(cx, grad::X, grad::ROIS, grad::COUNT)?, argmax.data::<i64>());
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        backward(&p, argmax, dout.data::<T>(), cx.out_data::<T>(grad::DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static ROI_POOL: Op = Op {
    name: "roi_pool",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: RoiPoolAttrs::FIELDS,
    dtypes: NUMBERS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&ROI_POOL_GRAD),
    ..OP
};

pub static ROI_POOL_GRAD: Op = Op {
    name: "roi_pool_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: RoiPoolAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&ROI_POOL, &ROI_POOL_GRAD];
