//! roi_align: the mean of bilinear samples in each bin of a RoI.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::align::{bins, AlignedRois};
use oar_kernels::detection::rois::{Pooling, RoiGrid};

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

fn geometry(a: &RoiAlignAttrs) -> AlignedRois {
    let grid = RoiGrid { scale: a.spatial_scale, rows: a.pooled_height as usize, cols: a.pooled_width as usize };
    AlignedRois { grid, samples: a.sampling_ratio, aligned: a.aligned }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot, count: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<RoiAlignAttrs>();
    rois::pooling(cx, (x, rois, Some(count)), (a.pooled_height, a.pooled_width))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(fwd::X)?, cx.attrs::<RoiAlignAttrs>());
    let (p, rois) = (pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?, cx.input(fwd::ROIS)?);
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let (rois, roi_bins) = (rois.data::<T>(), geometry(a));
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(&roi_bins, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(grad::X)?, cx.attrs::<RoiAlignAttrs>());
    let (p, rois) = (pooling(cx, grad::X, grad::ROIS, grad::COUNT)?, cx.input(grad::ROIS)?);
    let out = [rois.dims()[0], x.dims()[1], a.pooled_height as i64, a.pooled_width as i64];
    let dout = rois::grad_of(cx, grad::DOUT, &out, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64, i32], {
        let (rois, roi_bins) = (rois.data::<T>(), geometry(a));
        p.backward(dout.data::<T>(), cx.out_data::<T>(grad::DX)?, |n, _, to| bins(&roi_bins, &rois[n * 4..][..4], p.size, to));
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
