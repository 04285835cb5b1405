//! dot: inner products of two vectors, or of two matrices row by row.

use super::batched_gemm::{agree, one_type, product, product_grad};
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure};
use oar_kernels::elementwise::Binary;
use oar_kernels::reduce::{self, Reduce};
use oar_ops_common::axis::like;
use oar_ops_common::broadcast::binary;
use oar_ops_common::complex::conj;

fn infer_dot(cx: &mut ShapeContext) -> Result<()> {
    let (x, y, dtype) = (cx.dims(product::X)?, cx.dims(product::Y)?, cx.dtype(product::X)?);
    ensure!(
        (1..=2).contains(&x.len()) && x.len() == y.len() && x.iter().zip(&y).all(|(&a, &b)| agree(a, b)),
        PreconditionNotMet,
        "operator {}: X and Y must have one shape of 1 or 2 dimensions, got {x:?} and {y:?}",
        cx.op.name
    );
    let mut out = x;
    if let Some(last) = out.last_mut() {
        *last = 1;
    }
    one_type(cx, &[product::X, product::Y])?;
    cx.set(product::OUT, &out, dtype);
    Ok(())
}

fn dot(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(product::X)?, cx.input(product::Y)?);
    let (rows, n) = (cx.out(product::OUT)?.numel(), x.dims().last().map_or(0, |&n| n as usize));
    let products = binary(cx.op.name, Binary::Mul, x, y, -1)?;
    if x.dtype().is_complex() {
        let dims = Dims::from_slice(cx.out(product::OUT)?.dims());
        let axes: Vec<bool> = (0..x.rank()).map(|i| i + 1 == x.rank()).collect();
        cx.set(product::OUT, oar_ops_common::complex::sum_over(&products, &axes, &dims)?);
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let out = cx.out_data::<T>(product::OUT)?;
        reduce::reduce(Reduce::Sum, products.data::<T>(), &[rows, n], &[false, true], out);
        Ok(())
    }, other => cx.unsupported(other))
}

fn dot_grad(cx: &mut KernelContext) -> Result<()> {
    use product_grad::{DOUT, DX, DY, X, Y};
    let (op, x, y, dout) = (cx.op.name, cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let mut dims = Dims::from_slice(x.dims());
    if let Some(last) = dims.last_mut() {
        *last = 1;
    }
    like(cx, y, x.dims(), x.dtype(), "Y")?;
    like(cx, dout, &dims, x.dtype(), "Out@GRAD")?;
    for (slot, other) in [(DX, y), (DY, x)] {
        if cx.wants(slot) {
            let other = if other.dtype().is_complex() { conj(other)? } else { other.clone() };
            cx.set(slot, binary(op, Binary::Mul, &other, dout, -1)?);
        }
    }
    Ok(())
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::INDICES).union(DTypes::COMPLEX);

pub static DOT: Op = Op {
    name: "dot",
    inputs: product::INS,
    outputs: product::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: infer_dot,
    cpu: Kernel::Pure(dot),
    grad: Grad::By(&DOT_GRAD),
    ..OP
};

pub static DOT_GRAD: Op = Op {
    name: "dot_grad",
    inputs: product_grad::INS,
    outputs: product_grad::OUTS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(dot_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&DOT, &DOT_GRAD];
