//! Products with shapes of their own: bmm of batches, mv of a matrix and a vector, dot of rows, addmm with something added.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::elementwise::{map, Binary};
use oar_kernels::gemm::{self, strided_batch, Epilogue, Gemm, View};
use oar_kernels::reduce::{self, Reduce};
use oar_ops_common::axis::like;
use oar_ops_common::broadcast::{binary, reduce_to};
use oar_ops_common::complex::conj;
use oar_ops_common::region::broadcast_to;

attrs! {
    pub struct AddmmAttrs { use_mkldnn: bool = false, Alpha: f32 = 1.0, Beta: f32 = 1.0 }
}

slots! {
    mod product { X "X", Y "Y" => OUT "Out" }
    mod product_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
    mod mv { X "X", VEC "Vec" => OUT "Out" }
    mod mv_grad { X "X", VEC "Vec", DOUT "Out@GRAD" => DX "X@GRAD", DVEC "Vec@GRAD" }
    mod addmm { INPUT "Input", X "X", Y "Y" => OUT "Out" }
    mod addmm_grad {
        INPUT "Input".meta_only(), X "X", Y "Y", DOUT "Out@GRAD"
        => DINPUT "Input@GRAD".kernel_allocated(), DX "X@GRAD", DY "Y@GRAD"
    }
}

/// Matrices of a product, `[.., rows, cols]` as they lie, and whether they are read transposed.
type Operand<'a> = (&'a Tensor, bool);

/// Sizes of the product: how many there are, rows and columns of C, the inner size.
type Sizes = (usize, usize, usize, usize);

/// c = alpha * op(a) op(b) + beta * c for each matrix of a batch.
fn multiply(sizes: Sizes, scale: [f64; 2], a: Operand, b: Operand, c: &mut Tensor) -> Result<()> {
    fn typed<T: Gemm + Element + oar_kernels::types::Number>(
        (batch, m, n, k): Sizes,
        [alpha, beta]: [f64; 2],
        (a, ta): (&[T], bool),
        (b, tb): (&[T], bool),
        c: &mut [T],
    ) {
        let (a, b) = (View::rows(a, if ta { m } else { k }, ta), View::rows(b, if tb { k } else { n }, tb));
        let (alpha, beta) = (T::from_f64(alpha), T::from_f64(beta));
        let at = strided_batch(batch, m * k, k * n, m * n);
        gemm::batched((m, n, k), alpha, a, b, beta, c, n, Epilogue::NONE, &at);
    }
    dispatch!(c.dtype(), T in [f32, f64, f16, bf16], {
        typed::<T>(sizes, scale, (a.0.data(), a.1), (b.0.data(), b.1), c.data_mut()?);
        Ok(())
    }, other => bail!(Unimplemented, "matrix products have no CPU kernel for data type {other}"))
}

const PLAIN: [f64; 2] = [1.0, 0.0];

/// Refuses inputs of different data types.
fn one_type(cx: &ShapeContext, slots: &[InSlot]) -> Result<()> {
    let first = cx.dtype(slots[0])?;
    for &slot in &slots[1..] {
        let other = cx.dtype(slot)?;
        let names = [slots[0], slot].map(|s| cx.op.inputs[s.0].name);
        ensure!(
            first == other,
            InvalidArgument,
            "operator {}: {} and {} must have one data type, got {first} and {other}",
            cx.op.name,
            names[0],
            names[1]
        );
    }
    Ok(())
}

fn agree(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

fn to_sizes(sizes: [i64; 4]) -> Sizes {
    let [b, m, n, k] = sizes.map(|d| d as usize);
    (b, m, n, k)
}

// bmm

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

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

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

// mv

fn of_mv(op: &str, x: &[i64], vec: &[i64]) -> Result<[i64; 4]> {
    match (x, vec) {
        (&[m, k], &[l]) if agree(k, l) => Ok([1, m, 1, if k < 0 { l } else { k }]),
        _ => bail!(
            InvalidArgument,
            "operator {op}: X must be a matrix and Vec a vector as long as X is wide, got shapes {x:?} and {vec:?}"
        ),
    }
}

pub static MV: Op = Op {
    name: "mv",
    inputs: mv::INS,
    outputs: mv::OUTS,
    dtypes: TYPES,
    infer: |cx| {
        let [_, m, ..] = of_mv(cx.op.name, &cx.dims(mv::X)?, &cx.dims(mv::VEC)?)?;
        one_type(cx, &[mv::X, mv::VEC])?;
        let dtype = cx.dtype(mv::X)?;
        cx.set(mv::OUT, &[m], dtype);
        cx.share_lod(mv::OUT, mv::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (x, vec) = (cx.input(mv::X)?, cx.input(mv::VEC)?);
        let sizes = to_sizes(of_mv(cx.op.name, x.dims(), vec.dims())?);
        multiply(sizes, PLAIN, (x, false), (vec, false), cx.out(mv::OUT)?)
    }),
    grad: Grad::By(&MV_GRAD),
    ..OP
};
pub static MV_GRAD: Op = Op {
    name: "mv_grad",
    inputs: mv_grad::INS,
    outputs: mv_grad::OUTS,
    dtypes: TYPES,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        use mv_grad::{DOUT, DVEC, DX, VEC, X};
        let (x, vec, dout) = (cx.input(X)?, cx.input(VEC)?, cx.input(DOUT)?);
        let [_, m, _, k] = of_mv(cx.op.name, x.dims(), vec.dims())?;
        like(cx, vec, &[k], x.dtype(), "Vec")?;
        like(cx, dout, &[m], x.dtype(), "Out@GRAD")?;
        let (m, k) = (m as usize, k as usize);
        if cx.wants(DX) {
            multiply((1, m, k, 1), PLAIN, (dout, false), (vec, false), cx.out(DX)?)?;
        }
        if cx.wants(DVEC) {
            multiply((1, k, 1, m), PLAIN, (x, true), (dout, false), cx.out(DVEC)?)?;
        }
        Ok(())
    }),
    ..OP
};

// dot: of two vectors, or of two matrices row by row.

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

// addmm: Alpha * X Y + Beta * Input, which is broadcast.

/// The sizes of the product.
fn of_addmm(op: &str, input: &[i64], x: &[i64], y: &[i64]) -> Result<[i64; 4]> {
    ensure!(
        ![input, x, y].iter().any(|d| d.contains(&0)),
        PreconditionNotMet,
        "operator {op}: Input, X and Y must have elements, got shapes {input:?}, {x:?}, {y:?}"
    );
    let (&[rows, cols], &[m, k], &[l, n]) = (input, x, y) else {
        bail!(InvalidArgument, "operator {op}: Input, X and Y must be matrices, got shapes {input:?}, {x:?}, {y:?}");
    };
    let fits = agree(k, l) && (rows == 1 || agree(rows, m)) && (cols == 1 || agree(cols, n));
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: Input of shape {input:?} and the product of X {x:?} and Y {y:?} do not fit together"
    );
    Ok([1, m, n, if k < 0 { l } else { k }])
}

fn addmm_grad(cx: &mut KernelContext) -> Result<()> {
    use addmm_grad::{DINPUT, DOUT, DX, DY, INPUT, X, Y};
    let (input, x, y, dout) = (cx.input(INPUT)?, cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let sizes = of_addmm(cx.op.name, input.dims(), x.dims(), y.dims())?;
    like(cx, y, &Dims::from_slice(y.dims()), x.dtype(), "Y")?;
    like(cx, dout, &sizes[1..3], x.dtype(), "Out@GRAD")?;
    let a = cx.attrs::<AddmmAttrs>();
    let (_, m, n, k) = to_sizes(sizes);
    if cx.wants(DINPUT) {
        let mut d = dout.empty_like()?;
        dispatch!(dout.dtype(), T in [f32, f64], {
            map(dout.data::<T>(), d.data_mut::<T>()?, |v| v * a.Beta as T);
        }, other => return cx.unsupported(other));
        cx.set(DINPUT, reduce_to(d, input.dims(), -1)?);
    }
    let scale = [a.Alpha as f64, 0.0];
    if cx.wants(DX) {
        multiply((1, m, k, n), scale, (dout, false), (y, true), cx.out(DX)?)?;
    }
    if cx.wants(DY) {
        multiply((1, k, n, m), scale, (x, true), (dout, false), cx.out(DY)?)?;
    }
    Ok(())
}

const ADDMM_OUT: OutSlot = addmm::OUT;

pub static ADDMM: Op = Op {
    name: "addmm",
    inputs: addmm::INS,
    outputs: addmm::OUTS,
    attrs: AddmmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let (input, x, y) = (cx.dims(addmm::INPUT)?, cx.dims(addmm::X)?, cx.dims(addmm::Y)?);
        let [_, m, n, _] = of_addmm(cx.op.name, &input, &x, &y)?;
        one_type(cx, &[addmm::X, addmm::Y, addmm::INPUT])?;
        let dtype = cx.dtype(addmm::X)?;
        cx.set(ADDMM_OUT, &[m, n], dtype);
        cx.share_lod(ADDMM_OUT, addmm::INPUT);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (input, x, y) = (cx.input(addmm::INPUT)?, cx.input(addmm::X)?, cx.input(addmm::Y)?);
        let sizes = of_addmm(cx.op.name, input.dims(), x.dims(), y.dims())?;
        let a = cx.attrs::<AddmmAttrs>();
        let mut out = cx.take_out(ADDMM_OUT)?;
        let wide = broadcast_to(cx.op.name, input, &sizes[1..3])?;
        oar_ops_common::elements::copy_to(&wide, &mut out)?;
        multiply(to_sizes(sizes), [a.Alpha as f64, a.Beta as f64], (x, false), (y, false), &mut out)?;
        cx.set(ADDMM_OUT, out);
        Ok(())
    }),
    grad: Grad::By(&ADDMM_GRAD),
    ..OP
};
pub static ADDMM_GRAD: Op = Op {
    name: "addmm_grad",
    inputs: addmm_grad::INS,
    outputs: addmm_grad::OUTS,
    attrs: AddmmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(addmm_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&BMM, &BMM_GRAD, &MV, &MV_GRAD, &DOT, &DOT_GRAD, &ADDMM, &ADDMM_GRAD];
