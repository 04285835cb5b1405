//! Reductions over axes, and mean; `logs` has logsumexp and frobenius_norm. Gradients read `Out@GRAD` (and `Out`)
//! broadcast to the shape of X.

pub mod logs;

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::to_usize;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::reduce::{self, Reduce, Reducible};
use oar_kernels::shape::strides::{strides_of, Walk};
use oar_kernels::types::Number;
use oar_kernels::{pool, shape::copy};
use oar_ops_common::broadcast::cast;
use smallvec::SmallVec;

attrs! {
    pub struct ReduceAttrs {
        dim: Vec<i32> = vec![0], keep_dim: bool = false, reduce_all: bool = false, in_dtype: i32 = -1,
        out_dtype: i32 = -1,
    }
}

slots! {
    mod unary { X "X" => OUT "Out" }
    // Gradients of sums read only the shape of X; those of products and extremes also its values and the output.
    mod of_shape { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod of_values { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Elements per chunk of a parallel loop.
const GRAIN: usize = 16 * 1024;

type Axes = SmallVec<[bool; 6]>;

/// A flag per axis: is it reduced?
fn axes(op: &str, a: &ReduceAttrs, rank: usize) -> Result<Axes> {
    if a.reduce_all && rank == 0 {
        return Ok(Axes::new());
    }
    ensure!(!a.dim.is_empty(), InvalidArgument, "operator {op}: attribute 'dim' must name at least one dimension");
    // `dim` (default 0) is checked with reduce_all, too.
    let mut axes: Axes = smallvec::smallvec![a.reduce_all; rank];
    for &d in &a.dim {
        axes[oar_core::base::shape::axis(op, d as i64, rank)?] = true;
    }
    Ok(axes)
}

/// The data type of the attribute; `None` if it is negative.
fn named_dtype(op: &str, attr: &str, n: i32) -> Result<Option<DType>> {
    if n < 0 {
        return Ok(None);
    }
    match DType::from_proto(n) {
        Some(d) => Ok(Some(d)),
        None => oar_core::bail!(InvalidArgument, "operator {op}: {attr} {n} is not a data type of tensors"),
    }
}

/// The output shape; [1] instead of a rank of 0.
fn reduced_dims(x: &[i64], axes: &[bool], keep_dim: bool) -> Dims {
    let mut dims = Dims::new();
    for (&size, &reduced) in x.iter().zip(axes) {
        match (reduced, keep_dim) {
            (false, _) => dims.push(size),
            (true, true) => dims.push(1),
            (true, false) => {}
        }
    }
    if dims.is_empty() {
        dims.push(1);
    }
    dims
}

fn infer(cx: &mut ShapeContext, fixed: Option<DType>) -> Result<()> {
    let a = cx.attrs::<ReduceAttrs>();
    infer_as(cx, a, fixed)
}

fn infer_as(cx: &mut ShapeContext, a: &ReduceAttrs, fixed: Option<DType>) -> Result<()> {
    let x = cx.dims(unary::X)?;
    let axes = axes(cx.op.name, a, x.len())?;
    let dims = reduced_dims(&x, &axes, a.keep_dim);
    let dtype = match fixed {
        Some(d) => d,
        None => named_dtype(cx.op.name, "out_dtype", a.out_dtype)?.unwrap_or(cx.dtype(unary::X)?),
    };
    cx.set(unary::OUT, &dims, dtype);
    if keeps_lod(a, &axes) {
        cx.share_lod(unary::OUT, unary::X);
    }
    Ok(())
}

/// Whether the output keeps the LoD: the first axis is not reduced.
fn keeps_lod(a: &ReduceAttrs, axes: &[bool]) -> bool {
    !a.reduce_all && axes.first() == Some(&false)
}

/// X cast to the output's data type, its shape, and the reduced axes.
fn operand(cx: &KernelContext, to: DType) -> Result<(Tensor, SmallVec<[usize; 6]>, Axes)> {
    let x = cx.input(unary::X)?;
    let axes = axes(cx.op.name, cx.attrs::<ReduceAttrs>(), x.rank())?;
    Ok((cast(x, to)?, to_usize(x.dims()), axes))
}

/// The reduction function.
enum Reducer {
    By(Reduce),
    Mean,
}

fn fast_path(name: &str, way: Reducer, attrs: &Attrs, ins: &[&Tensor]) -> Option<Tensor> {
    let (&[x], a) = (ins, attrs.as_any().downcast_ref::<ReduceAttrs>()?) else { return None };
    if a.out_dtype >= 0 || x.numel() == 0 {
        return None;
    }
    let axes = axes(name, a, x.rank()).ok()?;
    let mut out = Tensor::empty(x.dtype(), &reduced_dims(x.dims(), &axes, a.keep_dim)).ok()?;
    let shape: SmallVec<[usize; 6]> = to_usize(x.dims());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, out) = (x.data::<T>(), out.data_mut::<T>().ok()?);
        match way {
            Reducer::By(op) => reduce::reduce(op, x, &shape, &axes, out),
            Reducer::Mean => reduce::mean(x, &shape, &axes, out),
        }
    }, _other => return None);
    Some(if keeps_lod(a, &axes) { out.with_lod(x.lod.clone()) } else { out })
}

fn reduce(cx: &mut KernelContext, op: Reduce) -> Result<()> {
    let to = cx.out(unary::OUT)?.dtype();
    let (x, shape, axes) = operand(cx, to)?;
    ensure!(
        !matches!(op, Reduce::Max | Reduce::Min) || x.numel() > 0 || cx.out(unary::OUT)?.numel() == 0,
        InvalidArgument,
        "operator {}: X of shape {:?} has no elements along the reduced axes: it has no extreme there",
        cx.op.name,
        x.dims()
    );
    if to.is_complex() && op == Reduce::Sum {
        let out = cx.take_out(unary::OUT)?;
        cx.set(unary::OUT, oar_ops_common::complex::sum_over(&x, &axes, out.dims())?.with_lod(out.lod));
        return Ok(());
    }
    dispatch!(to, T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        reduce::reduce(op, x.data::<T>(), &shape, &axes, cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn mean_over(cx: &mut KernelContext) -> Result<()> {
    let to = cx.out(unary::OUT)?.dtype();
    let (x, shape, axes) = operand(cx, to)?;
    dispatch!(to, T in [f32, f64, f16, bf16], {
        reduce::mean(x.data::<T>(), &shape, &axes, cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn all_any(cx: &mut KernelContext, all: bool) -> Result<()> {
    let x = cx.input(unary::X)?;
    let axes = axes(cx.op.name, cx.attrs::<ReduceAttrs>(), x.rank())?;
    reduce::all_any(all, x.data::<bool>(), &to_usize(x.dims()), &axes, cx.out_data::<bool>(unary::OUT)?);
    Ok(())
}

// Gradients

/// Shape of X; data type of the attribute, else of `Out@GRAD`, the last slot.
fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<ReduceAttrs>();
    let dout = InSlot(cx.op.inputs.len() - 1);
    let dtype = named_dtype(cx.op.name, "in_dtype", a.in_dtype)?.unwrap_or(cx.dtype(dout)?);
    let dims = cx.dims(of_shape::X)?;
    axes(cx.op.name, a, dims.len())?;
    cx.set(of_shape::DX, &dims, dtype);
    cx.share_lod(of_shape::DX, of_shape::X);
    Ok(())
}

/// Strides that broadcast a reduced tensor to the shape of X: 0 along the reduced axes.
fn spread(shape: &[usize], axes: &[bool]) -> Vec<isize> {
    let dims: Vec<usize> = shape.iter().zip(axes).map(|(&d, &reduced)| if reduced { 1 } else { d }).collect();
    let mut strides = strides_of(&dims);
    strides.iter_mut().zip(axes).for_each(|(s, &reduced)| *s = if reduced { 0 } else { *s });
    strides
}

/// X of a gradient operator, with the strides that broadcast the reduced tensors.
struct Spread<'a> {
    x: &'a Tensor,
    shape: SmallVec<[usize; 6]>,
    axes: Axes,
    strides: Vec<isize>,
    /// Elements of X per output element.
    reduced: usize,
}

impl<'a> Spread<'a> {
    fn new(cx: &KernelContext<'a>, results: &[&Tensor]) -> Result<Spread<'a>> {
        Spread::by(cx, cx.attrs::<ReduceAttrs>(), results)
    }

    fn by(cx: &KernelContext<'a>, a: &ReduceAttrs, results: &[&Tensor]) -> Result<Spread<'a>> {
        let x = cx.input(of_shape::X)?;
        let shape = to_usize(x.dims());
        let axes = axes(cx.op.name, a, shape.len())?;
        let (mut outputs, mut reduced) = (1, 1);
        shape.iter().zip(&axes).for_each(|(&d, &r)| if r { reduced *= d } else { outputs *= d });
        for t in results {
            ensure!(
                t.numel() == outputs,
                InvalidArgument,
                "operator {}: {t:?} must have the reduced shape of X {:?}",
                cx.op.name,
                x.dims()
            );
        }
        let strides = spread(&shape, &axes);
        Ok(Spread { x, shape, axes, strides, reduced })
    }

    /// out = f(x, a, b), where `a` and `b` are the elements of the reduced tensors; `out` has the size of X.
    fn map<T: oar_core::base::dtype::Element>(&self, a: &[T], b: &[T], out: &mut [T], f: impl Fn(T, T, T) -> T + Sync) {
        self.change(a, b, out, |o, x, a, b| *o = f(x, a, b));
    }

    /// Calls f(out, x, a, b) for every element, as in `map`.
    fn change<T: oar_core::base::dtype::Element>(
        &self,
        a: &[T],
        b: &[T],
        out: &mut [T],
        f: impl Fn(&mut T, T, T, T) + Sync,
    ) {
        let x = self.x.data::<T>();
        let walk = Walk::new(&self.shape, [&self.strides]);
        let step = walk.inner()[0];
        pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
            let end = start + part.len();
            walk.runs(start..end, |at, [k], n| {
                let k = k as usize;
                let cells = part[at - start..at - start + n].iter_mut().zip(&x[at..]);
                // A run reads one reduced element, or contiguous ones.
                if step == 0 {
                    let (a, b) = (a[k], b[k]);
                    cells.for_each(|(o, &x)| f(o, x, a, b));
                } else {
                    cells.zip(a[k..k + n].iter().zip(&b[k..k + n])).for_each(|((o, &x), (&a, &b))| f(o, x, a, b));
                }
            });
        });
    }

    fn broadcast<T: oar_core::base::dtype::Element + oar_kernels::types::Plain>(&self, t: &[T], out: &mut [T]) {
        copy::strided(t, &self.shape, &self.strides, 0, out)
    }
}

fn sum_grad(cx: &mut KernelContext, mean: bool) -> Result<()> {
    let to = cx.out(of_shape::DX)?.dtype();
    let dout = cast(cx.input(of_shape::DOUT)?, to)?;
    let s = Spread::new(cx, &[&dout])?;
    if to.is_complex() && !mean {
        let out = cx.take_out(of_shape::DX)?;
        cx.set(of_shape::DX, oar_ops_common::elements::strided(&dout, s.x.dims(), &s.strides, 0)?.with_lod(out.lod));
        return Ok(());
    }
    dispatch!(to, T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        let n = <T as Number>::from_f64(s.reduced as f64);
        let out = cx.out_data::<T>(of_shape::DX)?;
        if mean && !out.is_empty() {
            let mut scaled = vec![T::default(); dout.numel()];
            map(dout.data::<T>(), &mut scaled, |v| Number::div(v, n));
            s.broadcast(&scaled, out);
        } else {
            s.broadcast(dout.data::<T>(), out);
        }
        Ok(())
    }, other => cx.unsupported(other))
}

fn same_types(cx: &mut KernelContext) -> Result<DType> {
    let dtype = |slot: InSlot| cx.input(slot).map(Tensor::dtype);
    let (x, out, dout) = (dtype(of_values::X)?, dtype(of_values::OUT)?, dtype(of_values::DOUT)?);
    ensure!(
        x == out && out == dout,
        InvalidArgument,
        "operator {}: X, Out and Out@GRAD must have one data type, got {x}, {out} and {dout}",
        cx.op.name
    );
    let to = cx.out(of_values::DX)?.dtype();
    ensure!(to == x, InvalidArgument, "operator {}: in_dtype is {to}, X has data type {x}", cx.op.name);
    Ok(x)
}

/// Every element that equals the extreme gets the gradient, as in Paddle.
fn extreme_grad(cx: &mut KernelContext) -> Result<()> {
    let dtype = same_types(cx)?;
    let (result, dout) = (cx.input(of_values::OUT)?, cx.input(of_values::DOUT)?);
    let s = Spread::new(cx, &[result, dout])?;
    dispatch!(dtype, T in [f32, f64, i32, i64, f16, bf16], {
        // Multiply by 0 instead of writing 0: NaN stays NaN, as in Paddle.
        let pick = |x: T, e: T, d: T| if x == e { d } else { Number::mul(d, T::default()) };
        s.map(result.data::<T>(), dout.data::<T>(), cx.out_data::<T>(of_values::DX)?, pick);
        Ok(())
    }, other => cx.unsupported(other))
}

fn prod_grad(cx: &mut KernelContext) -> Result<()> {
    let dtype = same_types(cx)?;
    let (result, dout) = (cx.input(of_values::OUT)?, cx.input(of_values::DOUT)?);
    let s = Spread::new(cx, &[result, dout])?;
    dispatch!(dtype, T in [f32, f64, i32, i64, f16, bf16], {
        prod_grad_of::<T>(&s, dout.data(), cx.out_data::<T>(of_values::DX)?);
        Ok(())
    }, other => cx.unsupported(other))
}

/// dout times the product of the other elements: the product of the group's nonzero elements divided by the element.
/// With one zero in the group only that element has a gradient, with two or more none has.
fn prod_grad_of<T>(s: &Spread, dout: &[T], out: &mut [T])
where
    T: oar_core::base::dtype::Element + Reducible + Number,
{
    let x = s.x.data::<T>();
    let (zero, one) = (T::ZERO, T::ONE);
    // `out` is scratch space for both reductions, which avoids an allocation of that size.
    let (mut products, mut zeros) = (vec![one; dout.len()], vec![zero; dout.len()]);
    map(x, out, |v| if v == zero { one } else { v });
    reduce::reduce(Reduce::Prod, out, &s.shape, &s.axes, &mut products);
    map(x, out, |v| if v == zero { one } else { zero });
    reduce::reduce(Reduce::Sum, out, &s.shape, &s.axes, &mut zeros);
    let mut weighted = vec![zero; dout.len()];
    zip(dout, &products, &mut weighted, Number::mul);
    let pick = |x: T, zeros: T, w: T| match x == zero {
        false if zeros == zero => Number::div(w, x),
        true if zeros == one => w,
        _ => zero,
    };
    s.map(&zeros, &weighted, out, pick);
}

macro_rules! reductions {
    ($($op:ident $name:literal $grad:expr, $way:expr, $kernel:expr;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: unary::INS, outputs: unary::OUTS, attrs: ReduceAttrs::FIELDS,
            infer: |cx| infer(cx, None), cannot_fail: true, cpu: Kernel::Pure($kernel), grad: $grad,
            fast_path: Some(|attrs, ins| fast_path($name, $way, attrs, ins)), ..OP
        };
    )*};
}
// Any data type that can be cast to `out_dtype` is accepted.
reductions! {
    SUM "reduce_sum" Grad::By(&SUM_GRAD), Reducer::By(Reduce::Sum), |cx| reduce(cx, Reduce::Sum);
    MEAN_OVER "reduce_mean" Grad::By(&MEAN_OVER_GRAD), Reducer::Mean, mean_over;
    PROD "reduce_prod" Grad::By(&PROD_GRAD), Reducer::By(Reduce::Prod), |cx| reduce(cx, Reduce::Prod);
    MAX "reduce_max" Grad::By(&MAX_GRAD), Reducer::By(Reduce::Max), |cx| reduce(cx, Reduce::Max);
    MIN "reduce_min" Grad::By(&MIN_GRAD), Reducer::By(Reduce::Min), |cx| reduce(cx, Reduce::Min);
}

macro_rules! gradients {
    ($($op:ident $name:literal $slots:ident, $dtypes:expr, $grad:expr, $kernel:expr;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: ReduceAttrs::FIELDS, dtypes: $dtypes,
            infer: infer_grad, cpu: Kernel::Pure($kernel), grad: $grad, ..OP
        };
    )*};
}
/// The second gradient of a linear reduction is the reduction itself.
const SECOND: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];
/// Data types of the gradients that read values.
const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES);
gradients! {
    SUM_GRAD "reduce_sum_grad" of_shape, DTypes::ALL, Grad::Map(&SUM, SECOND), |cx| sum_grad(cx, false);
    MEAN_OVER_GRAD "reduce_mean_grad" of_shape, DTypes::ALL, Grad::Map(&MEAN_OVER, SECOND), |cx| sum_grad(cx, true);
    PROD_GRAD "reduce_prod_grad" of_values, NUMBERS, Grad::None, prod_grad;
    MAX_GRAD "reduce_max_grad" of_values, NUMBERS, Grad::None, extreme_grad;
    MIN_GRAD "reduce_min_grad" of_values, NUMBERS, Grad::None, extreme_grad;
}

const fn boolean(name: &'static str, kernel: fn(&mut KernelContext) -> Result<()>) -> Op {
    Op {
        name,
        inputs: unary::INS,
        outputs: unary::OUTS,
        attrs: ReduceAttrs::FIELDS,
        dtypes: DTypes::BOOL,
        infer: |cx| infer(cx, Some(DType::Bool)),
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}
pub static ALL: Op = boolean("reduce_all", |cx| all_any(cx, true));
pub static ANY: Op = boolean("reduce_any", |cx| all_any(cx, false));

fn mean(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(unary::X)?;
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16], {
        reduce::mean(x.data::<T>(), &[x.numel()], &[true], cx.out_data::<T>(unary::OUT)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn mean_grad(cx: &mut KernelContext) -> Result<()> {
    let dout = cx.input(of_shape::DOUT)?;
    ensure!(dout.numel() == 1, InvalidArgument, "operator mean_grad: Out@GRAD must have one element, got {dout:?}");
    let n = cx.input(of_shape::X)?.numel();
    dispatch!(dout.dtype(), T in [f32, f64, f16, bf16], {
        let each = Number::div(dout.data::<T>()[0], <T as Number>::from_f64(n as f64));
        copy::fill(each, cx.out_data::<T>(of_shape::DX)?);
        Ok(())
    }, other => cx.unsupported(other))
}

pub static MEAN: Op = Op {
    name: "mean",
    cannot_fail: true,
    inputs: unary::INS,
    outputs: unary::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        let dtype = cx.dtype(unary::X)?;
        cx.set(unary::OUT, &[1], dtype);
        Ok(())
    },
    cpu: Kernel::Pure(mean),
    grad: Grad::By(&MEAN_GRAD),
    ..OP
};
pub static MEAN_GRAD: Op = Op {
    name: "mean_grad",
    inputs: of_shape::INS,
    outputs: of_shape::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        let (dims, dtype) = (cx.dims(of_shape::X)?, cx.dtype(of_shape::DOUT)?);
        cx.set(of_shape::DX, &dims, dtype);
        cx.share_lod(of_shape::DX, of_shape::X);
        Ok(())
    },
    cpu: Kernel::Pure(mean_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &SUM,
    &MEAN_OVER,
    &PROD,
    &MAX,
    &MIN,
    &ALL,
    &ANY,
    &MEAN,
    &SUM_GRAD,
    &MEAN_OVER_GRAD,
    &PROD_GRAD,
    &MAX_GRAD,
    &MIN_GRAD,
    &MEAN_GRAD,
];
