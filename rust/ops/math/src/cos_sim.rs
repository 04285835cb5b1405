//! cos_sim: cosine similarity of rows.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::cos_sim::{self as kernel, CosineRows};
use oar_ops_common::axis::like;

attrs! { pub struct CosineAttrs {} }

slots! {
    mod cosine { X "X", Y "Y" => OUT "Out", X_NORM "XNorm".intermediate(), Y_NORM "YNorm".intermediate() }
    mod cosine_grad {
        X "X", Y "Y", X_NORM "XNorm", Y_NORM "YNorm", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD"
    }
}

/// Y must have the shape of X, or one row that is broadcast.
fn check(op: &str, x: &[i64], y: &[i64]) -> Result<()> {
    let alike = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        x.len() == y.len()
            && x.len() >= 2
            && x[1..].iter().zip(&y[1..]).all(|(&a, &b)| alike(a, b))
            && (alike(x[0], y[0]) || y[0] == 1),
        InvalidArgument,
        "operator {op}: X and Y must have the same shape of 2 dimensions or more (the first one of Y may be 1), got {x:?} \
         and {y:?}"
    );
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, y, dtype) = (cx.dims(cosine::X)?, cx.dims(cosine::Y)?, cx.dtype(cosine::X)?);
    check(cx.op.name, &x, &y)?;
    cx.set(cosine::OUT, &[x[0], 1], dtype);
    cx.set(cosine::X_NORM, &[x[0], 1], dtype);
    cx.set(cosine::Y_NORM, &[y[0], 1], dtype);
    cx.share_lod(cosine::OUT, cosine::X);
    Ok(())
}

fn width(x: &[i64]) -> usize {
    x[1..].iter().product::<i64>() as usize
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(cosine::X)?, cx.input(cosine::Y)?);
    like(cx, y, y.dims(), x.dtype(), "Y")?;
    let (rows, columns, shared) = (x.dims()[0] as usize, width(x.dims()), y.dims()[0] == 1);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, y) = (x.data::<T>(), y.data::<T>());
        let y_norms = kernel::norms(y, if shared { 1 } else { rows }, columns);
        let x_norms = kernel::norms(x, rows, columns);
        let all = CosineRows { x, y, x_norms: &x_norms, y_norms: &y_norms, columns, shared };
        all.forward(cx.out_data::<T>(cosine::OUT)?);
        for (slot, norms) in [(cosine::X_NORM, x_norms), (cosine::Y_NORM, y_norms)] {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.copy_from_slice(&norms);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    cx.like(cosine_grad::DX, cosine_grad::X)?;
    cx.share_lod(cosine_grad::DX, cosine_grad::X);
    cx.like(cosine_grad::DY, cosine_grad::Y)
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use cosine_grad::{DOUT, DX, DY, OUT, X, X_NORM, Y, Y_NORM};
    let (x, y) = (cx.input(X)?, cx.input(Y)?);
    check(cx.op.name, x.dims(), y.dims())?;
    let [x_norm, y_norm, out, d] = [cx.input(X_NORM)?, cx.input(Y_NORM)?, cx.input(OUT)?, cx.input(DOUT)?];
    let (rows, y_rows) = (x.dims()[0], y.dims()[0]);
    like(cx, y, y.dims(), x.dtype(), "Y")?;
    like(cx, x_norm, &[rows, 1], x.dtype(), "XNorm")?;
    like(cx, y_norm, &[y_rows, 1], x.dtype(), "YNorm")?;
    like(cx, out, &[rows, 1], x.dtype(), "Out")?;
    like(cx, d, &[rows, 1], x.dtype(), "the gradient of Out")?;
    let (columns, shared) = (width(x.dims()), y_rows == 1);
    dispatch!(x.dtype(), T in [f32, f64], {
        let [x, y, x_norm, y_norm, out, d] = [x, y, x_norm, y_norm, out, d].map(|t| t.data::<T>());
        let [dx, dy] = cx.each_out([DX, DY]).map(|t| t.map(|t| t.data_mut::<T>()).transpose());
        let all = CosineRows { x, y, x_norms: x_norm, y_norms: y_norm, columns, shared };
        all.backward(out, d, dx?, dy?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static COSINE: Op = Op {
    name: "cos_sim",
    inputs: cosine::INS,
    outputs: cosine::OUTS,
    attrs: CosineAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&COSINE_GRAD),
    ..OP
};

pub static COSINE_GRAD: Op = Op {
    name: "cos_sim_grad",
    inputs: cosine_grad::INS,
    outputs: cosine_grad::OUTS,
    attrs: CosineAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&COSINE, &COSINE_GRAD];
