//! reshape, squeeze, unsqueeze, flatten: the same elements in another shape. All share the input's bytes.

use oar_core::attrs;
use oar_core::base::shape::{axis, numel};
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::shape_of_first;
use oar_core::op::{Attrs, Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure, err, slots};
use oar_ops_common::elements::reshaped;
use oar_ops_common::tensor_attr::{tensor_attr, AttrSource, TensorAttr};

attrs! {
    pub struct ReshapeAttrs { shape: Vec<i32> = vec![] }
    pub struct Reshape2Attrs {
        shape: Vec<i32> = vec![], use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(),
    }
    pub struct AxesAttrs { axes: Vec<i32> = vec![] }
    pub struct FlattenRangeAttrs { start_axis: i32 = 1, stop_axis: i32 = 1 }
    pub struct FlattenAttrs { axis: i32 = 1 }
}

/// A shape function: `x` may have unknown sizes (-1) while a Program is built.
type Rule = fn(&str, &[i64], &Wanted) -> Result<Dims>;

/// Attributes of the call and the tensor attribute, if given.
struct Wanted<'a> {
    attrs: &'a dyn std::any::Any,
    /// Values of the tensor attribute.
    given: Option<Vec<i64>>,
}

impl Wanted<'_> {
    fn attrs<A: 'static>(&self) -> &A {
        self.attrs.downcast_ref().expect("attributes of another operator")
    }
}

/// reshape: 0 copies the size of x at that axis, one -1 is inferred.
fn reshape_rule(op: &str, x: &[i64], w: &Wanted) -> Result<Dims> {
    let attr = match w.attrs.downcast_ref::<Reshape2Attrs>() {
        Some(a) => &a.shape,
        None => &w.attrs::<ReshapeAttrs>().shape,
    };
    let mut out: Dims = match &w.given {
        Some(given) => Dims::from_slice(given),
        None => attr.iter().map(|&d| d as i64).collect(),
    };
    ensure!(!out.is_empty(), InvalidArgument, "operator {op}: attribute 'shape' must not be empty");
    let wanted = oar_core::base::shape::copied(&out);
    let mut unknown = None;
    for (i, d) in out.iter_mut().enumerate() {
        match *d {
            -1 => {
                ensure!(
                    unknown.is_none(),
                    InvalidArgument,
                    "operator {op}: only one size of 'shape' can be -1, got {wanted:?}"
                );
                unknown = Some(i);
            }
            0 => {
                ensure!(
                    i < x.len(),
                    InvalidArgument,
                    "operator {op}: 0 at place {i} of 'shape' {wanted:?} copies a size that X, of shape {x:?}, has not"
                );
                *d = x[i];
            }
            1.. => {}
            _ => bail!(InvalidArgument, "operator {op}: sizes of 'shape' must not be less than -1, got {wanted:?}"),
        }
    }
    if x.iter().any(|&d| d < 0) {
        return Ok(out); // sizes are unknown while a Program is built: nothing to check
    }
    let size = numel(x) as i128;
    let known: i128 =
        out.iter().enumerate().filter(|(i, _)| Some(*i) != unknown).fold(1, |n, (_, &d)| n.saturating_mul(d as i128));
    match unknown {
        Some(i) if known > 0 && size % known == 0 => out[i] = (size / known) as i64,
        Some(i) if known == 0 && size == 0 => out[i] = 0,
        None if known == size => {}
        _ => bail!(
            InvalidArgument,
            "operator {op}: a tensor of shape {x:?} with {size} elements cannot be reshaped to {wanted:?}"
        ),
    }
    Ok(out)
}

/// squeeze: drops the sizes of 1 at the axes, or all of them.
fn squeeze_rule(op: &str, x: &[i64], w: &Wanted) -> Result<Dims> {
    let axes = &w.attrs::<AxesAttrs>().axes;
    let mut drop: smallvec::SmallVec<[bool; 8]> = x.iter().map(|&d| axes.is_empty() && d == 1).collect();
    for &a in axes {
        let a = axis(op, a as i64, x.len())?;
        drop[a] = x[a] == 1 || x[a] == -1;
    }
    Ok(x.iter().zip(&drop).filter(|(_, &drop)| !drop).map(|(&d, _)| d).collect())
}

/// unsqueeze: inserts a size of 1 at each axis, in order.
fn unsqueeze_rule(op: &str, x: &[i64], w: &Wanted) -> Result<Dims> {
    let attr = &w.attrs::<AxesAttrs>().axes;
    let axes: Dims = match &w.given {
        Some(given) if attr.is_empty() => Dims::from_slice(given),
        _ => attr.iter().map(|&a| a as i64).collect(),
    };
    ensure!(
        x.len() + axes.len() <= 6,
        InvalidArgument,
        "operator {op}: the output must not have more than 6 dimensions, X has shape {x:?} and axes are {axes:?}"
    );
    let mut out = Dims::from_slice(x);
    for &a in &axes {
        let rank = out.len() as i64;
        let at = if a < 0 { a + rank + 1 } else { a };
        ensure!(
            (0..=rank).contains(&at),
            InvalidArgument,
            "operator {op}: axis must be in [{}, {rank}], got {a}",
            -rank - 1
        );
        out.insert(at as usize, 1);
    }
    Ok(out)
}

/// Size of a run of dimensions, -1 if one of them is unknown.
fn product(dims: &[i64]) -> i64 {
    if dims.iter().any(|&d| d < 0) {
        return -1;
    }
    dims.iter().product()
}

/// flatten_contiguous_range: merges `start_axis..=stop_axis` into one dimension.
fn flatten_range_rule(op: &str, x: &[i64], w: &Wanted) -> Result<Dims> {
    let a = w.attrs::<FlattenRangeAttrs>();
    let (from, to) = (axis(op, a.start_axis as i64, x.len())?, axis(op, a.stop_axis as i64, x.len())?);
    ensure!(
        from <= to,
        InvalidArgument,
        "operator {op}: stop_axis must not be less than start_axis, got {} and {}",
        a.stop_axis,
        a.start_axis
    );
    let mut out = Dims::from_slice(&x[..from]);
    out.push(product(&x[from..=to]));
    out.extend_from_slice(&x[to + 1..]);
    Ok(out)
}

/// flatten: a matrix of the dimensions before `axis` and those from it on.
fn flatten_rule(op: &str, x: &[i64], w: &Wanted) -> Result<Dims> {
    let at = w.attrs::<FlattenAttrs>().axis;
    ensure!(
        0 <= at && at as usize <= x.len(),
        InvalidArgument,
        "operator {op}: axis must be in [0, {}], got {at}",
        x.len()
    );
    let (rows, cols) = x.split_at(at as usize);
    Ok(Dims::from_slice(&[product(rows), product(cols)]))
}

// One shape rule and one kernel for all.

/// Sources of the shape as a tensor attribute; the list takes precedence.
fn sources(op: &Op) -> &'static [AttrSource] {
    if op.inputs.len() == by_shape::INS.len() {
        &[AttrSource::List(by_shape::SHAPE_LIST), AttrSource::One(by_shape::SHAPE)]
    } else {
        &[]
    }
}

fn infer(cx: &mut ShapeContext, rule: Rule) -> Result<()> {
    let (x, dtype) = (cx.dims(by_shape::X)?, cx.dtype(by_shape::X)?);
    let (attrs, name) = (cx.attrs.as_any(), cx.op.name);
    let given = tensor_attr(cx, sources(cx.op))?;
    let out = match given {
        TensorAttr::Absent => rule(name, &x, &Wanted { attrs, given: None })?,
        TensorAttr::Known(v) => rule(name, &x, &Wanted { attrs, given: Some(v) })?,
        TensorAttr::Length(n) => unknown_shape(cx, &x, n)?,
    };
    cx.set(by_shape::OUT, &out, dtype);
    if x.first() == out.first() {
        cx.share_lod(by_shape::OUT, by_shape::X);
    }
    cx.set(by_shape::XSHAPE, &shape_of_first(&x), dtype);
    cx.share_lod(by_shape::XSHAPE, by_shape::X);
    Ok(())
}

/// The output shape while values are unknown: its rank, and the sizes in the attribute.
fn unknown_shape(cx: &ShapeContext, x: &[i64], n: usize) -> Result<Dims> {
    if let Some(a) = cx.attrs.as_any().downcast_ref::<AxesAttrs>() {
        let n = if a.axes.is_empty() { n } else { a.axes.len() };
        return Ok(Dims::from_elem(-1, x.len() + n));
    }
    let shape = match cx.attrs.as_any().downcast_ref::<Reshape2Attrs>() {
        Some(a) => &a.shape,
        None => &cx.attrs::<ReshapeAttrs>().shape,
    };
    if shape.is_empty() {
        return Ok(Dims::from_elem(-1, n));
    }
    Ok(shape.iter().enumerate().map(|(i, &d)| if d == 0 { x.get(i).map_or(-1, |&d| d) } else { d as i64 }).collect())
}

/// The reshaped tensor; keeps the LoD if the first size is unchanged.
fn shaped(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut out = reshaped(x, dims)?;
    if x.lod.is_some() && x.dims().first() == dims.first() {
        out.lod = x.lod.clone();
    }
    Ok(out)
}

/// Eager fast path without tensor attributes.
fn fast_path(name: &str, attrs: &Attrs, ins: &[&Tensor], rule: Rule) -> Option<Tensor> {
    let &[x] = ins else { return None };
    let dims = rule(name, x.dims(), &Wanted { attrs: attrs.as_any(), given: None }).ok()?;
    shaped(x, &dims).ok()
}

fn run(cx: &mut KernelContext, rule: Rule) -> Result<()> {
    let x = cx.input(by_shape::X)?;
    let given = tensor_attr(cx, sources(cx.op))?.values();
    let dims = rule(cx.op.name, x.dims(), &Wanted { attrs: cx.attrs.as_any(), given })?;
    cx.set(by_shape::OUT, shaped(x, &dims)?);
    Ok(())
}

/// `X@GRAD` has the shape of X, which XShape holds after a leading 0.
fn grad_dims(op: &Op, dims: &[i64]) -> Result<Dims> {
    if op.inputs[0].name != "XShape" {
        return Ok(Dims::from_slice(dims));
    }
    match dims {
        [_, x @ ..] => Ok(Dims::from_slice(x)),
        [] => Err(err!(InvalidArgument, "operator {}: XShape must have a first dimension", op.name)),
    }
}

fn dout_slot(op: &Op) -> InSlot {
    if op.inputs.len() == reshape_grad::INS.len() {
        reshape_grad::DOUT
    } else {
        of_xshape::DOUT
    }
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let dims = grad_dims(cx.op, &cx.dims(of_xshape::XSHAPE)?)?;
    let dtype = cx.dtype(dout_slot(cx.op))?;
    cx.set(of_xshape::DX, &dims, dtype);
    cx.share_lod(of_xshape::DX, of_xshape::XSHAPE);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, dout) = (cx.input(of_xshape::XSHAPE)?, cx.input(dout_slot(cx.op))?);
    let dims = grad_dims(cx.op, x.dims())?;
    let dx = reshaped(dout, &dims)?.with_lod(x.lod.clone());
    cx.set(of_xshape::DX, dx);
    Ok(())
}

slots! {
    mod of_x { X "X" => OUT "Out".kernel_allocated() }
    mod of_x_keeping { X "X" => OUT "Out".kernel_allocated(), XSHAPE "XShape".shape_of_first() }
    mod by_shape {
        X "X", SHAPE "Shape".dispensable(), SHAPE_LIST "ShapeTensor".duplicable().dispensable()
        => OUT "Out".kernel_allocated(), XSHAPE "XShape".shape_of_first()
    }
    mod by_axes { X "X", AXES "AxesTensor".dispensable(), AXES_LIST "AxesTensorList".duplicable().dispensable() => OUT "Out".kernel_allocated() }
    // Operators with XShape read only the shape of X; the 1.x ones read X itself.
    mod of_xshape { XSHAPE "XShape", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
    mod of_x_shape { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
    /// Paddle's default gradient maker passes all slots.
    mod reshape_grad {
        X "X".meta_only(), SHAPE "Shape".dispensable().meta_only(), SHAPE_LIST "ShapeTensor".duplicable().dispensable().meta_only(),
        OUT "Out".dispensable().meta_only(), DOUT "Out@GRAD"
        => DX "X@GRAD".kernel_allocated(), DSHAPE "Shape@GRAD".dispensable(), DSHAPE_LIST "ShapeTensor@GRAD".duplicable().dispensable()
    }
    mod reshape2_grad_grad { DOUT "DOut".meta_only(), DDX "DDX" => DDOUT "DDOut".kernel_allocated() }
}

/// The second gradient of a linear operator is the operator itself.
const AGAIN: &[(&str, &str)] = &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")];

// One row per operator: static and gradient, names, slots, attributes, shape function, whether a view, second gradient,
// the layer if its name is another.
macro_rules! shared_bytes {
    ($($op:ident $grad:ident $name:literal $grad_name:literal $inputs:ident, $outputs:ident, $grad_in:ident, $attrs:ident
        $rule:ident $views:literal $second:expr $(, layer $layer:literal)?;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: $inputs::INS, outputs: $outputs::OUTS, attrs: $attrs::FIELDS, infer: |cx| infer(cx, $rule),
            cpu: Kernel::Pure(|cx| run(cx, $rule)), grad: Grad::By(&$grad),
            fast_path: Some(|attrs, ins| fast_path($name, attrs, ins, $rule)), views: $views, $(layer: $layer,)? ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name, inputs: $grad_in::INS, outputs: $grad_in::OUTS, attrs: $attrs::FIELDS, infer: infer_grad,
            cpu: Kernel::Pure(run_grad), grad: $second, ..OP
        };
    )*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad,)* &RESHAPE2_GRAD_GRAD, &RESHAPE_GRAD, &RESHAPE];
    };
}

shared_bytes! {
    RESHAPE2 RESHAPE2_GRAD "reshape2" "reshape2_grad" by_shape, by_shape, of_xshape, Reshape2Attrs reshape_rule true
        Grad::Map(&RESHAPE2_GRAD_GRAD,
            &[("DOut", "Out@GRAD"), ("DDX", "X@GRAD@GRAD"), ("DDOut", "Out@GRAD@GRAD")]);
    SQUEEZE2 SQUEEZE2_GRAD "squeeze2" "squeeze2_grad" of_x, of_x_keeping, of_xshape, AxesAttrs squeeze_rule
        true Grad::Map(&SQUEEZE2, AGAIN), layer "squeeze";
    UNSQUEEZE2 UNSQUEEZE2_GRAD "unsqueeze2" "unsqueeze2_grad" by_axes, by_shape, of_xshape, AxesAttrs unsqueeze_rule
        true Grad::Map(&UNSQUEEZE2, AGAIN);
    FLATTEN2 FLATTEN2_GRAD "flatten2" "flatten2_grad" of_x, of_x_keeping, of_xshape, FlattenAttrs flatten_rule
        false Grad::None, layer "flatten";
    FLATTEN_RANGE FLATTEN_RANGE_GRAD "flatten_contiguous_range" "flatten_contiguous_range_grad" of_x,
        of_x_keeping, of_xshape, FlattenRangeAttrs flatten_range_rule true Grad::None;
    SQUEEZE SQUEEZE_GRAD "squeeze" "squeeze_grad" of_x, of_x, of_x_shape, AxesAttrs squeeze_rule
        false Grad::Map(&SQUEEZE, AGAIN);
    UNSQUEEZE UNSQUEEZE_GRAD "unsqueeze" "unsqueeze_grad" by_axes, by_axes, of_x_shape, AxesAttrs unsqueeze_rule
        false Grad::Map(&UNSQUEEZE, AGAIN);
    FLATTEN FLATTEN_GRAD "flatten" "flatten_grad" of_x, of_x, of_x_shape, FlattenAttrs flatten_rule
        false Grad::None;
}

pub static RESHAPE: Op = Op {
    name: "reshape",
    inputs: by_shape::INS,
    outputs: of_x::OUTS,
    attrs: ReshapeAttrs::FIELDS,
    infer: |cx| infer(cx, reshape_rule),
    cpu: Kernel::Pure(|cx| run(cx, reshape_rule)),
    grad: Grad::By(&RESHAPE_GRAD),
    ..OP
};
pub static RESHAPE_GRAD: Op = Op {
    name: "reshape_grad",
    inputs: reshape_grad::INS,
    outputs: reshape_grad::OUTS,
    attrs: ReshapeAttrs::FIELDS,
    infer: infer_grad,
    cpu: Kernel::Pure(run_grad),
    ..OP
};
pub static RESHAPE2_GRAD_GRAD: Op = Op {
    name: "reshape2_grad_grad",
    inputs: reshape2_grad_grad::INS,
    outputs: reshape2_grad_grad::OUTS,
    attrs: Reshape2Attrs::FIELDS,
    infer: |cx| cx.like(reshape2_grad_grad::DDOUT, reshape2_grad_grad::DOUT),
    cpu: Kernel::Pure(|cx| {
        let (dout, ddx) = (cx.input(reshape2_grad_grad::DOUT)?, cx.input(reshape2_grad_grad::DDX)?);
        let ddout = reshaped(ddx, dout.dims())?;
        cx.set(reshape2_grad_grad::DDOUT, ddout);
        Ok(())
    }),
    ..OP
};
