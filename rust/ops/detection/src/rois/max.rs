//! roi_pool: the maximum of each bin of a RoI, and its position.

use crate::rois::{self, Feature, Pooling};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool::{self, Shared};
use std::ops::Range;

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
    Pooling::new(cx, (x, rois, Some(count)), a.pooled_height as usize * a.pooled_width as usize)
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

/// The elements of each bin along one axis, within the map. Bin edges are computed in f32 for all types.
fn bins(start: i64, end: i64, pooled: usize, size: usize) -> Vec<Range<usize>> {
    let length = end.saturating_sub(start).saturating_add(1).max(1);
    let bin = length as f32 / pooled as f32;
    let clip = |at: i64| at.saturating_add(start).clamp(0, size as i64) as usize;
    (0..pooled).map(|p| clip((p as f32 * bin).floor() as i64)..clip(((p + 1) as f32 * bin).ceil() as i64)).collect()
}

fn forward<T: Feature + PartialOrd>(
    p: &Pooling,
    a: &RoiPoolAttrs,
    (x, rois, least): (&[T], &[T], T),
    (out, argmax): (&mut [T], &mut [i64]),
) {
    let (each, (height, width)) = (p.channels * p.bins, p.size);
    let (out, argmax) = (Shared::new(out), Shared::new(argmax));
    let image_of = p.image_of_rois();
    pool::chunks(image_of.len(), |roi| {
        let image = image_of[roi];
        // SAFETY: RoIs have disjoint parts, and the slices outlive the call.
        let (out, argmax) =
            unsafe { (out.part(roi * each..(roi + 1) * each), argmax.part(roi * each..(roi + 1) * each)) };
        let scale = rois::real::<T::W>(a.spatial_scale as f64);
        let at = |k: usize| rois::floor(rois::round(rois[roi * 4 + k].wide() * scale));
        let rows = bins(at(1), at(3), a.pooled_height as usize, height);
        let cols = bins(at(0), at(2), a.pooled_width as usize, width);
        for c in 0..p.channels {
            let plane = &x[(image * p.planes + c) * height * width..][..height * width];
            let mut to = out[c * p.bins..].iter_mut().zip(&mut argmax[c * p.bins..]);
            for rows in &rows {
                for cols in &cols {
                    let empty = rows.is_empty() || cols.is_empty();
                    let (mut best, mut place) = (if empty { T::default() } else { least }, -1);
                    for r in rows.clone() {
                        for k in cols.clone() {
                            if plane[r * width + k] > best {
                                (best, place) = (plane[r * width + k], (r * width + k) as i64);
                            }
                        }
                    }
                    if let Some((o, a)) = to.next() {
                        (*o, *a) = (best, if empty { -1 } else { place });
                    }
                }
            }
        }
    });
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<RoiPoolAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?;
    let places = cx.input(fwd::ROIS)?;
    let mut argmax = cx.take_out(fwd::ARGMAX)?;
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let out = (cx.out_data::<T>(fwd::OUT)?, argmax.data_mut::<i64>()?);
        forward(&p, a, (x.data::<T>(), places.data::<T>(), -T::MAX), out);
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
    let (each, area) = (p.channels * p.bins, p.size.0 * p.size.1);
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let dout = dout.data::<T>();
        p.scatter(cx.out_data::<T>(grad::DX)?, |rois, channels, dx| {
            for roi in rois {
                for (c, dx) in channels.clone().zip(dx.chunks_exact_mut(area)) {
                    let bins = roi * each + c * p.bins..roi * each + (c + 1) * p.bins;
                    for (&at, &d) in argmax[bins.clone()].iter().zip(&dout[bins]) {
                        if let Some(to) = usize::try_from(at).ok().and_then(|at| dx.get_mut(at)) {
                            *to += d;
                        }
                    }
                }
            }
        });
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
