//! Attributes that may come as tensors, and numbers that always do.

use crate::base::shape::numel;
use crate::base::{DType, Dims, Result};
use crate::op::{Infer, Op, Run};
use crate::tensor::{Tensor, Value};
use crate::{bail, dispatch, ensure, err};
use half::{bf16, f16};

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

fn list_of(values: &[Value]) -> Option<Vec<&Tensor>> {
    let list: Vec<&Tensor> = values.iter().filter_map(Value::as_dense).collect();
    (!list.is_empty()).then_some(list)
}

/// An attribute that may come as a tensor (slot `one`) or as a list of tensors (slot `list`); None if it does not.
pub fn given(cx: &Run, one: usize, list: usize) -> Result<Option<Vec<i64>>> {
    if let Some(t) = cx.opt(one) {
        return ints(cx.op.name, t).map(Some);
    }
    list_of(cx.ins.slot(list)).map(|l| int_list(cx.op.name, &l)).transpose()
}

/// A shape from the slots ShapeTensor and ShapeTensorList, or from the attribute.
pub fn shape(cx: &Run, one: usize, list: usize, attr: &[i64]) -> Result<Dims> {
    Ok(match given(cx, one, list)? {
        Some(dims) => Dims::from_vec(dims),
        None => Dims::from_slice(attr),
    })
}

/// The shape rule of operators whose shape may come as tensors: while a Program is built, unknown sizes for those.
/// In a run the kernel makes the output.
pub fn infer_shape(cx: &mut Infer, one: usize, list: usize, attr: &[i64], dtype: i32) -> Result<()> {
    let dtype = data_type(cx.op.name, dtype)?;
    if cx.is_run() {
        return Ok(());
    }
    let dims = if attr.is_empty() && cx.has(one) {
        let n = numel(&cx.dims(one)?).min(64);
        Dims::from_elem(-1, n)
    } else if attr.is_empty() && cx.has(list) {
        Dims::from_elem(-1, cx.count(list))
    } else {
        Dims::from_slice(attr)
    };
    cx.set(0, &dims, dtype);
    Ok(())
}

/// The data type that a `dtype` attribute names.
pub fn data_type(op: &str, n: i32) -> Result<DType> {
    DType::from_proto(n).ok_or_else(|| err!(InvalidArgument, "operator {op}: dtype {n} is no data type of tensors"))
}

/// An axis attribute that may come as a tensor of one integer.
pub fn axis_given(cx: &Run, slot: usize, attr: i64) -> Result<i64> {
    match cx.opt(slot) {
        None => Ok(attr),
        Some(t) => match ints(cx.op.name, t)?[..] {
            [axis] => Ok(axis),
            _ => bail!(InvalidArgument, "operator {}: the axis must be one integer, got {t:?}", cx.op.name),
        },
    }
}

/// The only element of an input, such as a learning rate.
pub fn scalar(cx: &Run, slot: usize) -> Result<f64> {
    scalar_of(cx.op, slot, cx.input(slot)?)
}

/// As [`scalar`], of a tensor that is at hand.
pub fn scalar_of(op: &'static Op, slot: usize, t: &Tensor) -> Result<f64> {
    let name = op.inputs[slot].name;
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
