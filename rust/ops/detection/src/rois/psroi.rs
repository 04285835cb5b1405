//! psroi_pool: the average of each bin of a RoI; every bin reads its own plane.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::psroi::bins;
use oar_kernels::detection::rois::{Pooling, RoiGrid};

attrs! {
    pub struct PsRoiAttrs {
        output_channels: i32, spatial_scale: f32 = 1.0, pooled_height: i32 = 1, pooled_width: i32 = 1,
    }
}

slots! {
    mod fwd { X "X", ROIS "ROIs" => OUT "Out" }
    mod grad { X "X".meta_only(), ROIS "ROIs", DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<PsRoiAttrs>();
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let channels = a.output_channels as i64;
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, None), 4, Some(channels), sizes, ErrorKind::InvalidArgument)?;
    ensure!(channels > 1, InvalidArgument, "operator psroi_pool: output_channels must be above 1, got {channels}");
    let (x, dtype) = (cx.dims(fwd::X)?, cx.dtype(fwd::X)?);
    let planes = channels * out[2] * out[3];
    ensure!(
        x[1] == planes || x[1] < 0,
        InvalidArgument,
        "operator psroi_pool: X must have output_channels * pooled_height * pooled_width = {planes} channels, got {}",
        x[1]
    );
    cx.set(fwd::OUT, &out, dtype);
    Ok(())
}

fn grid(a: &PsRoiAttrs) -> RoiGrid {
    RoiGrid { scale: a.spatial_scale, rows: a.pooled_height as usize, cols: a.pooled_width as usize }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PsRoiAttrs>();
    let p = rois::pooling(cx, (x, rois, None), (a.pooled_height, a.pooled_width))?;
    Ok(Pooling { channels: a.output_channels as usize, reads: p.bins, ..p })
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<PsRoiAttrs>());
    let (p, rois) = (pooling(cx, fwd::X, fwd::ROIS)?, cx.input(fwd::ROIS)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (rois, grid) = (rois.data::<T>(), grid(a));
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(&grid, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(grad::X)?, cx.attrs::<PsRoiAttrs>());
    let (p, rois) = (pooling(cx, grad::X, grad::ROIS)?, cx.input(grad::ROIS)?);
    let out = [rois.dims()[0], p.channels as i64, a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (rois, grid) = (rois.data::<T>(), grid(a));
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| bins(&grid, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static PSROI_POOL: Op = Op {
    name: "psroi_pool",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PsRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&PSROI_POOL_GRAD),
    ..OP
};

pub static PSROI_POOL_GRAD: Op = Op {
    name: "psroi_pool_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PsRoiAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PSROI_POOL, &PSROI_POOL_GRAD];
