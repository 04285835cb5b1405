//! prroi_pool: the mean of the interpolated map over each bin of a RoI, an integral that is differentiable by the RoI's
//! coordinates, too. Integers are averaged in f64 and truncated once.

use crate::rois;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, ErrorKind, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::rois::precise::{bins, of_rois};
use oar_kernels::detection::rois::{Pooling, RoiGrid};

attrs! {
    pub struct PrRoiAttrs { spatial_scale: f32 = 1.0, pooled_height: i32 = 1, pooled_width: i32 = 1 }
}

slots! {
    mod fwd { X "X", ROIS "ROIs", COUNT "BatchRoINums".dispensable() => OUT "Out" }
    mod grad {
        X "X", OUT "Out", ROIS "ROIs", COUNT "BatchRoINums".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD", DROIS "ROIs@GRAD"
    }
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<PrRoiAttrs>();
    let sizes = (a.pooled_height, a.pooled_width, a.spatial_scale);
    let out = rois::shape(cx, (fwd::X, fwd::ROIS, Some(fwd::COUNT)), 4, None, sizes, ErrorKind::InvalidArgument)?;
    if cx.has(fwd::COUNT) {
        let (x, count) = (cx.dims(fwd::X)?, cx.dims(fwd::COUNT)?);
        ensure!(
            count[0] == x[0] || count[0] < 0 || x[0] < 0,
            InvalidArgument,
            "operator prroi_pool: BatchRoINums must have one number for each of the {} images, got {}",
            x[0],
            count[0]
        );
    }
    let dtype = cx.dtype(fwd::X)?;
    cx.set(fwd::OUT, &out, dtype);
    Ok(())
}

fn grid(a: &PrRoiAttrs) -> RoiGrid {
    RoiGrid { scale: a.spatial_scale, rows: a.pooled_height as usize, cols: a.pooled_width as usize }
}

fn pooling(cx: &KernelContext, x: InSlot, rois: InSlot, count: InSlot) -> Result<Pooling> {
    let a = cx.attrs::<PrRoiAttrs>();
    rois::pooling(cx, (x, rois, Some(count)), (a.pooled_height, a.pooled_width))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(fwd::X)?, cx.input(fwd::ROIS)?, cx.attrs::<PrRoiAttrs>());
    let p = pooling(cx, fwd::X, fwd::ROIS, fwd::COUNT)?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let (rois, grid) = (rois.data::<T>(), grid(a));
        p.forward(x.data::<T>(), cx.out_data::<T>(fwd::OUT)?, |n, _, to| bins(&grid, &rois[n * 4..][..4], p.size, to));
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, rois, a) = (cx.input(grad::X)?, cx.input(grad::ROIS)?, cx.attrs::<PrRoiAttrs>());
    let p = pooling(cx, grad::X, grad::ROIS, grad::COUNT)?;
    let dims = [rois.dims()[0], x.dims()[1], a.pooled_height as i64, a.pooled_width as i64];
    let (out, dout) =
        (rois::grad_of(cx, grad::OUT, &dims, x.dtype())?, rois::grad_of(cx, grad::DOUT, &dims, x.dtype())?);
    let grid = grid(a);
    let [dx, drois] = cx.each_out([grad::DX, grad::DROIS]);
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let (rois, x, out, dout) = (rois.data::<T>(), x.data::<T>(), out.data::<T>(), dout.data::<T>());
        if let Some(dx) = dx {
            p.backward(dout, dx.data_mut::<T>()?, |n, _, to| bins(&grid, &rois[n * 4..][..4], p.size, to));
        }
        if let Some(drois) = drois {
            of_rois(&p, &grid, rois, (x, out, dout), drois.data_mut::<T>()?);
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static PRROI_POOL: Op = Op {
    name: "prroi_pool",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: PrRoiAttrs::FIELDS,
    dtypes: NUMBERS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&PRROI_POOL_GRAD),
    ..OP
};

pub static PRROI_POOL_GRAD: Op = Op {
    name: "prroi_pool_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: PrRoiAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRROI_POOL, &PRROI_POOL_GRAD];
