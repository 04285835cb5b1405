//! roi_align: the mean of bilinear samples in each bin of a RoI. Samples of a bin form a grid, so row and column
//! weights are computed separately.

use crate::boxes::most;
use crate::rois::{self, between, Bins, Feature, Line, Pooling};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::types::Float;
use std::ops::Range;

attrs! {
    pub struct RoiAlignAttrs {
        spatial_scale: f32 = 1.0, pooled_height: i32 = 1, pooled_width: i32 = 1, sampling_ratio: i32 = -1,
        aligned: bool = false,
    }
}

slots! {
    mod fwd { X "X", ROIS "ROIs", COUNT "RoisNum".dispensable() => OUT "Out" }
    mod grad { X "X".meta_only(), ROIS "ROIs", COUNT "RoisNum".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32]));

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<RoiAlignAttrs>();
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, Some(fwd::COUNT)), 4, None, sizes, ErrorKind::InvalidArgument)?;
    let samples = a.pooled_height.max(a.pooled_width) as i64 * a.sampling_ratio.max(1) as i64;
    ensure!(
        samples <= rois::MOST_BINS,
        ResourceExhausted,
        "operator roi_align: sampling_ratio {} makes too many samples of bins {} x {}",
        a.sampling_ratio,
        a.pooled_height,
        a.pooled_width
    );
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    Ok(())
}

/// A RoI along one axis.
struct Side<R> {
    start: R,
    bin: R,
    samples: i64,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new<T: Feature<W = R>>(a: &RoiAlignAttrs, (from, to): (T, T), pooled: i32, size: usize) -> Side<R> {
        let cut = |v: R| if T::WHOLE { rois::real(v.to_f64().trunc()) } else { v };
        let (scale, offset) = (rois::real::<R>(a.spatial_scale as f64), rois::real(if a.aligned { 0.5 } else { 0.0 }));
        let start = cut(from.wide() * scale - cut(offset));
        let mut length = cut(to.wide() * scale - cut(offset)) - start;
        if !a.aligned {
            length = most(length, R::ONE);
        }
        let bin = cut(length / rois::real(pooled as f64));
        let samples = if a.sampling_ratio > 0 { a.sampling_ratio as i64 } else { rois::ceil(bin) };
        Side { start, bin, samples, size }
    }

    /// The range of samples of a bin that can lie within the map; the others count with weight 0.
    fn near(&self, begin: R) -> Range<i64> {
        let all = 0..self.samples.max(0);
        let step = self.bin.to_f64() / self.samples as f64;
        if step.is_nan() || step <= 0.0 {
            return all;
        }
        let sample = |place: f64| ((place - begin.to_f64()) / step) as i64;
        sample(-1.0).saturating_sub(3).clamp(0, all.end)..sample(self.size as f64).saturating_add(3).clamp(0, all.end)
    }

    fn weights<T: Feature>(&self, bin: usize, to: &mut Line<R>) {
        let cut = |v: R| if T::WHOLE { rois::real(v.to_f64().trunc()) } else { v };
        let begin = self.start + rois::real::<R>(bin as f64) * self.bin;
        for i in self.near(begin) {
            let part = cut(rois::real(i as f64 + 0.5)) * self.bin / rois::real(self.samples as f64);
            let place = begin + cut(part);
            if place < rois::real(-1.0) || place > rois::real(self.size as f64) {
                continue;
            }
            let Some((low, high, part)) = between(place, self.size) else { continue };
            to.add(low, R::ONE - part);
            to.add(high, part);
        }
    }
}

fn bins<T: Feature>(a: &RoiAlignAttrs, roi: &[T], (height, width): (usize, usize), to: &mut Bins<T::W>) {
    let down = Side::new(a, (roi[1], roi[3]), a.pooled_height, height);
    let across = Side::new(a, (roi[0], roi[2]), a.pooled_width, width);
    let cols: Vec<_> = (0..a.pooled_width as usize).map(|p| to.line(|l| across.weights::<T>(p, l))).collect();
    let samples = rois::real(down.samples as f64 * across.samples as f64);
    for p in 0..a.pooled_height as usize {
        let rows = to.line(|l| down.weights::<T>(p, l));
        cols.iter().for_each(|cols| to.push(0, rows.clone(), cols.clone(), samples));
    }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot, count: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<RoiAlignAttrs>();
    Pooling::new(cx, (x, rois, Some(count)), a.pooled_height as usize * a.pooled_width as usize)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<RoiAlignAttrs>());
    let (p, rois) = (pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?, cx.input(fwd::ROIS)?);
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let rois = rois.data::<T>();
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(grad::X)?, cx.attrs::<RoiAlignAttrs>());
    let (p, rois) = (pooling(cx, grad::X, grad::ROIS, grad::COUNT)?, cx.input(grad::ROIS)?);
    let out = [rois.dims()[0], x.dims()[1], a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let rois = rois.data::<T>();
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| bins(a, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static ROI_ALIGN: Op = Op {
    name: "roi_align",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: RoiAlignAttrs::FIELDS,
    dtypes: NUMBERS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&ROI_ALIGN_GRAD),
    ..OP
};

pub static ROI_ALIGN_GRAD: Op = Op {
    name: "roi_align_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: RoiAlignAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&ROI_ALIGN, &ROI_ALIGN_GRAD];
