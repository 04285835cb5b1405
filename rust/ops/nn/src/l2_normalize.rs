//! norm: L2 normalization along an axis.

use oar_core::attrs;
use oar_core::base::{shape, DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::l2_normalize as kernel;
use oar_ops_common::axis::{like, split};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct NormAttrs { axis: i32, epsilon: f32 = 1e-10 }
}

slots! {
    mod norm { X "X" => NORM "Norm".intermediate(), OUT "Out" }
    mod norm_grad { X "X", DOUT "Out@GRAD", NORM "Norm" => DX "X@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let mut dims = cx.dims(norm::X)?;
    let axis = shape::axis(cx.op.name, cx.attrs::<NormAttrs>().axis as i64, dims.len())?;
    dims[axis] = 1;
    let dtype = cx.dtype(norm::X)?;
    cx.set(norm::NORM, &dims, dtype);
    cx.like(norm::OUT, norm::X)
}

fn normalize(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(norm::X)?;
    let a = cx.attrs::<NormAttrs>();
    let extents = split(cx.op.name, x.dims(), a.axis)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut lengths, mut y) = (cx.take_out(norm::NORM)?, cx.take_out(norm::OUT)?);
        kernel::normalize(extents, a.epsilon as T, x.data::<T>(), y.data_mut::<T>()?, lengths.data_mut::<T>()?);
        cx.set(norm::NORM, lengths);
        cx.set(norm::OUT, y);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn normalize_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, dy, norm) = (cx.input(norm_grad::X)?, cx.input(norm_grad::DOUT)?, cx.input(norm_grad::NORM)?);
    like(cx, dy, x.dims(), x.dtype(), "the gradient of Out")?;
    let extents = split(cx.op.name, x.dims(), cx.attrs::<NormAttrs>().axis)?;
    ensure!(
        norm.numel() == extents.0 * extents.2 && norm.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: Norm must have one {} a vector of X {x:?}, got {norm:?}",
        cx.op.name,
        x.dtype()
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let dx = cx.out_data::<T>(norm_grad::DX)?;
        kernel::normalize_grad(extents, x.data::<T>(), norm.data::<T>(), dy.data::<T>(), dx);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static NORM: Op = Op {
    name: "norm",
    inputs: norm::INS,
    outputs: norm::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, norm::X, normalize)),
    grad: Grad::By(&NORM_GRAD),
    ..OP
};

pub static NORM_GRAD: Op = Op {
    name: "norm_grad",
    inputs: norm_grad::INS,
    outputs: norm_grad::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: like_first,
    cpu: Kernel::Pure(|cx| in_f32(cx, norm_grad::X, normalize_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&NORM, &NORM_GRAD];
