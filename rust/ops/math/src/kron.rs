//! kron: the Kronecker product, a broadcast product of [x0, 1, x1, 1, ..] and [1, y0, 1, y1, ..]; cross: the vector product.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::elementwise::Binary;
use oar_kernels::types::Number;
use oar_ops_common::axis::{like, split};
use oar_ops_common::broadcast::{binary, cast, reduce_to};
use oar_ops_common::complex::conj;
use oar_ops_common::elements::reshaped;

attrs! {
    pub struct CrossAttrs { dim: i32 = 9 }
}

slots! {
    mod kron { X "X", Y "Y" => OUT "Out".kernel_allocated() }
    mod kron_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated() }
    mod cross { X "X", Y "Y" => OUT "Out" }
    mod cross_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

/// Both shapes with one rank, ones in front; 8 dimensions at most, of which there are two each in the product.
fn pair(op: &str, x: &[i64], y: &[i64]) -> Result<(Dims, Dims)> {
    let rank = x.len().max(y.len());
    ensure!(rank <= 8, InvalidArgument, "operator {op}: X and Y may have 8 dimensions at most, got {x:?} and {y:?}");
    let filled = |d: &[i64]| std::iter::repeat_n(1, rank - d.len()).chain(d.iter().copied()).collect();
    Ok((filled(x), filled(y)))
}

/// Every size of `first` before that of `second`.
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
        cx.set(slot, cast(&sum.reshaped(this.dims()), this.dtype())?); // of a real operand only the real part counts
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

// cross

/// What `dim` is where nobody has set it: the first dimension of size 3 counts.
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

/// The vector product of `a` and `b` along the dimension that the attributes name.
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
        let slabs = a.data::<T>().chunks_exact(3 * inner).zip(b.data::<T>().chunks_exact(3 * inner));
        for (out, (a, b)) in cx.out_data::<T>(slot)?.chunks_exact_mut(3 * inner).zip(slabs) {
            for j in 0..3 {
                let (p, q) = ((j + 1) % 3 * inner, (j + 2) % 3 * inner);
                for (k, o) in out[j * inner..(j + 1) * inner].iter_mut().enumerate() {
                    *o = Number::sub(Number::mul(a[p + k], b[q + k]), Number::mul(a[q + k], b[p + k]));
                }
            }
        }
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

pub static TABLE: &[&Op] = &[&KRON, &KRON_GRAD, &CROSS, &CROSS_GRAD];
