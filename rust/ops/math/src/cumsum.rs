//! cumsum: cumulative sums along an axis or of the flattened tensor.

use super::along_axis::{axis_sizes, count, shape_of_x, unary, REAL};
use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::{Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::scan;

attrs! {
    pub struct CumsumAttrs { axis: i32 = -1, flatten: bool = false, exclusive: bool = false, reverse: bool = false }
}

slots! {
    mod cumsum_flat_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn infer_cumsum(cx: &mut ShapeContext) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(unary::X)?, cx.dtype(unary::X)?);
    if cx.attrs::<CumsumAttrs>().flatten {
        dims = Dims::from_slice(&[count(&dims)]);
    }
    cx.set(unary::OUT, &dims, dtype);
    cx.share_lod(unary::OUT, unary::X);
    Ok(())
}

/// Sums along the attribute's axis, or over the flattened tensor.
fn scan(op: &str, a: &CumsumAttrs, reverse: bool, x: &Tensor, out: &mut Tensor) -> Result<()> {
    let flat = [x.numel() as i64];
    let dims = if a.flatten { &flat[..] } else { x.dims() };
    let rank = dims.len() as i64;
    ensure!(
        -rank <= a.axis as i64 && (a.axis as i64) < rank,
        OutOfRange,
        "operator {op}: axis must be in [-{rank}, {rank}), got {}",
        a.axis
    );
    let (_, n, inner) = axis_sizes(dims, axis(op, a.axis as i64, dims.len())?);
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        scan::cumsum(x.data::<T>(), n, inner, a.exclusive, reverse, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "operator {op} has no CPU kernel for data type {other}"));
    Ok(())
}

fn cumsum(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<CumsumAttrs>();
    let x = cx.input(unary::X)?;
    scan(cx.op.name, a, a.reverse, x, cx.out(unary::OUT)?)
}

/// The gradient is a cumsum in the opposite direction; for a flattened input one that restores X's shape.
fn cumsum_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<CumsumAttrs>();
    if a.flatten {
        let (x, out) = (unary::X.0, unary::OUT.0);
        let ins = vec![vec![Src::In(x, None)], vec![Src::GradOut(out, None)]];
        return Ok(vec![GradOp { op: &CUMSUM_FLAT_GRAD, attrs: f.attrs.clone(), ins, outs: vec![vec![Dst(x, None)]] }]);
    }
    let attrs = std::sync::Arc::new(CumsumAttrs { reverse: !a.reverse, ..a.clone() });
    Ok(vec![GradOp::of_first(&CUMSUM, attrs)])
}

pub static CUMSUM: Op = Op {
    name: "cumsum",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: CumsumAttrs::FIELDS,
    dtypes: REAL,
    infer: infer_cumsum,
    cpu: Kernel::Pure(cumsum),
    grad: Grad::Fn(cumsum_grad),
    ..OP
};

pub static CUMSUM_FLAT_GRAD: Op = Op {
    name: "cumsum_flat_grad",
    inputs: cumsum_flat_grad::INS,
    outputs: cumsum_flat_grad::OUTS,
    attrs: CumsumAttrs::FIELDS,
    dtypes: REAL,
    infer: |cx| shape_of_x(cx, cumsum_flat_grad::X, cumsum_flat_grad::DOUT, cumsum_flat_grad::DX),
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<CumsumAttrs>();
        let (x, dout) = (cx.input(cumsum_flat_grad::X)?, cx.input(cumsum_flat_grad::DOUT)?);
        ensure!(
            dout.numel() == x.numel(),
            InvalidArgument,
            "operator cumsum_flat_grad: Out@GRAD must have as many elements as X of shape {:?}, got {dout:?}",
            x.dims()
        );
        scan("cumsum_flat_grad", a, !a.reverse, dout, cx.out(cumsum_flat_grad::DX)?)
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&CUMSUM, &CUMSUM_FLAT_GRAD];
