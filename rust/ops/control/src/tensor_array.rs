//! write_to_array, read_from_array, lod_array_length: tensor arrays.

use oar_core::base::{DType, Result};
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::{Dst, Grad, GradOp, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, Src, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, slots};
use std::sync::Arc;

slots! {
    /// With ARRAY the output is a copy of that array in which the element is replaced.
    mod write_to_array { X "X", I "I", ARRAY "Array".dispensable().extra() => OUT "Out".in_place().kernel_allocated() }
    /// X_W is the written tensor: if the array lacks it, its gradient is zeros of that shape.
    mod read_from_array { X "X", I "I", X_W "X_W".dispensable().meta_only() => OUT "Out".kernel_allocated() }
    mod lod_array_length { X "X" => OUT "Out" }
}

/// Larger indices are rejected.
const MOST: i64 = 1 << 24;

fn index(cx: &KernelContext, slot: InSlot) -> Result<usize> {
    let t = cx.input(slot)?;
    ensure!(
        t.numel() == 1 && matches!(t.dtype(), DType::I64 | DType::I32),
        InvalidArgument,
        "operator {}: input 'I' must be one int64, got {} of shape {:?}",
        cx.op.name,
        t.dtype(),
        t.dims()
    );
    let i = t.to_i64s()?[0];
    ensure!(i >= 0, OutOfRange, "operator {}: the index must not be negative, got {i}", cx.op.name);
    ensure!(i < MOST, ResourceExhausted, "operator {}: index {i} is larger than an array can be", cx.op.name);
    Ok(i as usize)
}

fn infer_write(cx: &mut ShapeContext) -> Result<()> {
    // The meta of an array is that of its tensors.
    let item = cx.meta(write_to_array::X, 0).unwrap_or_default();
    cx.set_meta(write_to_array::OUT, 0, Meta { kind: VarKind::Array, ..item });
    Ok(())
}

fn write(cx: &mut KernelContext) -> Result<()> {
    let i = index(cx, write_to_array::I)?;
    let item = cx.opt(write_to_array::X).map(Tensor::share).transpose()?;
    let copied = cx.values(write_to_array::ARRAY).first().map(Value::share).transpose()?;
    let value = &mut cx.outs.slot_mut(write_to_array::OUT.0)[0].value;
    if let Some(array) = copied {
        *value = array;
    }
    if value.is_none() {
        *value = Value::Array(Arc::default());
    }
    let Value::Array(array) = value else {
        bail!(InvalidArgument, "operator write_to_array: output 'Out' holds {}", value.what())
    };
    let items = Arc::make_mut(array);
    if items.len() <= i {
        items.resize(i + 1, Value::None);
    }
    if let Some(item) = item {
        items[i] = Value::Dense(item);
    }
    Ok(())
}

pub static WRITE_TO_ARRAY: Op = Op {
    name: "write_to_array",
    inputs: write_to_array::INS,
    outputs: write_to_array::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_write,
    cpu: Kernel::Pure(write),
    grad: Grad::Fn(|_| {
        Ok(vec![GradOp {
            op: &READ_FROM_ARRAY,
            attrs: (NoAttrs::FIELDS.shared)().clone(),
            ins: vec![
                vec![Src::GradOut(write_to_array::OUT.0, None)],
                vec![Src::In(write_to_array::I.0, None)],
                vec![Src::In(write_to_array::X.0, None)],
            ],
            outs: vec![vec![Dst(write_to_array::X.0, None)]],
        }])
    }),
    ..OP
};

/// The meta of the tensor at the index, else of the array's tensors; `None` without either.
fn item_meta(cx: &ShapeContext) -> Option<Meta> {
    let written = cx.meta(read_from_array::X_W, 0).ok();
    let Some(items) = cx.items(read_from_array::X) else {
        let array = cx.meta(read_from_array::X, 0).ok().or(written)?;
        return Some(Meta { kind: VarKind::Dense, ..array });
    };
    let i = cx.tensor(read_from_array::I).filter(|i| i.numel() == 1)?.to_i64s().ok()?[0];
    items.get(usize::try_from(i).ok()?).and_then(Meta::from_value).or(written)
}

fn infer_read(cx: &mut ShapeContext) -> Result<()> {
    if let Some(m) = item_meta(cx) {
        cx.set_meta(read_from_array::OUT, 0, m);
    }
    Ok(())
}

fn read(cx: &mut KernelContext) -> Result<()> {
    let i = index(cx, read_from_array::I)?;
    let item = match cx.values(read_from_array::X).first() {
        Some(Value::Array(a)) => a.get(i).cloned().unwrap_or_default(),
        Some(Value::None) | None => Value::None,
        Some(other) => bail!(InvalidArgument, "operator read_from_array: input 'X' holds {}", other.what()),
    };
    match (item, cx.opt(read_from_array::X_W)) {
        (Value::None, Some(like)) => {
            let zero = Tensor::zeros(like.dtype(), like.dims())?.with_lod(like.lod.clone());
            cx.set(read_from_array::OUT, zero);
        }
        (Value::None, None) => {
            let n = match cx.values(read_from_array::X).first() {
                Some(Value::Array(a)) => a.len(),
                _ => 0,
            };
            bail!(OutOfRange, "operator read_from_array: nothing was written at index {i} of an array of {n} tensors")
        }
        (item, _) => cx.set(read_from_array::OUT, item),
    }
    Ok(())
}

pub static READ_FROM_ARRAY: Op = Op {
    name: "read_from_array",
    inputs: read_from_array::INS,
    outputs: read_from_array::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_read,
    cpu: Kernel::Pure(read),
    grad: Grad::Fn(|_| {
        Ok(vec![GradOp {
            op: &WRITE_TO_ARRAY,
            attrs: (NoAttrs::FIELDS.shared)().clone(),
            ins: vec![vec![Src::GradOut(read_from_array::OUT.0, None)], vec![Src::In(read_from_array::I.0, None)]],
            outs: vec![vec![Dst(read_from_array::X.0, None)]],
        }])
    }),
    ..OP
};

pub static LOD_ARRAY_LENGTH: Op = Op {
    name: "lod_array_length",
    layer: "array_length",
    inputs: lod_array_length::INS,
    outputs: lod_array_length::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        cx.set(lod_array_length::OUT, &[1], DType::I64);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let n = match cx.values(lod_array_length::X).first() {
            Some(Value::Array(a)) => a.len(),
            Some(Value::None) | None => 0,
            Some(other) => bail!(InvalidArgument, "operator lod_array_length: input 'X' holds {}", other.what()),
        };
        cx.out_data::<i64>(lod_array_length::OUT)?[0] = n as i64;
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&WRITE_TO_ARRAY, &READ_FROM_ARRAY, &LOD_ARRAY_LENGTH];
