//! Attributes that an input may supply as a tensor ("tensor attributes"), and inputs that hold one number.

use half::{bf16, f16};
use oar_core::base::shape::numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{InSlot, KernelContext, Op, ShapeContext};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, ensure, err};

/// The elements of a tensor attribute, which must be int32 or int64.
pub fn ints(op: &str, t: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        matches!(t.dtype(), DType::I32 | DType::I64),
        InvalidArgument,
        "operator {op}: a tensor that stands for an attribute must be int32 or int64, got {}",
        t.dtype()
    );
    t.to_i64s()
}

/// The elements of a tensor attribute that is a list of one-element tensors.
pub fn int_list(op: &str, list: &[&Tensor]) -> Result<Vec<i64>> {
    list.iter()
        .map(|t| {
            ensure!(
                t.numel() == 1,
                InvalidArgument,
                "operator {op}: each tensor of a list that stands for an attribute must have the shape [1], got {:?}",
                t.dims()
            );
            Ok(ints(op, t)?[0])
        })
        .collect()
}

/// The input that may supply an attribute: one tensor of integers, or a list of tensors of one integer each.
#[derive(Clone, Copy)]
pub enum AttrSource {
    One(InSlot),
    List(InSlot),
}

/// A tensor attribute as a kernel or a shape rule sees it.
pub enum TensorAttr {
    /// No input supplies it: the plain attribute holds.
    Absent,
    Known(Vec<i64>),
    /// The number of values, while the values are unknown (a Program is being built).
    Length(usize),
}

impl TensorAttr {
    /// The values, where they are known.
    pub fn values(self) -> Option<Vec<i64>> {
        match self {
            TensorAttr::Known(v) => Some(v),
            _ => None,
        }
    }
}

/// The view of the inputs that a shape rule and a kernel share.
pub trait AttrInputs {
    fn op(&self) -> &'static Op;
    /// Number of variables in the slot; 0 for an absent one.
    fn count(&self, slot: InSlot) -> usize;
    /// Number of elements of the slot's first tensor.
    fn elements(&self, slot: InSlot) -> Result<usize>;
    /// The tensors of a slot; `None` while a Program is built.
    fn tensors(&self, slot: InSlot) -> Option<Vec<&Tensor>>;
}

impl AttrInputs for KernelContext<'_> {
    fn op(&self) -> &'static Op {
        self.op
    }
    fn count(&self, slot: InSlot) -> usize {
        self.values(slot).iter().filter(|v| !v.is_none()).count()
    }
    fn elements(&self, slot: InSlot) -> Result<usize> {
        Ok(self.input(slot)?.numel())
    }
    fn tensors(&self, slot: InSlot) -> Option<Vec<&Tensor>> {
        Some(self.values(slot).iter().filter_map(Value::as_dense).collect())
    }
}

impl AttrInputs for ShapeContext<'_> {
    fn op(&self) -> &'static Op {
        self.op
    }
    fn count(&self, slot: InSlot) -> usize {
        if self.has(slot) {
            ShapeContext::count(self, slot)
        } else {
            0
        }
    }
    fn elements(&self, slot: InSlot) -> Result<usize> {
        Ok(numel(&self.dims(slot)?))
    }
    fn tensors(&self, slot: InSlot) -> Option<Vec<&Tensor>> {
        ShapeContext::tensors(self, slot)
    }
}

/// Reads a tensor attribute from the first source that is present. Tensors have at most 64 dimensions, so an unknown
/// length is limited to 64.
pub fn tensor_attr(cx: &impl AttrInputs, sources: &[AttrSource]) -> Result<TensorAttr> {
    let op = cx.op().name;
    for &source in sources {
        let (AttrSource::One(slot) | AttrSource::List(slot)) = source;
        let n = cx.count(slot);
        if n == 0 {
            continue;
        }
        return Ok(match (source, cx.tensors(slot)) {
            (AttrSource::One(_), Some(t)) if !t.is_empty() => TensorAttr::Known(ints(op, t[0])?),
            (AttrSource::List(_), Some(list)) => TensorAttr::Known(int_list(op, &list)?),
            (AttrSource::One(slot), _) => TensorAttr::Length(cx.elements(slot)?.min(64)),
            (AttrSource::List(_), None) => TensorAttr::Length(n),
        });
    }
    Ok(TensorAttr::Absent)
}

/// A shape that is an attribute or a tensor attribute; sizes are -1 while their values are unknown.
pub fn shape(cx: &impl AttrInputs, sources: &[AttrSource], attr: &[i64]) -> Result<Dims> {
    Ok(match tensor_attr(cx, sources)? {
        TensorAttr::Known(dims) => Dims::from_vec(dims),
        TensorAttr::Length(n) if attr.is_empty() => Dims::from_elem(-1, n),
        _ => Dims::from_slice(attr),
    })
}

/// The data type that a `dtype` attribute names.
pub fn data_type(op: &str, n: i32) -> Result<DType> {
    DType::from_proto(n).ok_or_else(|| err!(InvalidArgument, "operator {op}: dtype {n} is not a data type of tensors"))
}

/// An attribute that may be a tensor of one integer; `None` while the tensor's value is unknown.
pub fn int_or_unknown(cx: &impl AttrInputs, slot: InSlot, attr: i64) -> Result<Option<i64>> {
    match tensor_attr(cx, &[AttrSource::One(slot)])? {
        TensorAttr::Absent => Ok(Some(attr)),
        TensorAttr::Length(_) => Ok(None),
        TensorAttr::Known(v) => match v[..] {
            [value] => Ok(Some(value)),
            _ => {
                let (op, name) = (cx.op().name, cx.op().inputs[slot.0].name);
                bail!(InvalidArgument, "operator {op}: input '{name}' must hold one integer, got {} of them", v.len())
            }
        },
    }
}

/// As [`int_or_unknown`], in a kernel, where all values are known.
pub fn int_attr(cx: &KernelContext, slot: InSlot, attr: i64) -> Result<i64> {
    Ok(int_or_unknown(cx, slot, attr)?.unwrap_or(attr))
}

/// The only element of an input, such as a learning rate.
pub fn scalar(cx: &KernelContext, slot: InSlot) -> Result<f64> {
    scalar_of(cx.op, slot, cx.input(slot)?)
}

/// The only element of `t`, a value of input `slot`.
pub fn scalar_of(op: &'static Op, slot: InSlot, t: &Tensor) -> Result<f64> {
    let name = op.inputs[slot.0].name;
    ensure!(
        t.numel() == 1,
        InvalidArgument,
        "operator {}: input '{name}' must have one element, got shape {:?}",
        op.name,
        t.dims()
    );
    #[allow(clippy::useless_conversion)] // one of the types is f64
    let value = dispatch!(t.dtype(), T in [f32, f64, f16, bf16], f64::from(t.data::<T>()[0]), other => {
        bail!(InvalidArgument, "operator {}: input '{name}' must be of a floating-point type, got {other}", op.name)
    });
    Ok(value)
}
