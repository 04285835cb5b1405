//! pad and crop: a tensor as a region of a larger one. The gradient of one is the other.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_ops_common::fill::{set_all, Scalar};
use oar_ops_common::region::Region;
use oar_ops_common::tensor_attr::{tensor_attr, AttrInputs, AttrSource, TensorAttr};
use std::sync::Arc;

attrs! {
    pub struct PadAttrs { paddings: Vec<i32>, pad_value: f32 = 0.0 }
    pub struct PadLikeAttrs { pad_value: f32 = 0.0 }
    pub struct CropAttrs { offsets: Vec<i32> = vec![], shape: Vec<i32> = vec![] }
}

slots! {
    mod pad { X "X" => OUT "Out" }
    mod pad_grad { DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
    mod pad_like { X "X".meta_only(), Y "Y" => OUT "Out" }
    mod pad_like_grad { Y "Y".meta_only(), DOUT "Out@GRAD" => DY "Y@GRAD".kernel_allocated() }
    mod crop { X "X", Y "Y".dispensable().meta_only(), OFFSETS "Offsets".dispensable() => OUT "Out".kernel_allocated() }
    mod crop_grad { DOUT "Out@GRAD", X "X".meta_only(), OFFSETS "Offsets".dispensable() => DX "X@GRAD" }
    mod crop_tensor {
        X "X", SHAPE "Shape".dispensable(), OFFSETS "Offsets".dispensable(), SHAPES "ShapeTensor".duplicable().dispensable(),
        EACH_OFFSET "OffsetsTensor".duplicable().dispensable() => OUT "Out".kernel_allocated()
    }
    mod crop_tensor_grad {
        DOUT "Out@GRAD", X "X".meta_only(), EACH_OFFSET "OffsetsTensor".duplicable().dispensable(), OFFSETS "Offsets".dispensable()
        => DX "X@GRAD"
    }
}

const TYPES: DTypes =
    DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS).union(DTypes::BOOL).union(DTypes::COMPLEX);

/// The region of shape `dims` at `from`, which must lie within the whole.
fn part(op: &str, whole: &[i64], from: &[i64], dims: &[i64]) -> Result<Region> {
    let inside =
        |((&w, &f), &d): ((&i64, &i64), &i64)| f >= 0 && d >= 0 && f.checked_add(d).is_some_and(|end| end <= w);
    ensure!(
        whole.len() == from.len() && whole.len() == dims.len() && whole.iter().zip(from).zip(dims).all(inside),
        InvalidArgument,
        "operator {op}: a part of shape {dims:?} at {from:?} does not lie within shape {whole:?}"
    );
    let mut region = Region::whole(whole);
    for (i, (&f, &d)) in from.iter().zip(dims).enumerate() {
        region.narrow(i, f, 1, d);
    }
    Ok(region)
}

/// Fills `out` with `value` and writes `x` at `from`.
fn frame(op: &str, x: &Tensor, from: &[i64], value: f32, out: &mut Tensor) -> Result<()> {
    let region = part(op, out.dims(), from, x.dims())?;
    ensure!(x.dtype() == out.dtype(), InvalidArgument, "operator {op}: {x:?} is not contained in {out:?}");
    if x.numel() < out.numel() {
        set_all(out, Scalar::from(value as f64))?;
    }
    region.write(x, out)
}

// pad

/// Padding before and after each axis.
fn margins(op: &str, a: &PadAttrs, rank: usize) -> Result<(Dims, Dims)> {
    ensure!(
        a.paddings.len() == 2 * rank,
        InvalidArgument,
        "operator {op}: attribute 'paddings' must have two numbers per dimension of X ({rank}), got {:?}",
        a.paddings
    );
    ensure!(
        a.paddings.iter().all(|&p| p >= 0),
        InvalidArgument,
        "operator {op}: attribute 'paddings' must not have negative numbers, got {:?}",
        a.paddings
    );
    let every = |first: usize| a.paddings[first.min(a.paddings.len())..].iter().step_by(2).map(|&p| p as i64).collect();
    Ok((every(0), every(1)))
}

fn infer_pad(cx: &mut ShapeContext) -> Result<()> {
    let mut dims = cx.dims(pad::X)?;
    let (before, after) = margins(cx.op.name, cx.attrs(), dims.len())?;
    let first = dims.first().copied();
    for ((d, b), e) in dims.iter_mut().zip(&before).zip(&after).filter(|((d, _), _)| **d >= 0) {
        *d = d.saturating_add(b + e);
    }
    let dtype = cx.dtype(pad::X)?;
    cx.set(pad::OUT, &dims, dtype);
    if dims.first().copied() == first {
        cx.share_lod(pad::OUT, pad::X);
    }
    Ok(())
}

fn infer_pad_grad(cx: &mut ShapeContext) -> Result<()> {
    let mut dims = cx.dims(pad_grad::DOUT)?;
    let (before, after) = margins(cx.op.name, cx.attrs(), dims.len())?;
    for (i, d) in dims.iter_mut().enumerate().filter(|(_, d)| **d >= 0) {
        let left = *d - before[i] - after[i];
        ensure!(
            left >= 0,
            InvalidArgument,
            "operator {}: paddings {:?} are more than a dimension of Out@GRAD has",
            cx.op.name,
            cx.attrs::<PadAttrs>().paddings
        );
        *d = left;
    }
    let dtype = cx.dtype(pad_grad::DOUT)?;
    cx.set(pad_grad::DX, &dims, dtype);
    Ok(())
}

/// The second gradient pads with zeros, whatever pad_value is.
fn pad_second(f: &Fwd) -> Result<Vec<GradOp>> {
    let zeros = PadAttrs { pad_value: 0.0, ..f.attrs::<PadAttrs>().clone() };
    Ok(vec![GradOp::of_first(&PAD, Arc::new(zeros))])
}

fn infer_pad_like(cx: &mut ShapeContext) -> Result<()> {
    let (x, y) = (cx.dims(pad_like::X)?, cx.dims(pad_like::Y)?);
    ensure!(
        x.len() == y.len() && x.iter().zip(&y).all(|(&x, &y)| x < 0 || y < 0 || x >= y),
        InvalidArgument,
        "operator {}: X must have as many dimensions as Y, none of them smaller, got shapes {:?} and {:?}",
        cx.op.name,
        &x[..],
        &y[..]
    );
    let dtype = cx.dtype(pad_like::Y)?;
    cx.set(pad_like::OUT, &x, dtype);
    cx.share_lod(pad_like::OUT, pad_like::X);
    Ok(())
}

// crop

const OFFSETS: &[AttrSource] = &[AttrSource::One(crop::OFFSETS)];
const GRAD_OFFSETS: &[AttrSource] = &[AttrSource::One(crop_grad::OFFSETS)];
const EACH_OFFSET: &[AttrSource] = &[AttrSource::List(crop_tensor::EACH_OFFSET), AttrSource::One(crop_tensor::OFFSETS)];
const GRAD_EACH_OFFSET: &[AttrSource] =
    &[AttrSource::List(crop_tensor_grad::EACH_OFFSET), AttrSource::One(crop_tensor_grad::OFFSETS)];
const SHAPE: &[AttrSource] = &[AttrSource::List(crop_tensor::SHAPES), AttrSource::One(crop_tensor::SHAPE)];

/// The offsets of a crop; -1 while unknown.
fn offsets(cx: &impl AttrInputs, a: &CropAttrs, sources: &[AttrSource], rank: usize) -> Result<Dims> {
    let found: Dims = match tensor_attr(cx, sources)? {
        TensorAttr::Known(v) => v.into(),
        TensorAttr::Length(n) => Dims::from_elem(-1, n),
        TensorAttr::Absent => a.offsets.iter().map(|&o| o as i64).collect(),
    };
    ensure!(
        found.len() == rank,
        InvalidArgument,
        "operator {}: offsets must have one number per dimension of X ({rank}), got {:?}",
        cx.op().name,
        &found[..]
    );
    Ok(found)
}

fn infer_crop(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype, a) = (cx.dims(crop::X)?, cx.dtype(crop::X)?, cx.attrs::<CropAttrs>());
    let mut shape = match cx.has(crop::Y) {
        true => cx.dims(crop::Y)?,
        false => a.shape.iter().map(|&d| d as i64).collect(),
    };
    ensure!(
        shape.len() == x.len(),
        InvalidArgument,
        "operator {}: the shape to crop to must have the rank of X ({}), got {:?}",
        cx.op.name,
        x.len(),
        &shape[..]
    );
    if shape.first() == Some(&-1) {
        shape[0] = x[0];
    }
    cx.set(crop::OUT, &shape, dtype);
    Ok(())
}

/// The shape to crop to; a size of -1 extends to the end of the axis.
fn crop_shape(cx: &impl AttrInputs, a: &CropAttrs, x: &[i64], from: &[i64]) -> Result<Dims> {
    let op = cx.op().name;
    let attr: Dims = a.shape.iter().map(|&d| d as i64).collect();
    let (mut shape, tensors) = match tensor_attr(cx, SHAPE)? {
        TensorAttr::Known(v) => (v.into(), false),
        TensorAttr::Length(n) if attr.len() != n => (Dims::from_elem(-1, n), true),
        TensorAttr::Length(_) => (attr, true),
        TensorAttr::Absent => (attr, false),
    };
    ensure!(
        shape.len() == x.len(),
        InvalidArgument,
        "operator {op}: shape must have one number per dimension of X ({}), got {:?}",
        x.len(),
        &shape[..]
    );
    for (i, d) in shape.iter_mut().enumerate().filter(|(_, d)| **d <= 0) {
        ensure!(
            *d == -1 || tensors || *d == 0 && x[i] == 0,
            InvalidArgument,
            "operator {op}: the numbers of shape must be greater than 0, or -1 for all that is left, got {d}"
        );
        let known = !tensors && x[i] >= 0 && from[i] >= 0;
        *d = match *d {
            -1 if known => x[i] - from[i],
            0 if !tensors => 0,
            _ => -1,
        };
    }
    Ok(shape)
}

fn infer_crop_tensor(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype, a) = (cx.dims(crop_tensor::X)?, cx.dtype(crop_tensor::X)?, cx.attrs::<CropAttrs>());
    let from = offsets(cx, a, EACH_OFFSET, x.len())?;
    let shape = crop_shape(cx, a, &x, &from)?;
    cx.set(crop_tensor::OUT, &shape, dtype);
    Ok(())
}

/// The region of X at `from` of shape `dims`.
fn crop_region(cx: &KernelContext, x: &Tensor, from: &[i64], dims: &[i64]) -> Result<Tensor> {
    part(cx.op.name, x.dims(), from, dims)?.read(x, dims)
}

fn run_crop(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(crop::X)?, cx.attrs::<CropAttrs>());
    ensure!(
        !cx.has(crop::OFFSETS) || a.offsets.is_empty(),
        InvalidArgument,
        "operator crop: offsets must come as a tensor or as an attribute, not both"
    );
    let from = offsets(cx, a, OFFSETS, x.rank())?;
    let mut dims: Dims = match cx.opt(crop::Y) {
        Some(y) => Dims::from_slice(y.dims()),
        None => a.shape.iter().map(|&d| d as i64).collect(),
    };
    if dims.first() == Some(&-1) {
        dims[0] = x.dims()[0];
    }
    let out = crop_region(cx, x, &from, &dims)?;
    cx.set(crop::OUT, out);
    Ok(())
}

fn run_crop_tensor(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(crop_tensor::X)?, cx.attrs::<CropAttrs>());
    let from = offsets(cx, a, EACH_OFFSET, x.rank())?;
    let dims = crop_shape(cx, a, x.dims(), &from)?;
    let out = crop_region(cx, x, &from, &dims)?;
    cx.set(crop_tensor::OUT, out);
    Ok(())
}

/// Gradient of crop and crop_tensor, which have `Out@GRAD` and the output in the same slots.
fn run_crop_grad(cx: &mut KernelContext, sources: &[AttrSource]) -> Result<()> {
    let (op, d) = (cx.op.name, cx.input(crop_grad::DOUT)?);
    let from = offsets(cx, cx.attrs::<CropAttrs>(), sources, d.rank())?;
    frame(op, d, &from, 0.0, cx.out(crop_grad::DX)?)
}

pub static PAD: Op = Op {
    name: "pad",
    inputs: pad::INS,
    outputs: pad::OUTS,
    attrs: PadAttrs::FIELDS,
    dtypes: TYPES,
    infer: infer_pad,
    cpu: Kernel::Pure(|cx| {
        let (op, x, a) = (cx.op.name, cx.input(pad::X)?, cx.attrs::<PadAttrs>());
        let (before, _) = margins(op, a, x.rank())?;
        frame(op, x, &before, a.pad_value, cx.out(pad::OUT)?)
    }),
    grad: Grad::By(&PAD_GRAD),
    ..OP
};
pub static PAD_GRAD: Op = Op {
    name: "pad_grad",
    inputs: pad_grad::INS,
    outputs: pad_grad::OUTS,
    attrs: PadAttrs::FIELDS,
    dtypes: TYPES,
    infer: infer_pad_grad,
    cpu: Kernel::Pure(|cx| {
        let d = cx.input(pad_grad::DOUT)?;
        let (before, after) = margins(cx.op.name, cx.attrs(), d.rank())?;
        let dims: Dims = d.dims().iter().zip(before.iter().zip(&after)).map(|(&d, (b, e))| d - b - e).collect();
        let dx = crop_region(cx, d, &before, &dims)?;
        cx.set(pad_grad::DX, dx);
        Ok(())
    }),
    grad: Grad::Fn(pad_second),
    ..OP
};

pub static PAD_CONSTANT_LIKE: Op = Op {
    name: "pad_constant_like",
    inputs: pad_like::INS,
    outputs: pad_like::OUTS,
    attrs: PadLikeAttrs::FIELDS,
    infer: infer_pad_like,
    cpu: Kernel::Pure(|cx| {
        let (op, y, value) = (cx.op.name, cx.input(pad_like::Y)?, cx.attrs::<PadLikeAttrs>().pad_value);
        frame(op, y, &vec![0; y.rank()], value, cx.out(pad_like::OUT)?)
    }),
    grad: Grad::By(&PAD_CONSTANT_LIKE_GRAD),
    ..OP
};
pub static PAD_CONSTANT_LIKE_GRAD: Op = Op {
    name: "pad_constant_like_grad",
    inputs: pad_like_grad::INS,
    outputs: pad_like_grad::OUTS,
    attrs: PadLikeAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let (y, d) = (cx.input(pad_like_grad::Y)?, cx.input(pad_like_grad::DOUT)?);
        let dy = crop_region(cx, d, &vec![0; d.rank()], y.dims())?;
        cx.set(pad_like_grad::DY, dy);
        Ok(())
    }),
    ..OP
};

macro_rules! crops {
    ($($op:ident $name:literal $slots:ident $infer:ident $run:ident,
       $grad:ident $grad_name:literal $grad_slots:ident $sources:ident;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: $slots::INS, outputs: $slots::OUTS, attrs: CropAttrs::FIELDS, dtypes: TYPES,
            infer: $infer, cpu: Kernel::Pure($run), grad: Grad::By(&$grad), ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: $grad_slots::INS, outputs: $grad_slots::OUTS, attrs: CropAttrs::FIELDS,
            dtypes: TYPES, infer: grads_like_inputs, cpu: Kernel::Pure(|cx| run_crop_grad(cx, $sources)), ..OP
        };
    )*};
}
crops! {
    CROP "crop" crop infer_crop run_crop, CROP_GRAD "crop_grad" crop_grad GRAD_OFFSETS;
    CROP_TENSOR "crop_tensor" crop_tensor infer_crop_tensor run_crop_tensor,
    CROP_TENSOR_GRAD "crop_tensor_grad" crop_tensor_grad GRAD_EACH_OFFSET;
}

pub static TABLE: &[&Op] =
    &[&PAD, &PAD_GRAD, &PAD_CONSTANT_LIKE, &PAD_CONSTANT_LIKE_GRAD, &CROP, &CROP_GRAD, &CROP_TENSOR, &CROP_TENSOR_GRAD];
