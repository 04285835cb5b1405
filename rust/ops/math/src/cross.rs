//! cross: the vector product along an axis of size 3.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::elementwise::cross as kernel;
use oar_ops_common::axis::{like, split};

attrs! {
    pub struct CrossAttrs { dim: i32 = 9 }
}

slots! {
    mod cross { X "X", Y "Y" => OUT "Out" }
    mod cross_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

/// The default of `dim`: use the first dimension of size 3.
const UNSET: i32 = 9;

fn check_cross(cx: &ShapeContext) -> Result<()> {
    let (op, x, y) = (cx.op.name, cx.dims(cross::X)?, cx.dims(cross::Y)?);
    let same = x.len() == y.len() && x.iter().zip(&y).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        same && cx.dtype(cross::X)? == cx.dtype(cross::Y)?,
        InvalidArgument,
        "operator {op}: X and Y must have one shape and data type, got {} of {x:?} and {} of {y:?}",
        cx.dtype(cross::X)?,
        cx.dtype(cross::Y)?
    );
    let dim = cx.attrs::<CrossAttrs>().dim;
    if dim == UNSET {
        let found = x.iter().any(|&d| d == 3 || d < 0);
        ensure!(found, InvalidArgument, "operator {op}: X and Y must have a dimension of size 3, got shape {x:?}");
        return Ok(());
    }
    let rank = x.len() as i32;
    ensure!(-rank <= dim && dim < rank, OutOfRange, "operator {op}: dim must be in [-{rank}, {rank}), got {dim}");
    let n = x[(if dim < 0 { dim + rank } else { dim }) as usize];
    ensure!(n == 3 || n < 0, InvalidArgument, "operator {op}: dimension {dim} must have the size 3, got shape {x:?}");
    Ok(())
}

/// The vector product of `a` and `b` along the attribute's dimension.
fn cross_into(cx: &mut KernelContext, a: &Tensor, b: &Tensor, slot: OutSlot) -> Result<()> {
    let (op, x) = (cx.op.name, a.dims());
    let dim = match cx.attrs::<CrossAttrs>().dim {
        UNSET => x.iter().position(|&d| d == 3).map(|i| i as i32),
        dim => Some(dim),
    };
    let Some(dim) = dim else {
        bail!(InvalidArgument, "operator {op}: there must be a dimension of size 3, got shape {x:?}");
    };
    let (_, n, inner) = split(op, x, dim)?;
    ensure!(n == 3, InvalidArgument, "operator {op}: dimension {dim} must have the size 3, got shape {x:?}");
    like(cx, b, x, a.dtype(), "the other operand")?;
    if inner == 0 {
        return Ok(());
    }
    dispatch!(a.dtype(), T in [f32, f64, i32, i64], {
        kernel::cross(a.data::<T>(), b.data::<T>(), inner, cx.out_data::<T>(slot)?);
        Ok(())
    }, other => cx.unsupported(other))
}

const REAL: DTypes = DTypes::FLOATS.union(DTypes::INDICES);

pub static CROSS: Op = Op {
    name: "cross",
    inputs: cross::INS,
    outputs: cross::OUTS,
    attrs: CrossAttrs::FIELDS,
    dtypes: REAL,
    infer: |cx| {
        check_cross(cx)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| cross_into(cx, cx.input(cross::X)?, cx.input(cross::Y)?, cross::OUT)),
    grad: Grad::By(&CROSS_GRAD),
    ..OP
};

pub static CROSS_GRAD: Op = Op {
    name: "cross_grad",
    inputs: cross_grad::INS,
    outputs: cross_grad::OUTS,
    attrs: CrossAttrs::FIELDS,
    dtypes: REAL,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        use cross_grad::{DOUT, DX, DY, X, Y};
        let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
        like(cx, dout, x.dims(), x.dtype(), "Out@GRAD")?;
        if cx.wants(DX) {
            cross_into(cx, y, dout, DX)?;
        }
        if cx.wants(DY) {
            cross_into(cx, dout, x, DY)?;
        }
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&CROSS, &CROSS_GRAD];
