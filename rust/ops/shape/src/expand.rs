//! tile, expand and expand_as (1.x): a tensor repeated along each dimension. tile pads the shorter of shape and repeat
//! counts with leading ones; expand_as takes the counts from another tensor's shape.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Attrs, Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, slots};
use oar_ops_common::broadcast::reduce_to;
use oar_ops_common::elements::{share, strided, strides_of};
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};

attrs! {
    pub struct ExpandAttrs { expand_times: Vec<i32> = vec![] }
    pub struct TileAttrs { repeat_times: Vec<i32> = vec![] }
}

slots! {
    mod expand { X "X", TIMES "ExpandTimes".dispensable(), TIMES_LIST "expand_times_tensor".duplicable().dispensable() => OUT "Out".kernel_allocated() }
    mod expand_grad {
        X "X".meta_only(), DOUT "Out@GRAD", TIMES_LIST "expand_times_tensor".duplicable().dispensable(), TIMES "ExpandTimes".dispensable()
        => DX "X@GRAD".kernel_allocated()
    }
    // tile has the slots of expand in the same order.
    mod tile { X "X", TIMES "RepeatTimes".dispensable(), TIMES_LIST "repeat_times_tensor".duplicable().dispensable() => OUT "Out".kernel_allocated() }
    mod tile_grad {
        X "X".meta_only(), DOUT "Out@GRAD", TIMES_LIST "repeat_times_tensor".duplicable().dispensable(), TIMES "RepeatTimes".dispensable()
        => DX "X@GRAD".kernel_allocated()
    }
    mod expand_as { X "X", TARGET "target_tensor".meta_only() => OUT "Out".kernel_allocated() }
    mod expand_as_grad { X "X".meta_only(), TARGET "target_tensor".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

const SOURCES: [AttrSource; 2] = [AttrSource::One(expand::TIMES), AttrSource::List(expand::TIMES_LIST)];
const GRAD_SOURCES: [AttrSource; 2] = [AttrSource::One(expand_grad::TIMES), AttrSource::List(expand_grad::TIMES_LIST)];

/// Two entries per dimension of `x`: the repeat count (1 where `once`), and the size.
fn pairs(x: &[i64], times: &[i64], once: bool) -> Dims {
    x.iter().zip(times).flat_map(|(&d, &t)| [if once { 1 } else { t }, d]).collect()
}

/// Input shape and repeat counts, of one length; -1: unknown count.
struct Repeat {
    x: Dims,
    times: Dims,
}

impl Repeat {
    fn dims(&self) -> Dims {
        self.x.iter().zip(&self.times).map(|(&d, &t)| if d < 0 || t < 0 { -1 } else { d * t }).collect()
    }
}

/// The repeat counts, from a tensor attribute or the plain attribute.
fn repeat(cx: &impl AttrInputs, sources: &[AttrSource], attrs: &Attrs, x: &[i64]) -> Result<Repeat> {
    let (op, any) = (cx.op().name, attrs.as_any());
    let (name, attr, fills) = match (any.downcast_ref::<ExpandAttrs>(), any.downcast_ref::<TileAttrs>()) {
        (Some(a), _) => ("expand_times", &a.expand_times[..], false),
        (_, Some(a)) => ("repeat_times", &a.repeat_times[..], true),
        _ => ("", &[][..], false),
    };
    let attr: Dims = attr.iter().map(|&t| t as i64).collect();
    let (mut x, mut known) = (Dims::from_slice(x), true);
    let mut times = match tensor_attr(cx, sources)? {
        TensorAttr::Known(t) => Dims::from_vec(t),
        TensorAttr::Absent => attr,
        TensorAttr::Length(n) => {
            known = false;
            // Counts from a list of tensors are -1 in the attribute, if it is set.
            if attr.len() == n {
                attr
            } else {
                Dims::from_elem(-1, if fills { n.max(x.len()) } else { x.len() })
            }
        }
    };
    if fills && !times.is_empty() {
        let rank = times.len().max(x.len());
        times.insert_many(0, std::iter::repeat_n(1, rank - times.len()));
        x.insert_many(0, std::iter::repeat_n(1, rank - x.len()));
    }
    ensure!(
        times.len() == x.len() && !x.is_empty() && times.iter().all(|&t| t > 0 || t == -1 && !known),
        InvalidArgument,
        "operator {op}: '{name}' must have a positive number for each dimension of X, one at least, {x:?}, got {times:?}"
    );
    let fits = x.iter().zip(&times).try_fold(1i64, |n, (d, t)| n.checked_mul(d.checked_mul(*t)?.max(1)));
    ensure!(fits.is_some(), ResourceExhausted, "operator {op}: X {x:?} is too large {times:?} times");
    Ok(Repeat { x, times })
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let r = repeat(cx, &SOURCES, cx.attrs, &cx.dims(expand::X)?)?;
    infer_repeated(cx, &r)
}

fn infer_repeated(cx: &mut ShapeContext, r: &Repeat) -> Result<()> {
    let (x, dtype, out) = (cx.dims(expand::X)?, cx.dtype(expand::X)?, r.dims());
    cx.set(expand::OUT, &out, dtype);
    if out.first() == x.first() {
        cx.share_lod(expand::OUT, expand::X);
    }
    Ok(())
}

fn repeated(cx: &mut KernelContext, r: &Repeat) -> Result<()> {
    let x = cx.input(expand::X)?;
    let strides: Vec<isize> = strides_of(&r.x).into_iter().flat_map(|s| [0, s]).collect();
    let (out, dims) = (strided(x, &pairs(&r.x, &r.times, false), &strides, 0)?, r.dims());
    let lod = x.lod.clone().filter(|_| dims.first() == x.dims().first());
    cx.set(expand::OUT, out.reshaped(&dims).with_lod(lod));
    Ok(())
}

/// Sums the gradient over the copies. The gradient operators have the same first output.
fn summed(cx: &mut KernelContext, r: &Repeat, d: &Tensor) -> Result<()> {
    let (x, dims) = (cx.input(expand_grad::X)?, r.dims());
    ensure!(
        d.dims() == &dims[..],
        InvalidArgument,
        "operator {}: Out@GRAD must have shape {dims:?}, got {d:?}",
        cx.op.name
    );
    let split = share(d)?.reshaped(&pairs(&r.x, &r.times, false));
    let dx = reduce_to(split, &pairs(&r.x, &r.times, true), -1)?;
    cx.set(expand_grad::DX, dx.reshaped(x.dims()).with_lod(x.lod.clone()));
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let r = repeat(cx, &SOURCES, cx.attrs, cx.input(expand::X)?.dims())?;
    repeated(cx, &r)
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, d) = (cx.input(expand_grad::X)?, cx.input(expand_grad::DOUT)?);
    let r = repeat(cx, &GRAD_SOURCES, cx.attrs, x.dims())?;
    summed(cx, &r, d)
}

/// The repeat counts that give X the target's shape.
fn to_target(op: &str, x: &[i64], target: &[i64]) -> Result<Repeat> {
    ensure!(
        x.len() == target.len() && !x.is_empty(),
        InvalidArgument,
        "operator {op}: X and target_tensor must have one rank of 1 at least, got shapes {x:?} and {target:?}"
    );
    let times = x.iter().zip(target).map(|(&d, &t)| match (d, t) {
        (-1, _) | (_, -1) => Ok(-1),
        (d, t) if d > 0 && t % d == 0 => Ok(t / d),
        _ => bail!(InvalidArgument, "operator {op}: X of shape {x:?} does not fill the shape {target:?}"),
    });
    Ok(Repeat { x: Dims::from_slice(x), times: times.collect::<Result<Dims>>()? })
}

pub static EXPAND_AS: Op = Op {
    name: "expand_as",
    inputs: expand_as::INS,
    outputs: expand_as::OUTS,
    infer: |cx| {
        let r = to_target(cx.op.name, &cx.dims(expand_as::X)?, &cx.dims(expand_as::TARGET)?)?;
        infer_repeated(cx, &r)
    },
    cpu: Kernel::Pure(|cx| {
        let r = to_target(cx.op.name, cx.input(expand_as::X)?.dims(), cx.input(expand_as::TARGET)?.dims())?;
        repeated(cx, &r)
    }),
    grad: Grad::By(&EXPAND_AS_GRAD),
    ..OP
};
pub static EXPAND_AS_GRAD: Op = Op {
    name: "expand_as_grad",
    inputs: expand_as_grad::INS,
    outputs: expand_as_grad::OUTS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        use expand_as_grad::{DOUT, TARGET, X};
        let r = to_target(cx.op.name, cx.input(X)?.dims(), cx.input(TARGET)?.dims())?;
        summed(cx, &r, cx.input(DOUT)?)
    }),
    ..OP
};

/// Data types of the gradients.
const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX);
const SECOND: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

macro_rules! repeats {
    ($($op:ident $name:literal $slots:ident, $grad:ident $grad_name:literal $grad_slots:ident, $attrs:ident;)*) => {
        $(
            pub static $op: Op = Op {
                name: $name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: $attrs::FIELDS, infer,
                cpu: Kernel::Pure(run), grad: Grad::By(&$grad), ..OP
            };
            pub static $grad: Op = Op {
                name: $grad_name, inputs: $grad_slots::INS, outputs: $grad_slots::OUTS, attrs: $attrs::FIELDS,
                dtypes: NUMBERS, infer: grads_like_inputs, cpu: Kernel::Pure(run_grad), grad: Grad::Map(&$op, SECOND), ..OP
            };
        )*
        pub static TABLE: &[&Op] = &[&EXPAND_AS, &EXPAND_AS_GRAD, $(&$op, &$grad),*];
    };
}
repeats! {
    EXPAND "expand" expand, EXPAND_GRAD "expand_grad" expand_grad, ExpandAttrs;
    TILE "tile" tile, TILE_GRAD "tile_grad" tile_grad, TileAttrs;
}
