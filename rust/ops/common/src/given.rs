//! Attributes that may come as tensors, and numbers that always do.

use half::{bf16, f16};
use oar_core::base::shape::numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{InSlot, KernelContext, Op, ShapeContext};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, ensure, err};

/// The integers of an int32 or int64 tensor that stands for an attribute.
pub fn ints(op: &str, t: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        matches!(t.dtype(), DType::I32 | DType::I64),
        InvalidArgument,
        "operator {op}: a tensor that stands for an attribute must be int32 or int64, got {}",
        t.dtype()
    );
    t.to_i64s()
}

/// The integers of a list of one-element tensors.
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

/// How an attribute may come instead: as one tensor of integers, or as a list of tensors of one integer each.
#[derive(Clone, Copy)]
pub enum Way {
    One(InSlot),
    List(InSlot),
}

/// What came.
pub enum Given {
    /// Nothing: the attribute counts.
    No,
    Values(Vec<i64>),
    /// So many integers, which there are only in a run.
    Count(usize),
}

impl Given {
    /// The values; none while a Program is built.
    pub fn values(self) -> Option<Vec<i64>> {
        match self {
            Given::Values(v) => Some(v),
            _ => None,
        }
    }
}

/// What a shape rule and a kernel both know of their inputs.
pub trait Inputs {
    fn op(&self) -> &'static Op;
    /// Number of variables in a slot that is given, else 0.
    fn count(&self, slot: InSlot) -> usize;
    /// Number of elements of the first one, where it is known.
    fn elements(&self, slot: InSlot) -> Result<usize>;
    /// The tensors of a slot, in a run.
    fn tensors(&self, slot: InSlot) -> Option<Vec<&Tensor>>;
}

impl Inputs for KernelContext<'_> {
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

impl Inputs for ShapeContext<'_> {
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

/// An attribute that may come as tensors, in the first of these ways in which it was given. No shape has more than 64
/// dimensions, so a list whose length is not known yet does not count as a longer one.
pub fn given(cx: &impl Inputs, ways: &[Way]) -> Result<Given> {
    let op = cx.op().name;
    for &way in ways {
        let (Way::One(slot) | Way::List(slot)) = way;
        let n = cx.count(slot);
        if n == 0 {
            continue;
        }
        return Ok(match (way, cx.tensors(slot)) {
            (Way::One(_), Some(t)) if !t.is_empty() => Given::Values(ints(op, t[0])?),
            (Way::List(_), Some(list)) => Given::Values(int_list(op, &list)?),
            (Way::One(slot), _) => Given::Count(cx.elements(slot)?.min(64)),
            (Way::List(_), None) => Given::Count(n),
        });
    }
    Ok(Given::No)
}

/// A shape that may come as tensors: unknown sizes (-1) for those as long as there are no values.
pub fn shape(cx: &impl Inputs, ways: &[Way], attr: &[i64]) -> Result<Dims> {
    Ok(match given(cx, ways)? {
        Given::Values(dims) => Dims::from_vec(dims),
        Given::Count(n) if attr.is_empty() => Dims::from_elem(-1, n),
        _ => Dims::from_slice(attr),
    })
}

/// The data type that a `dtype` attribute names.
pub fn data_type(op: &str, n: i32) -> Result<DType> {
    DType::from_proto(n).ok_or_else(|| err!(InvalidArgument, "operator {op}: dtype {n} is no data type of tensors"))
}

/// An attribute that may come as a tensor of one integer; `None` if it does, and there are no values yet.
pub fn int_given(cx: &impl Inputs, slot: InSlot, attr: i64) -> Result<Option<i64>> {
    match given(cx, &[Way::One(slot)])? {
        Given::No => Ok(Some(attr)),
        Given::Count(_) => Ok(None),
        Given::Values(v) => match v[..] {
            [value] => Ok(Some(value)),
            _ => {
                let (op, name) = (cx.op().name, cx.op().inputs[slot.0].name);
                bail!(InvalidArgument, "operator {op}: input '{name}' must hold one integer, got {} of them", v.len())
            }
        },
    }
}

/// The same for a kernel, which has all values.
pub fn int_of(cx: &KernelContext, slot: InSlot, attr: i64) -> Result<i64> {
    Ok(int_given(cx, slot, attr)?.unwrap_or(attr))
}

/// The only element of an input, such as a learning rate.
pub fn scalar(cx: &KernelContext, slot: InSlot) -> Result<f64> {
    scalar_of(cx.op, slot, cx.input(slot)?)
}

/// As [`scalar`], of a tensor that is at hand.
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
