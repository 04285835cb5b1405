//! maxout: the maximum of each group of channels.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::maxout as kernel;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct MaxoutAttrs { groups: i32, axis: i32 = 1 }
}

slots! {
    mod maxout { X "X" => OUT "Out" }
    mod maxout_grad { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The channel axis and the group size.
fn grouping(op: &str, a: &MaxoutAttrs, x: &[i64]) -> Result<(usize, i64)> {
    ensure!(a.groups > 1, InvalidArgument, "operator {op}: groups must be greater than 1, got {}", a.groups);
    ensure!(matches!(a.axis, -1 | 1 | 3), InvalidArgument, "operator {op}: axis must be 1, 3 or -1, got {}", a.axis);
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    let (axis, groups) = (if a.axis == 1 { 1 } else { 3 }, a.groups as i64);
    ensure!(
        x[axis] < 0 || x[axis] % groups == 0,
        InvalidArgument,
        "operator {op}: the channels of X ({}) must be a multiple of groups ({groups})",
        x[axis]
    );
    Ok((axis, groups))
}

fn shape(op: &str, a: &MaxoutAttrs, x: &[i64]) -> Result<Dims> {
    let (axis, groups) = grouping(op, a, x)?;
    let mut out = Dims::from_slice(x);
    if out[axis] > 0 {
        out[axis] /= groups;
    }
    Ok(out)
}

/// The number of elements of a group, and their stride.
fn extents(op: &str, a: &MaxoutAttrs, x: &[i64]) -> Result<(usize, usize)> {
    let (axis, groups) = grouping(op, a, x)?;
    Ok((groups as usize, x[axis + 1..].iter().product::<i64>() as usize))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(maxout::X)?;
    let (groups, inner) = extents(cx.op.name, cx.attrs(), x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::forward(groups, inner, x.data::<T>(), cx.out_data::<T>(maxout::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use maxout_grad::{DOUT, DX, OUT, X};
    let (op, x, y, d) = (cx.op.name, cx.input(X)?, cx.input(OUT)?, cx.input(DOUT)?);
    let (groups, inner) = extents(op, cx.attrs(), x.dims())?;
    let out = shape(op, cx.attrs(), x.dims())?;
    for t in [y, d] {
        ensure!(
            t.dims() == &out[..] && t.dtype() == x.dtype(),
            InvalidArgument,
            "operator {op}: Out and its gradient must have the shape {:?} and the data type of X, got {t:?}",
            &out[..]
        );
    }
    if x.numel() == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::backward(groups, inner, (x.data::<T>(), y.data::<T>(), d.data::<T>()), cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(maxout::X)?, cx.dtype(maxout::X)?);
    let out = shape(cx.op.name, cx.attrs(), &x)?;
    cx.set(maxout::OUT, &out, dtype);
    Ok(())
}

pub static MAXOUT: Op = Op {
    name: "maxout",
    inputs: maxout::INS,
    outputs: maxout::OUTS,
    attrs: MaxoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, maxout::X, run)),
    grad: Grad::By(&MAXOUT_GRAD),
    ..OP
};

pub static MAXOUT_GRAD: Op = Op {
    name: "maxout_grad",
    inputs: maxout_grad::INS,
    outputs: maxout_grad::OUTS,
    attrs: MaxoutAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, maxout_grad::X, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&MAXOUT, &MAXOUT_GRAD];
