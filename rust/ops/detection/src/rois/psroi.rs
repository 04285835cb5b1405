//! psroi_pool: the average of each bin of a RoI; every bin reads its own plane.

use crate::boxes::most;
use crate::rois::{self, Bins, Pooling};
use oar_core::attrs;
use oar_core::base::{DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::types::Float;
use std::ops::Range;

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

/// The elements of each bin along one axis; a RoI is at least 0.1 long.
fn side<R: Float>(from: R, to: R, scale: R, pooled: i32, size: usize) -> Vec<Range<usize>> {
    let start = rois::round(from) * scale;
    let end = rois::real::<R>(rois::round(to).to_f64() + 1.0) * scale;
    let bin = most(end - start, rois::real(0.1)) / rois::real(pooled as f64);
    let place = |p: i32| rois::real::<R>(p as f64) * bin + start;
    let clip = |at: i64| at.clamp(0, size as i64) as usize;
    (0..pooled).map(|p| clip(rois::floor(place(p)))..clip(rois::ceil(place(p + 1)))).collect()
}

fn bins<R: Float>(a: &PsRoiAttrs, roi: &[R], (height, width): (usize, usize), to: &mut Bins<R>) {
    let scale = rois::real(a.spatial_scale as f64);
    let rows = side(roi[1], roi[3], scale, a.pooled_height, height);
    let cols = side(roi[0], roi[2], scale, a.pooled_width, width);
    let ones = |to: &mut Bins<R>, range: &Range<usize>| to.line(|l| range.clone().for_each(|at| l.push(at, R::ONE)));
    let lines: Vec<_> = rows.iter().map(|range| ones(to, range)).collect();
    let across: Vec<_> = cols.iter().map(|range| ones(to, range)).collect();
    for (r, row) in rows.iter().zip(lines) {
        for (c, col) in cols.iter().zip(&across) {
            let plane = to.count();
            to.push(plane, row.clone(), col.clone(), rois::real((r.len() * c.len()) as f64));
        }
    }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PsRoiAttrs>();
    let bins = a.pooled_height as usize * a.pooled_width as usize;
    Ok(Pooling { channels: a.output_channels as usize, reads: bins, ..Pooling::new(cx, (x, rois, None), bins)? })
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<PsRoiAttrs>());
    let (p, rois) = (pooling(cx, fwd::X, fwd::ROIS)?, cx.input(fwd::ROIS)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let rois = rois.data::<T>();
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(grad::X)?, cx.attrs::<PsRoiAttrs>());
    let (p, rois) = (pooling(cx, grad::X, grad::ROIS)?, cx.input(grad::ROIS)?);
    let out = [rois.dims()[0], p.channels as i64, a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let rois = rois.data::<T>();
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
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
