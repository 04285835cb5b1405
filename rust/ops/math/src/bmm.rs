//! bmm: matrix products in batches.

use super::batched_gemm::{agree, multiply, one_type, product, product_grad, to_sizes};
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{bail, ensure};
use oar_ops_common::axis::like;

pub(crate) const PLAIN: [f64; 2] = [1.0, 0.0];

/// Batch, rows, columns and inner size.
fn of_bmm(op: &str, x: &[i64], y: &[i64]) -> Result<[i64; 4]> {
    let (&[bx, m, k], &[by, l, n]) = (x, y) else {
        bail!(InvalidArgument, "operator {op}: X and Y must have 3 dimensions, got shapes {x:?} and {y:?}");
    };
    ensure!(
        agree(bx, by) && agree(k, l),
        InvalidArgument,
        "operator {op}: X and Y must have one batch size, and the width of X be the height of Y, got {x:?} and {y:?}"
    );
    Ok([if bx < 0 { by } else { bx }, m, n, if k < 0 { l } else { k }])
}

fn bmm_grad(cx: &mut KernelContext) -> Result<()> {
    use product_grad::{DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let sizes = of_bmm(cx.op.name, x.dims(), y.dims())?;
    like(cx, y, &Dims::from_slice(y.dims()), x.dtype(), "Y")?;
    like(cx, dout, &sizes[..3], x.dtype(), "Out@GRAD")?;
    let (b, m, n, k) = to_sizes(sizes);
    if cx.wants(DX) {
        multiply((b, m, k, n), PLAIN, (dout, false), (y, true), cx.out(DX)?)?;
    }
    if cx.wants(DY) {
        multiply((b, k, n, m), PLAIN, (x, true), (dout, false), cx.out(DY)?)?;
    }
    Ok(())
}

pub(crate) const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static BMM: Op = Op {
    name: "bmm",
    inputs: product::INS,
    outputs: product::OUTS,
    dtypes: TYPES,
    infer: |cx| {
        let sizes = of_bmm(cx.op.name, &cx.dims(product::X)?, &cx.dims(product::Y)?)?;
        one_type(cx, &[product::X, product::Y])?;
        let dtype = cx.dtype(product::X)?;
        cx.set(product::OUT, &sizes[..3], dtype);
        cx.share_lod(product::OUT, product::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (x, y) = (cx.input(product::X)?, cx.input(product::Y)?);
        let sizes = to_sizes(of_bmm(cx.op.name, x.dims(), y.dims())?);
        multiply(sizes, PLAIN, (x, false), (y, false), cx.out(product::OUT)?)
    }),
    grad: Grad::By(&BMM_GRAD),
    amp: oar_core::op::Amp::White,
    ..OP
};

pub static BMM_GRAD: Op = Op {
    name: "bmm_grad",
    inputs: product_grad::INS,
    outputs: product_grad::OUTS,
    dtypes: TYPES,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(bmm_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&BMM, &BMM_GRAD];
