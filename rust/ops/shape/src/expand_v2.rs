//! expand_v2 and expand_as_v2: sizes of 1 are broadcast, new dimensions are added in front, -1 keeps a size.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{bail, ensure, slots};
use oar_ops_common::broadcast::reduce_to;
use oar_ops_common::elements::{share, strided, strides_of};
use oar_ops_common::tensor_attr::{tensor_attr, AttrSource, TensorAttr};

attrs! {
    pub struct ExpandV2Attrs { shape: Vec<i32> = vec![] }
    pub struct ExpandAsV2Attrs { target_shape: Vec<i32> = vec![] }
}

slots! {
    // An input that has the shape already shares its bytes.
    mod expand { X "X", SHAPE "Shape".dispensable(), SHAPE_LIST "expand_shapes_tensor".duplicable().dispensable() => OUT "Out".kernel_allocated() }
    mod expand_grad {
        X "X".meta_only(), DOUT "Out@GRAD", SHAPE_LIST "expand_shapes_tensor".duplicable().dispensable(), SHAPE "Shape".dispensable()
        => DX "X@GRAD".kernel_allocated()
    }
    mod expand_as { X "X" => OUT "Out".kernel_allocated() }
    mod expand_as_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

const SOURCES: [AttrSource; 2] = [AttrSource::One(expand::SHAPE), AttrSource::List(expand::SHAPE_LIST)];
const GRAD_SOURCES: [AttrSource; 2] = [AttrSource::One(expand_grad::SHAPE), AttrSource::List(expand_grad::SHAPE_LIST)];

fn expanded(op: &str, x: &[i64], shape: &[i64]) -> Result<Dims> {
    ensure!(
        x.len() <= shape.len() && !shape.is_empty(),
        InvalidArgument,
        "operator {op}: 'shape' must have {} sizes at least for X of shape {x:?}, got {shape:?}",
        x.len().max(1)
    );
    let new = shape.len() - x.len();
    let mut out = Dims::from_slice(shape);
    for (i, o) in out.iter_mut().enumerate() {
        let have = if i < new { 1 } else { x[i - new] };
        match *o {
            -1 if i >= new => *o = have,
            want if want > 0 && (have == 1 || have == want) => {}
            // The size is unknown while a Program is built.
            want if want > 0 && have < 0 => *o = -1,
            _ => bail!(InvalidArgument, "operator {op}: X of shape {x:?} cannot be expanded to {shape:?}"),
        }
    }
    Ok(out)
}

fn shape_attr(a: &ExpandV2Attrs) -> Dims {
    a.shape.iter().map(|&d| d as i64).collect()
}

fn infer_expand(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(expand::X)?, cx.dtype(expand::X)?);
    let attr = shape_attr(cx.attrs());
    let out = match tensor_attr(cx, &SOURCES)? {
        TensorAttr::Absent => expanded(cx.op.name, &x, &attr)?,
        TensorAttr::Known(shape) => expanded(cx.op.name, &x, &shape)?,
        // Sizes from tensors are -1 in the attribute, if it is set.
        TensorAttr::Length(n) if attr.is_empty() => Dims::from_elem(-1, n.max(x.len())),
        TensorAttr::Length(_) => attr,
    };
    cx.set(expand::OUT, &out, dtype);
    if out.first() == x.first() {
        cx.share_lod(expand::OUT, expand::X);
    }
    Ok(())
}

fn expand(cx: &mut KernelContext) -> Result<()> {
    let shape = tensor_attr(cx, &SOURCES)?.values().map_or_else(|| shape_attr(cx.attrs()), Dims::from_vec);
    expand_to(cx, &shape)
}

fn expand_to(cx: &mut KernelContext, shape: &[i64]) -> Result<()> {
    let x = cx.input(expand::X)?;
    let dims = expanded(cx.op.name, x.dims(), shape)?;
    let mut out = if dims[..] == *x.dims() {
        share(x)?
    } else {
        let own = strides_of(x.dims());
        let new = dims.len() - x.rank();
        let strides: Vec<isize> =
            (0..dims.len()).map(|i| if i < new || x.dims()[i - new] == 1 { 0 } else { own[i - new] }).collect();
        strided(x, &dims, &strides, 0)?
    };
    out.lod = x.lod.clone().filter(|_| x.dims().first() == dims.first());
    cx.set(expand::OUT, out);
    Ok(())
}

pub static EXPAND_V2: Op = Op {
    name: "expand_v2",
    inputs: expand::INS,
    outputs: expand::OUTS,
    attrs: ExpandV2Attrs::FIELDS,
    infer: infer_expand,
    cpu: Kernel::Pure(expand),
    grad: Grad::By(&EXPAND_V2_GRAD),
    ..OP
};
pub static EXPAND_V2_GRAD: Op = Op {
    name: "expand_v2_grad",
    inputs: expand_grad::INS,
    outputs: expand_grad::OUTS,
    attrs: ExpandV2Attrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let (x, d) = (cx.input(expand_grad::X)?, cx.input(expand_grad::DOUT)?);
        if let Some(shape) = tensor_attr(cx, &GRAD_SOURCES)?.values() {
            let dims = expanded(cx.op.name, x.dims(), &shape)?;
            ensure!(
                d.dims() == &dims[..],
                InvalidArgument,
                "operator expand_v2_grad: Out@GRAD must have the shape {dims:?}, got {:?}",
                d.dims()
            );
        }
        let dx = reduce_to(share(d)?, x.dims(), -1)?;
        cx.set(expand_grad::DX, dx.with_lod(x.lod.clone()));
        Ok(())
    }),
    grad: Grad::Map(&EXPAND_V2, &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")]),
    ..OP
};

// expand_as_v2: the shape is an attribute, another tensor's shape.

fn target(a: &ExpandAsV2Attrs) -> Dims {
    a.target_shape.iter().map(|&d| d as i64).collect()
}

pub static EXPAND_AS_V2: Op = Op {
    name: "expand_as_v2",
    inputs: expand_as::INS,
    outputs: expand_as::OUTS,
    attrs: ExpandAsV2Attrs::FIELDS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(expand_as::X)?, cx.dtype(expand_as::X)?);
        let out = expanded(cx.op.name, &x, &target(cx.attrs()))?;
        cx.set(expand_as::OUT, &out, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let shape = target(cx.attrs());
        expand_to(cx, &shape)
    }),
    grad: Grad::By(&EXPAND_AS_V2_GRAD),
    ..OP
};
pub static EXPAND_AS_V2_GRAD: Op = Op {
    name: "expand_as_v2_grad",
    inputs: expand_as_grad::INS,
    outputs: expand_as_grad::OUTS,
    attrs: ExpandAsV2Attrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::COMPLEX),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let (x, d) = (cx.input(expand_as_grad::X)?, cx.input(expand_as_grad::DOUT)?);
        let dims = expanded(cx.op.name, x.dims(), &target(cx.attrs()))?;
        oar_ops_common::axis::like(cx, d, &dims, x.dtype(), "Out@GRAD")?;
        let dx = reduce_to(share(d)?, x.dims(), -1)?;
        cx.set(expand_as_grad::DX, dx.with_lod(x.lod.clone()));
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&EXPAND_V2, &EXPAND_V2_GRAD, &EXPAND_AS_V2, &EXPAND_AS_V2_GRAD];
