//! p_norm: vector norms of any order along an axis; dist: the p-norm of a difference; l1_norm and squared_l2_norm:
//! norms of all elements.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::elementwise::{map, Binary};
use oar_kernels::norm::p_norm::{self as kernel, abs, sign};
use oar_kernels::reduce::{self, Reduce};
use oar_kernels::types::Number;
use oar_ops_common::axis::{like, split};
use oar_ops_common::broadcast::{binary, broadcast_dims, reduce_to};

attrs! {
    pub struct PNormAttrs {
        porder: f32 = 2.0, axis: i32 = -1, epsilon: f32 = 1e-12, keepdim: bool = false, asvector: bool = false,
    }
    pub struct DistAttrs { p: f32 = 2.0 }
}

slots! {
    mod unary { X "X" => OUT "Out" }
    mod p_norm_grad { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod of_values { X "X", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod squared_grad { DOUT "Out@GRAD", X "X" => DX "X@GRAD" }
    mod dist { X "X", Y "Y" => OUT "Out" }
    mod dist_grad { X "X", Y "Y", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated(), DY "Y@GRAD".kernel_allocated() }
}

// p_norm

/// Sizes before, along and after the axis.
fn axis_sizes(op: &str, a: &PNormAttrs, x: &[i64]) -> Result<[usize; 3]> {
    let (outer, n, inner) = split(op, x, a.axis)?;
    Ok(if a.asvector { [1, outer * n * inner, 1] } else { [outer, n, inner] })
}

fn normed(op: &str, a: &PNormAttrs, x: &[i64]) -> Result<Dims> {
    let at = oar_core::base::shape::axis(op, a.axis as i64, x.len())?;
    Ok(match (a.asvector, a.keepdim) {
        (true, true) => Dims::from_elem(1, x.len()),
        (true, false) => Dims::from_slice(&[1]),
        (false, keep) => {
            let mut dims = Dims::from_slice(x);
            if keep {
                dims[at] = 1;
            } else {
                dims.remove(at);
            }
            dims
        }
    })
}

fn p_norm(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(unary::X)?, cx.attrs::<PNormAttrs>());
    let shape = axis_sizes(cx.op.name, a, x.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::norms(x.data::<T>(), a.porder, &shape, cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn p_norm_grad(cx: &mut KernelContext) -> Result<()> {
    use p_norm_grad::{DOUT, DX, OUT, X};
    let (op, x, norm, dout, a) = (cx.op.name, cx.input(X)?, cx.input(OUT)?, cx.input(DOUT)?, cx.attrs::<PNormAttrs>());
    let dims = normed(op, a, x.dims())?;
    like(cx, norm, &dims, x.dtype(), "Out")?;
    like(cx, dout, &dims, x.dtype(), "Out@GRAD")?;
    let [_, n, inner] = axis_sizes(op, a, x.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, norm, dout) = (x.data::<T>(), norm.data::<T>(), dout.data::<T>());
        let epsilon = <T as Number>::from_f64(a.epsilon as f64);
        kernel::norms_grad(x, (norm, dout), a.porder, (n, inner), epsilon, cx.out_data::<T>(DX)?);
        Ok(())
    }, other => cx.unsupported(other))
}

pub static P_NORM: Op = Op {
    name: "p_norm",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: PNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(unary::X)?, cx.dtype(unary::X)?);
        let dims = normed(cx.op.name, cx.attrs(), &x)?;
        cx.set(unary::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(p_norm),
    grad: Grad::By(&P_NORM_GRAD),
    ..OP
};
pub static P_NORM_GRAD: Op = Op {
    name: "p_norm_grad",
    inputs: p_norm_grad::INS,
    outputs: p_norm_grad::OUTS,
    attrs: PNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(p_norm_grad),
    ..OP
};

// dist

fn together(op: &str, x: &[i64], y: &[i64]) -> Result<Dims> {
    ensure!(
        x.len().max(y.len()) <= 6,
        Unimplemented,
        "operator {op}: X and Y may have 6 dimensions at most, got shapes {x:?} and {y:?}"
    );
    broadcast_dims(op, x, y, -1).map_err(|_| {
        err!(PreconditionNotMet, "operator {op}: the shapes of X {x:?} and Y {y:?} cannot be broadcast together")
    })
}

fn difference(cx: &KernelContext, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure!(
        x.dtype() == y.dtype(),
        InvalidArgument,
        "operator {}: X and Y must have one data type, got {} and {}",
        cx.op.name,
        x.dtype(),
        y.dtype()
    );
    together(cx.op.name, x.dims(), y.dims())?;
    binary(cx.op.name, Binary::Sub, x, y, -1)
}

fn dist_grad(cx: &mut KernelContext) -> Result<()> {
    use dist_grad::{DOUT, DX, DY, OUT, X, Y};
    let (x, y, norm, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(OUT)?, cx.input(DOUT)?);
    like(cx, norm, &[1], x.dtype(), "Out")?;
    like(cx, dout, &[1], x.dtype(), "Out@GRAD")?;
    let z = difference(cx, x, y)?;
    let p = cx.attrs::<DistAttrs>().p;
    let mut d = z.empty_like()?;
    let mut minus = z.empty_like()?;
    dispatch!(z.dtype(), T in [f32, f64], {
        let (norm, dout) = (norm.data::<T>()[0], dout.data::<T>()[0]);
        kernel::norm_grad(z.data::<T>(), norm, p, dout, d.data_mut::<T>()?);
        map(d.data::<T>(), minus.data_mut::<T>()?, |d| -d);
    }, other => return cx.unsupported(other));
    for (slot, d, like) in [(DX, d, x), (DY, minus, y)] {
        if cx.wants(slot) {
            cx.set(slot, reduce_to(d, like.dims(), -1)?.with_lod(like.lod.clone()));
        }
    }
    Ok(())
}

pub static DIST: Op = Op {
    name: "dist",
    inputs: dist::INS,
    outputs: dist::OUTS,
    attrs: DistAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        together(cx.op.name, &cx.dims(dist::X)?, &cx.dims(dist::Y)?)?;
        let dtype = cx.dtype(dist::X)?;
        cx.set(dist::OUT, &[1], dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let z = difference(cx, cx.input(dist::X)?, cx.input(dist::Y)?)?;
        let p = cx.attrs::<DistAttrs>().p;
        dispatch!(z.dtype(), T in [f32, f64], {
            kernel::norms(z.data::<T>(), p, &[1, z.numel(), 1], cx.out_data::<T>(dist::OUT)?);
            Ok(())
        }, other => cx.unsupported(other))
    }),
    grad: Grad::By(&DIST_GRAD),
    ..OP
};
pub static DIST_GRAD: Op = Op {
    name: "dist_grad",
    inputs: dist_grad::INS,
    outputs: dist_grad::OUTS,
    attrs: DistAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(dist_grad),
    ..OP
};

// l1_norm and squared_l2_norm: sums of absolute values and of squares of all elements.

fn infer_one(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(unary::X)?;
    cx.set(unary::OUT, &[1], dtype);
    Ok(())
}

macro_rules! of_all {
    ($($op:ident $name:literal, $grad:ident $grad_name:literal $slots:ident, $term:expr, $slope:expr;)*) => {
        $(
            pub static $op: Op = Op {
                name: $name, inputs: unary::INS, outputs: unary::OUTS, attrs: NoAttrs::FIELDS, dtypes: DTypes::FLOATS,
                infer: infer_one, grad: Grad::By(&$grad),
                cpu: Kernel::Pure(|cx| {
                    let x = cx.input(unary::X)?;
                    dispatch!(x.dtype(), T in [f32, f64], {
                        let term = $term;
                        let mut terms = vec![T::default(); x.numel()];
                        map(x.data::<T>(), &mut terms, |v: T| term(v));
                        let out = cx.out_data::<T>(unary::OUT)?;
                        reduce::reduce(Reduce::Sum, &terms, &[x.numel()], &[true], out);
                        Ok(())
                    }, other => cx.unsupported(other))
                }),
                ..OP
            };
            pub static $grad: Op = Op {
                name: $grad_name, inputs: $slots::INS, outputs: $slots::OUTS, dtypes: DTypes::FLOATS,
                infer: grads_like_inputs,
                cpu: Kernel::Pure(|cx| {
                    let (x, dout) = (cx.input($slots::X)?, cx.input($slots::DOUT)?);
                    like(cx, dout, &[1], x.dtype(), "Out@GRAD")?;
                    dispatch!(x.dtype(), T in [f32, f64], {
                        let (slope, d) = ($slope, dout.data::<T>()[0]);
                        map(x.data::<T>(), cx.out_data::<T>($slots::DX)?, |x: T| slope(x) * d);
                        Ok(())
                    }, other => cx.unsupported(other))
                }),
                ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[&P_NORM, &P_NORM_GRAD, &DIST, &DIST_GRAD, $(&$op, &$grad),*];
    };
}
of_all! {
    L1_NORM "l1_norm", L1_NORM_GRAD "l1_norm_grad" of_values, abs, sign;
    SQUARED_L2_NORM "squared_l2_norm", SQUARED_L2_NORM_GRAD "squared_l2_norm_grad" squared_grad, |v: T| v * v, |v: T| v + v;
}
