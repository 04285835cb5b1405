//! norm: vectors along an axis divided by their length.

use oar_core::attrs;
use oar_core::base::{shape, Result};
use oar_core::op::infer::like_first;
use oar_core::op::parts::axis::{like, split};
use oar_core::op::parts::half::in_f32;
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use oar_core::{dispatch, ensure};
use oar_kernels::unit as kernel;

attrs! {
    pub struct NormAttrs { axis: i32, epsilon: f32 = 1e-10 }
}

fn infer(cx: &mut Infer) -> Result<()> {
    let mut dims = cx.dims(0)?;
    let axis = shape::axis(cx.op.name, cx.attrs::<NormAttrs>().axis as i64, dims.len())?;
    dims[axis] = 1;
    let dtype = cx.dtype(0)?;
    cx.set(0, &dims, dtype);
    let x = cx.dims(0)?;
    cx.set(1, &x, dtype);
    Ok(())
}

fn norm(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let a = cx.attrs::<NormAttrs>();
    let extents = split(cx.op.name, x.dims(), a.axis)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut norm, mut y) = (cx.take_out(0)?, cx.take_out(1)?);
        kernel::normalize(extents, a.epsilon as T, x.data::<T>(), y.data_mut::<T>()?, norm.data_mut::<T>()?);
        cx.set(0, norm);
        cx.set(1, y);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn norm_grad(cx: &mut Run) -> Result<()> {
    let (x, dy, norm) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
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
        kernel::normalize_grad(extents, x.data::<T>(), norm.data::<T>(), dy.data::<T>(), cx.out_data::<T>(0)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static NORM: Op = Op {
    name: "norm",
    inputs: &[slot("X")],
    outputs: &[slot("Norm").mid(), slot("Out")],
    attrs: NormAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, norm)),
    grad: Grad::By(&NORM_GRAD),
    ..OP
};

pub static NORM_GRAD: Op = Op {
    name: "norm_grad",
    inputs: &[slot("X"), slot("Out@GRAD"), slot("Norm")],
    outputs: &[slot("X@GRAD")],
    attrs: NormAttrs::FIELDS,
    infer: like_first,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, norm_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&NORM, &NORM_GRAD];
