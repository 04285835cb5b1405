//! p_norm: vector norms of any order along an axis; dist: the p-norm of a difference; l1_norm and squared_l2_norm:
//! norms of all elements.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::elementwise::{map, Binary};
use oar_kernels::pool;
use oar_kernels::reduce::{self, Reduce, Reducible};
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

/// Element types of the kernels of this module.
trait NormFloat: Element + Reducible + Number {}
impl NormFloat for f32 {}
impl NormFloat for f64 {}

fn abs<T: Number>(v: T) -> T {
    if v < T::ZERO {
        T::ZERO.sub(v)
    } else {
        v
    }
}

/// Sign: 1, 0 or -1.
fn sign<T: Number>(v: T) -> T {
    if v > T::ZERO {
        T::ONE
    } else if v < T::ZERO {
        T::ZERO.sub(T::ONE)
    } else {
        T::ZERO
    }
}

/// `v` to the power of `p`; common powers avoid the call of `pow`.
fn powered<T: Number>(v: T, p: T) -> T {
    if p == T::ONE {
        v
    } else if p == T::ZERO {
        T::ONE
    } else {
        v.pow(p)
    }
}

/// Norms along the middle one of three dimensions.
fn norms<T: NormFloat>(x: &[T], p: f32, shape: &[usize; 3], out: &mut [T]) {
    let mut terms = vec![T::ZERO; x.len()];
    match p {
        0.0 => map(x, &mut terms, |v| if v != T::ZERO { T::ONE } else { T::ZERO }),
        2.0 => map(x, &mut terms, |v| v.mul(v)),
        _ if p == 1.0 || p.is_infinite() => map(x, &mut terms, abs),
        _ => {
            let power = T::from_f64(p as f64);
            map(x, &mut terms, |v| abs(v).pow(power))
        }
    }
    let op = if p == f32::INFINITY {
        Reduce::Max
    } else if p == f32::NEG_INFINITY {
        Reduce::Min
    } else {
        Reduce::Sum
    };
    reduce::reduce(op, &terms, shape, &[false, true, false], out);
    if p != 0.0 && p != 1.0 && p.is_finite() {
        let root = T::from_f64(1.0 / p as f64);
        out.iter_mut().for_each(|o| *o = o.pow(root));
    }
}

/// The derivative of a norm by an element; `epsilon` keeps the divisor from zero.
fn slope<T: NormFloat>(x: T, norm: T, p: f32, epsilon: T) -> T {
    if p == 0.0 {
        return T::ZERO;
    }
    if p.is_infinite() {
        return if abs(x) == norm { sign(x) } else { T::ZERO };
    }
    let power = T::from_f64((p - 1.0) as f64);
    powered(abs(x), power).div(powered(norm, power).add(epsilon)).mul(sign(x))
}

/// Runs `$body` with `$p`, a compile-time constant for the common orders.
macro_rules! with_order {
    ($p:ident, $body:expr) => {{
        if $p == 1.0 {
            let $p = 1.0;
            $body
        } else if $p == 2.0 {
            let $p = 2.0;
            $body
        } else {
            $body
        }
    }};
}

// p_norm

/// Elements per chunk of a gradient.
const ROWS: usize = 1 << 14;

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
        norms(x.data::<T>(), a.porder, &shape, cx.out_data::<T>(unary::OUT)?);
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
        let (out, p) = (cx.out_data::<T>(DX)?, a.porder);
        // Rows share one norm, or have one norm per element.
        let row = if inner == 1 { n } else { inner }.max(1);
        pool::parts(out, (ROWS / row).max(1) * row, |start, part| {
            for (r, d) in part.chunks_exact_mut(row).enumerate() {
                let r = start / row + r;
                let x = &x[r * row..(r + 1) * row];
                if inner == 1 {
                    let (norm, dout) = (norm[r], dout[r]);
                    with_order!(p, map(x, d, |x| slope(x, norm, p, epsilon) * dout));
                } else {
                    let o = r / n * inner;
                    let both = norm[o..o + inner].iter().zip(&dout[o..o + inner]);
                    let all = d.iter_mut().zip(x.iter().zip(both));
                    with_order!(p, all.for_each(|(d, (&x, (&norm, &dout)))| *d = slope(x, norm, p, epsilon) * dout));
                }
            }
        });
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
        let to = d.data_mut::<T>()?;
        with_order!(p, map(z.data::<T>(), to, |z| slope(z, norm, p, 0.0) * dout));
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
            norms(z.data::<T>(), p, &[1, z.numel(), 1], cx.out_data::<T>(dist::OUT)?);
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
