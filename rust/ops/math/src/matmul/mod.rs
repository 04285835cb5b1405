//! Matrix products: mul, matmul, matmul_v2, their gradients and second gradients. All call `gemm`, which reads
//! transposed operands in place.

mod batches;
mod complex;
mod gradients;
mod plan;

use batches::product;
use gradients::{checked, grad_x, grad_y};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::gemm;
use plan::{backward, forward, second, MatmulAttrs, MatmulPlan, MatmulV2Attrs, MulAttrs};
use smallvec::smallvec;

/// Rows, columns and inner size in the common case: two matrices, neither transposed nor scaled. It needs no plan,
/// whose construction is a measurable part of a small product.
fn plain(attrs: &oar_core::op::Attrs, x: &[i64], y: &[i64]) -> Option<(i64, i64, i64)> {
    let any = attrs.as_any();
    let as_they_lie = if let Some(a) = any.downcast_ref::<MatmulV2Attrs>() {
        !a.trans_x && !a.trans_y
    } else if let Some(a) = any.downcast_ref::<MatmulAttrs>() {
        !a.transpose_X && !a.transpose_Y && a.alpha == 1.0 && a.fused().iter().all(|f| f.is_empty())
    } else {
        any.downcast_ref::<MulAttrs>().is_some_and(|a| (a.x_num_col_dims, a.y_num_col_dims) == (1, 1))
    };
    match (x, y) {
        (&[rows, k], &[l, cols]) if k == l && as_they_lie => Some((rows, cols, k)),
        _ => None,
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, y) = (cx.dims(forward::X)?, cx.dims(forward::Y)?);
    let dims = match plain(cx.attrs, &x, &y) {
        Some((rows, cols, _)) => smallvec![rows, cols],
        None => MatmulPlan::new(cx.op, cx.attrs, &x, &y)?.dims,
    };
    let dtype = cx.dtype(forward::X)?.meet(cx.dtype(forward::Y)?)?;
    cx.set(forward::OUT, &dims, dtype);
    cx.share_lod(forward::OUT, forward::X);
    Ok(())
}

/// The data type of all inputs; the promoted one if any is complex.
fn same_dtype(cx: &KernelContext, slots: &[InSlot]) -> Result<DType> {
    let mut dtype = cx.input(slots[0])?.dtype();
    for &s in &slots[1..] {
        let Some(t) = cx.opt(s) else { continue };
        dtype = dtype.meet(t.dtype())?;
        if dtype.is_complex() {
            continue;
        }
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: all inputs must have one data type, got {dtype} and {}",
            cx.op.name,
            t.dtype()
        );
    }
    Ok(dtype)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let dtype = same_dtype(cx, &[forward::X, forward::Y])?;
    let (x, y) = (cx.input(forward::X)?, cx.input(forward::Y)?);
    let p = MatmulPlan::new(cx.op, cx.attrs, x.dims(), y.dims())?;
    if dtype.is_complex() {
        return complex::run(cx, &p, dtype);
    }
    product(p.alpha, (x, &p.x), (y, &p.y), (cx.out(forward::OUT)?, &p.out), false)
}

/// Eager fast path: two contiguous matrices of one common data type.
fn fast_path(attrs: &oar_core::op::Attrs, ins: &[&Tensor]) -> Option<Tensor> {
    let &[x, y] = ins else { return None };
    let (rows, cols, inner) = plain(attrs, x.dims(), y.dims())?;
    // Larger products take the normal path, which releases the GIL.
    let work = rows.checked_mul(cols)?.checked_mul(inner)?;
    if x.dtype() != y.dtype() || work > 1 << 20 {
        return None;
    }
    let mut out = Tensor::empty(x.dtype(), &[rows, cols]).ok()?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let sizes = (rows as usize, cols as usize, inner as usize);
        gemm::matmul::<T>(sizes, x.data(), false, y.data(), false, out.data_mut().ok()?);
    }, _other => return None);
    Some(out.with_lod(x.lod.clone()))
}

fn run_backward(cx: &mut KernelContext) -> Result<()> {
    use backward::{DOUT, DX, DY, X, Y};
    let dtype = same_dtype(cx, &[X, Y, DOUT])?;
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let p = MatmulPlan::new(cx.op, cx.attrs, x.dims(), y.dims())?;
    if dtype.is_complex() {
        return complex::run_backward(cx, &p, dtype);
    }
    checked(cx, &p, dout)?;
    if cx.wants(DX) {
        grad_x(&p, dout, y, cx.out(DX)?)?;
    }
    if cx.wants(DY) {
        grad_y(&p, dout, x, cx.out(DY)?)?;
    }
    Ok(())
}

/// Reads X, Y, DOut, DDX, DDY; writes DX, DY, DDOut. An absent DDX or DDY is zero.
fn run_second(cx: &mut KernelContext) -> Result<()> {
    use second::{DDOUT, DDX, DDY, DOUT, DX, DY, X, Y};
    let dtype = same_dtype(cx, &[X, Y, DOUT, DDX, DDY])?;
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let (ddx, ddy) = (cx.opt(DDX), cx.opt(DDY));
    let p = MatmulPlan::new(cx.op, cx.attrs, x.dims(), y.dims())?;
    checked(cx, &p, dout)?;
    for (given, like) in [(ddx, x), (ddy, y)] {
        ensure!(
            given.is_none_or(|t| t.dims() == like.dims()),
            InvalidArgument,
            "operator {}: a second gradient must have the shape {:?} of its variable",
            cx.op.name,
            like.dims()
        );
    }
    if dtype.is_complex() {
        return complex::run_second(cx, &p, dtype);
    }
    if cx.wants(DX) {
        match ddy {
            Some(ddy) => grad_x(&p, dout, ddy, cx.out(DX)?)?,
            None => cx.out(DX)?.bytes_mut()?.fill(0),
        }
    }
    if cx.wants(DY) {
        match ddx {
            Some(ddx) => grad_y(&p, dout, ddx, cx.out(DY)?)?,
            None => cx.out(DY)?.bytes_mut()?.fill(0),
        }
    }
    if cx.wants(DDOUT) {
        let ddout = cx.out(DDOUT)?;
        if let Some(ddx) = ddx {
            product(p.alpha, (ddx, &p.x), (y, &p.y), (&mut *ddout, &p.out), false)?;
        }
        if let Some(ddy) = ddy {
            product(p.alpha, (x, &p.x), (ddy, &p.y), (&mut *ddout, &p.out), ddx.is_some())?;
        }
        if ddx.is_none() && ddy.is_none() {
            ddout.bytes_mut()?.fill(0);
        }
    }
    Ok(())
}

fn infer_second(cx: &mut ShapeContext) -> Result<()> {
    cx.like(second::DX, second::X)?;
    cx.like(second::DY, second::Y)?;
    cx.like(second::DDOUT, second::DOUT)
}

/// Data types of `gemm`.
const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX);
const SECOND: &[(&str, &str)] = &[
    ("DOut", "Out@GRAD"),
    ("DDX", "X@GRAD@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
    ("DX", "X@GRAD"),
    ("DY", "Y@GRAD"),
    ("DDOut", "Out@GRAD@GRAD"),
];

macro_rules! products {
    ($($op:ident $grad:ident $second:ident $name:literal $grad_name:literal $second_name:literal $attrs:ident;)*) => {
        $(
            pub static $op: Op = Op {
                name: $name, inputs: forward::INS, outputs: forward::OUTS, attrs: $attrs::FIELDS, dtypes: NUMBERS, infer,
                cannot_fail: true, cpu: Kernel::Pure(run), grad: Grad::By(&$grad), amp: oar_core::op::Amp::White, fast_path: Some(fast_path),
                ..OP
            };
            pub static $grad: Op = Op {
                name: $grad_name, inputs: backward::INS, outputs: backward::OUTS, attrs: $attrs::FIELDS, dtypes: NUMBERS,
                infer: grads_like_inputs, cpu: Kernel::Pure(run_backward), grad: Grad::Map(&$second, SECOND), ..OP
            };
            pub static $second: Op = Op {
                name: $second_name, inputs: second::INS, outputs: second::OUTS, attrs: $attrs::FIELDS, dtypes: NUMBERS,
                infer: infer_second, cpu: Kernel::Pure(run_second), ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad, &$second),*];
    };
}
products! {
    MUL MUL_GRAD MUL_GRAD_GRAD "mul" "mul_grad" "mul_grad_grad" MulAttrs;
    MATMUL MATMUL_GRAD MATMUL_GRAD_GRAD "matmul" "matmul_grad" "matmul_grad_grad" MatmulAttrs;
    MATMUL_V2 MATMUL_V2_GRAD MATMUL_V2_GRAD_GRAD "matmul_v2" "matmul_v2_grad" "matmul_v2_grad_grad" MatmulV2Attrs;
}
