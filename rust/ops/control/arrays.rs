//! LoDTensorArrays: write, read, length.

use oar_core::base::{DType, Result};
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::{slot, Dst, Grad, GradOp, Infer, Kernel, NoAttrs, Op, Run, Src, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure};
use std::sync::Arc;

/// An index beyond this is refused: it is a mistake, not an array.
const MOST: i64 = 1 << 24;

fn index(cx: &Run, slot: usize) -> Result<usize> {
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

fn infer_write(cx: &mut Infer) -> Result<()> {
    if cx.is_run() || !cx.has(0) {
        return Ok(());
    }
    let m = cx.meta(0, 0)?;
    cx.set_meta(0, 0, Meta { kind: VarKind::Array, ..m });
    Ok(())
}

fn write(cx: &mut Run) -> Result<()> {
    let i = index(cx, 1)?;
    let item = cx.opt(0).map(Tensor::share).transpose()?;
    let held = &mut cx.outs.slot_mut(0)[0].value;
    if held.is_none() {
        *held = Value::Array(Arc::default());
    }
    let Value::Array(array) = held else {
        bail!(InvalidArgument, "operator write_to_array: output 'Out' holds {}", held.what())
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
    inputs: &[slot("X"), slot("I")],
    outputs: &[slot("Out").keeps()],
    attrs: NoAttrs::FIELDS,
    infer: infer_write,
    cpu: Kernel::Pure(write),
    grad: Grad::Fn(|_| {
        Ok(vec![GradOp {
            op: &READ_FROM_ARRAY,
            attrs: (NoAttrs::FIELDS.shared)().clone(),
            ins: vec![vec![Src::GradOut(0, None)], vec![Src::In(1, None)], vec![Src::In(0, None)]],
            outs: vec![vec![Dst(0, None)]],
        }])
    }),
    ..OP
};

fn infer_read(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    let m = cx.meta(0, 0)?;
    cx.set_meta(0, 0, Meta { kind: VarKind::Dense, ..m });
    Ok(())
}

fn read(cx: &mut Run) -> Result<()> {
    let i = index(cx, 1)?;
    let item = match cx.ins.slot(0).first() {
        Some(Value::Array(a)) => a.get(i).cloned().unwrap_or_default(),
        Some(Value::None) | None => Value::None,
        Some(other) => bail!(InvalidArgument, "operator read_from_array: input 'X' holds {}", other.what()),
    };
    match (item, cx.opt(2)) {
        (Value::None, Some(like)) => {
            let zero = Tensor::zeros(like.dtype(), like.dims())?.with_lod(like.lod.clone());
            cx.set(0, zero);
        }
        (Value::None, None) => {
            let n = match cx.ins.slot(0).first() {
                Some(Value::Array(a)) => a.len(),
                _ => 0,
            };
            bail!(OutOfRange, "operator read_from_array: nothing was written at index {i} of an array of {n} tensors")
        }
        (item, _) => cx.set(0, item),
    }
    Ok(())
}

pub static READ_FROM_ARRAY: Op = Op {
    name: "read_from_array",
    inputs: &[slot("X"), slot("I"), slot("X_W").opt().meta_only()],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: infer_read,
    cpu: Kernel::Pure(read),
    grad: Grad::Fn(|_| {
        Ok(vec![GradOp {
            op: &WRITE_TO_ARRAY,
            attrs: (NoAttrs::FIELDS.shared)().clone(),
            ins: vec![vec![Src::GradOut(0, None)], vec![Src::In(1, None)]],
            outs: vec![vec![Dst(0, None)]],
        }])
    }),
    ..OP
};

pub static LOD_ARRAY_LENGTH: Op = Op {
    name: "lod_array_length",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        cx.set(0, &[1], DType::I64);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let n = match cx.ins.slot(0).first() {
            Some(Value::Array(a)) => a.len(),
            Some(Value::None) | None => 0,
            Some(other) => bail!(InvalidArgument, "operator lod_array_length: input 'X' holds {}", other.what()),
        };
        cx.out_data::<i64>(0)?[0] = n as i64;
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&WRITE_TO_ARRAY, &READ_FROM_ARRAY, &LOD_ARRAY_LENGTH];
