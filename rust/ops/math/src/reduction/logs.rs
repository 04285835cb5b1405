//! logsumexp (logarithm of a sum of exponentials) and frobenius_norm (root of a sum of squares).

use super::{axes, infer_as, of_values, same_types, unary, Axes, ReduceAttrs, Spread};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::shape::to_usize;
use oar_core::base::{DTypes, Result};
use oar_core::dispatch;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::tensor::Tensor;
use oar_kernels::elementwise::map;
use oar_kernels::formula;
use oar_kernels::formula::rows;
use oar_kernels::pool;
use oar_kernels::reduce::{self, Reduce, Reducible};
use oar_kernels::shape::strides::Walk;
use oar_kernels::types::Number;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct LogsumexpAttrs { axis: Vec<i32> = vec![0], keepdim: bool = false, reduce_all: bool = false }
}

impl LogsumexpAttrs {
    /// As attributes of the other reductions. A list that names all axes is reduce_all.
    fn reduce(&self, rank: usize) -> ReduceAttrs {
        let reduce_all = self.reduce_all || self.axis.len() == rank;
        ReduceAttrs { dim: self.axis.clone(), keep_dim: self.keepdim, reduce_all, in_dtype: -1, out_dtype: -1 }
    }
}

/// out = f(x, value of the group that x belongs to), in the shape of x.
fn with_group<T: Element + Reducible>(
    (x, shape, axes): (&[T], &[usize], &[bool]),
    group: &[T],
    out: &mut [T],
    f: impl Fn(T, T) -> T + Sync,
) {
    let strides = super::spread(shape, axes);
    let walk = Walk::new(shape, [&strides]);
    let step = walk.inner()[0];
    pool::parts(out, pool::grain(out.len(), super::GRAIN), |start, part| {
        walk.runs(start..start + part.len(), |at, [k], n| {
            let cells = part[at - start..at - start + n].iter_mut().zip(&x[at..]);
            cells.enumerate().for_each(|(i, (o, &x))| *o = f(x, group[k as usize + i * step as usize]));
        });
    });
}

trait Logs: Element + Reducible + Number + formula::FormulaElement {
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn is_infinite(self) -> bool;
}
macro_rules! logs {
    ($($t:ty)*) => {$(impl Logs for $t {
        fn ln(self) -> $t { <$t>::ln(self) }
        fn sqrt(self) -> $t { <$t>::sqrt(self) }
        fn is_infinite(self) -> bool { <$t>::is_infinite(self) }
    })*};
}
logs!(f32 f64);

/// The maximum is subtracted first, so that nothing overflows; an infinite maximum is not (inf - inf is NaN).
fn logsumexp_of<T: Logs>(x: &[T], shape: &[usize], axes: &[bool], out: &mut [T]) {
    let mut greatest = vec![T::ZERO; out.len()];
    reduce::reduce(Reduce::Max, x, shape, axes, &mut greatest);
    let mut powers = vec![T::ZERO; x.len()];
    greatest.iter_mut().for_each(|m| *m = if m.is_infinite() { T::ZERO } else { *m });
    with_group((x, shape, axes), &greatest, &mut powers, Number::sub);
    rows::exp.run_inplace(&[None], &[], &mut powers);
    reduce::reduce(Reduce::Sum, &powers, shape, axes, out);
    out.iter_mut().zip(&greatest).for_each(|(o, &m)| *o = Number::add(m, o.ln()));
}

fn logsumexp(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(unary::X)?;
    let (shape, a) = (to_usize(x.dims()), cx.attrs::<LogsumexpAttrs>().reduce(x.rank()));
    let axes: Axes = axes(cx.op.name, &a, x.rank())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        logsumexp_of(x.data::<T>(), &shape, &axes, cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn logsumexp_grad(cx: &mut KernelContext) -> Result<()> {
    let dtype = same_types(cx)?;
    let (result, dout) = (cx.input(of_values::OUT)?, cx.input(of_values::DOUT)?);
    let a = cx.attrs::<LogsumexpAttrs>().reduce(cx.input(of_values::X)?.rank());
    let s = Spread::by(cx, &a, &[result, dout])?;
    dispatch!(dtype, T in [f32, f64], {
        let (y, d, dx) = (result.data::<T>(), dout.data::<T>(), cx.out_data::<T>(of_values::DX)?);
        // Of a group of -inf every element has the gradient 0; infinite elements share none of another's infinity.
        s.map(y, d, dx, |x, y, _| if x == y && y.is_infinite() { x.min(0.0) } else { x - y });
        rows::exp.run_inplace(&[None], &[], dx);
        s.change(y, d, dx, |dx, _, _, d| *dx *= d);
        Ok(())
    }, other => cx.unsupported(other))
}

fn norm_of<T: Logs>(x: &Tensor, shape: &[usize], axes: &[bool], out: &mut [T]) {
    let mut squares = vec![T::ZERO; x.numel()];
    map(x.data::<T>(), &mut squares, |v| Number::mul(v, v));
    reduce::reduce(Reduce::Sum, &squares, shape, axes, out);
    out.iter_mut().for_each(|o| *o = o.sqrt());
}

fn frobenius_norm(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(unary::X)?;
    let axes: Axes = axes(cx.op.name, cx.attrs::<ReduceAttrs>(), x.rank())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        norm_of(x, &to_usize(x.dims()), &axes, cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

/// Added to the divisor, as in Paddle.
const EPSILON: f64 = 1e-12;

fn frobenius_norm_grad(cx: &mut KernelContext) -> Result<()> {
    let dtype = same_types(cx)?;
    let (result, dout) = (cx.input(of_values::OUT)?, cx.input(of_values::DOUT)?);
    let s = Spread::new(cx, &[result, dout])?;
    dispatch!(dtype, T in [f32, f64], {
        let dx = |x: T, norm: T, d: T| x / (norm + EPSILON as T) * d;
        s.map(result.data::<T>(), dout.data::<T>(), cx.out_data::<T>(of_values::DX)?, dx);
        Ok(())
    }, other => cx.unsupported(other))
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static LOGSUMEXP: Op = Op {
    name: "logsumexp",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: LogsumexpAttrs::FIELDS,
    dtypes: TYPES,
    infer: |cx| {
        let a = cx.attrs::<LogsumexpAttrs>().reduce(cx.dims(unary::X)?.len());
        infer_as(cx, &a, None)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, unary::X, logsumexp)),
    grad: Grad::By(&LOGSUMEXP_GRAD),
    ..OP
};
pub static LOGSUMEXP_GRAD: Op = Op {
    name: "logsumexp_grad",
    inputs: of_values::INS,
    outputs: of_values::OUTS,
    attrs: LogsumexpAttrs::FIELDS,
    dtypes: TYPES,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, of_values::X, logsumexp_grad)),
    ..OP
};
pub static FROBENIUS_NORM: Op = Op {
    name: "frobenius_norm",
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: ReduceAttrs::FIELDS,
    dtypes: TYPES,
    // The attributes in_dtype and out_dtype are ignored, as in Paddle's kernel.
    infer: |cx| {
        let a = ReduceAttrs { in_dtype: -1, out_dtype: -1, ..cx.attrs::<ReduceAttrs>().clone() };
        infer_as(cx, &a, None)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, unary::X, frobenius_norm)),
    grad: Grad::By(&FROBENIUS_NORM_GRAD),
    ..OP
};
pub static FROBENIUS_NORM_GRAD: Op = Op {
    name: "frobenius_norm_grad",
    inputs: of_values::INS,
    outputs: of_values::OUTS,
    attrs: ReduceAttrs::FIELDS,
    dtypes: TYPES,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, of_values::X, frobenius_norm_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LOGSUMEXP, &LOGSUMEXP_GRAD, &FROBENIUS_NORM, &FROBENIUS_NORM_GRAD];
