//! kron: the Kronecker product, as a broadcast product of [x0, 1, x1, 1, ..] and [1, y0, 1, y1, ..].

use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_ops_common::axis::like;
use oar_ops_common::broadcast::{binary, cast, reduce_to};
use oar_ops_common::complex::conj;
use oar_ops_common::elements::reshaped;

slots! {
    mod kron { X "X", Y "Y" => OUT "Out".kernel_allocated() }
    mod kron_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated() }
}

/// Both shapes with leading ones up to one rank, at most 8 dimensions: the product has twice as many.
fn pair(op: &str, x: &[i64], y: &[i64]) -> Result<(Dims, Dims)> {
    let rank = x.len().max(y.len());
    ensure!(rank <= 8, InvalidArgument, "operator {op}: X and Y may have 8 dimensions at most, got {x:?} and {y:?}");
    let filled = |d: &[i64]| std::iter::repeat_n(1, rank - d.len()).chain(d.iter().copied()).collect();
    Ok((filled(x), filled(y)))
}

/// Interleaves the sizes: those of `first` come before those of `second`.
fn interleaved(first: &[i64], second: &[i64]) -> Dims {
    first.iter().zip(second).flat_map(|(&a, &b)| [a, b]).collect()
}

fn ones(rank: usize) -> Dims {
    Dims::from_elem(1, rank)
}

fn product(x: &[i64], y: &[i64]) -> Dims {
    x.iter().zip(y).map(|(&a, &b)| if a < 0 || b < 0 { -1 } else { a.saturating_mul(b) }).collect()
}

pub static KRON: Op = Op {
    name: "kron",
    inputs: kron::INS,
    outputs: kron::OUTS,
    dtypes: NUMBERS,
    infer: |cx| {
        let (x, y) = pair(cx.op.name, &cx.dims(kron::X)?, &cx.dims(kron::Y)?)?;
        let dtype = cx.dtype(kron::X)?.meet(cx.dtype(kron::Y)?)?;
        cx.set(kron::OUT, &product(&x, &y), dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (x, y) = (cx.input(kron::X)?, cx.input(kron::Y)?);
        let (dx, dy) = pair(cx.op.name, x.dims(), y.dims())?;
        let one = ones(dx.len());
        let (a, b) = (reshaped(x, &interleaved(&dx, &one))?, reshaped(y, &interleaved(&one, &dy))?);
        let out = binary(cx.op.name, Binary::Mul, &a, &b, -1)?;
        cx.set(kron::OUT, out.reshaped(&product(&dx, &dy)));
        Ok(())
    }),
    grad: Grad::By(&KRON_GRAD),
    ..OP
};

fn run_kron_grad(cx: &mut KernelContext) -> Result<()> {
    use kron_grad::{DOUT, DX, DY, X, Y};
    let (op, x, y, dout) = (cx.op.name, cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let (dx, dy) = pair(op, x.dims(), y.dims())?;
    let dtype = x.dtype().meet(y.dtype())?;
    like(cx, dout, &product(&dx, &dy), dtype, "Out@GRAD")?;
    let one = ones(dx.len());
    let (of_x, of_y) = (interleaved(&dx, &one), interleaved(&one, &dy));
    let d = reshaped(dout, &interleaved(&dx, &dy))?;
    for (slot, this, own, other, its) in [(DX, x, &of_x, y, &of_y), (DY, y, &of_y, x, &of_x)] {
        if !cx.wants(slot) {
            continue;
        }
        let other = reshaped(other, its)?;
        let other = if other.dtype().is_complex() { conj(&other)? } else { cast(&other, dtype)? };
        let sum = reduce_to(binary(op, Binary::Mul, &d, &other, -1)?, own, -1)?;
        cx.set(slot, cast(&sum.reshaped(this.dims()), this.dtype())?); // a real operand gets the real part
    }
    Ok(())
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX);

pub static KRON_GRAD: Op = Op {
    name: "kron_grad",
    inputs: kron_grad::INS,
    outputs: kron_grad::OUTS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_kron_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&KRON, &KRON_GRAD];
