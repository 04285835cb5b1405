//! tensor_array_to_tensor: the tensors of a LoDTensorArray concatenated along an axis or stacked along a new one.

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::ir::{Attr, AttrMap};
use oar_core::op::call::call_simple;
use oar_core::op::infer::{Meta, ShapeInputs, VarKind};
use oar_core::op::{table, Args, Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, slots};
use std::sync::Arc;

attrs! {
    pub struct ArrayToTensorAttrs { axis: i32 = 0, use_stack: bool = false }
}

slots! {
    mod joined { X "X" => OUT "Out".kernel_allocated(), OUT_INDEX "OutIndex".kernel_allocated() }
    mod joined_grad { X "X", DOUT "Out@GRAD" => DX "X@GRAD".kernel_allocated() }
}

/// The normalized axis; `rank` dimensions, one more with use_stack.
fn place(cx: &ShapeContext, rank: usize) -> Result<usize> {
    let a = cx.attrs::<ArrayToTensorAttrs>();
    oar_core::base::shape::axis(cx.op.name, a.axis as i64, rank + a.use_stack as usize)
}

/// concat or stack, and its attributes.
fn joining(a: &ArrayToTensorAttrs) -> Result<(&'static Op, AttrMap)> {
    let attrs = [("axis".into(), Attr::Int(a.axis))].into_iter().collect();
    Ok((table::need(if a.use_stack { "stack" } else { "concat" })?, attrs))
}

/// The meta of that operator's output for the array's tensors.
fn meta_of_joined(cx: &ShapeContext, items: &[Value]) -> Result<Meta> {
    ensure!(!items.is_empty(), InvalidArgument, "operator {}: the array is empty", cx.op.name);
    let (op, attrs) = joining(cx.attrs())?;
    let attrs = op.attrs.parse(op.name, &attrs)?;
    let (mut ins, mut outs) = (Args::new(), Args::new());
    ins.push_slot(items.iter().cloned());
    outs.push_one(Meta::default());
    (op.infer)(&mut ShapeContext {
        op,
        ins: ShapeInputs::Values(&ins),
        attrs: &attrs,
        outs: &mut outs,
        free_outs: false,
    })?;
    Ok(outs.flat.swap_remove(0))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    if let Some(items) = cx.items(joined::X) {
        let out = meta_of_joined(cx, items)?;
        cx.set_meta(joined::OUT, 0, out);
        cx.set(joined::OUT_INDEX, &[items.len() as i64], DType::I32);
        return Ok(());
    }
    let m = cx.meta(joined::X, 0)?;
    let dtype = m.dtype;
    if !m.dims.is_empty() {
        // While a Program is built the meta of an array is that of its tensors, their number is unknown.
        let (at, mut dims) = (place(cx, m.dims.len())?, m.dims);
        match cx.attrs::<ArrayToTensorAttrs>().use_stack {
            true => dims.insert(at, -1),
            false => dims[at] = -1,
        }
        cx.set(joined::OUT, &dims, dtype);
    }
    cx.set(joined::OUT_INDEX, &[-1], DType::I32);
    Ok(())
}

fn items<'a>(cx: &KernelContext<'a>) -> Result<&'a [Value]> {
    match cx.value(joined::X)? {
        Value::Array(items) if !items.is_empty() => Ok(items),
        Value::Array(_) => bail!(InvalidArgument, "operator {}: the array is empty", cx.op.name),
        other => bail!(InvalidArgument, "operator {}: X must be a LoDTensorArray, got {}", cx.op.name, other.what()),
    }
}

/// The sizes of the tensors at the axis.
fn sizes(cx: &KernelContext, items: &[Value]) -> Result<Vec<i32>> {
    let a = cx.attrs::<ArrayToTensorAttrs>();
    items
        .iter()
        .map(|v| {
            let t = v.dense()?;
            if a.use_stack {
                // Paddle's index holds the size at the axis here, too; the new axis may be the last
                return Ok(t.dims().get(a.axis.max(0) as usize).copied().unwrap_or(1) as i32);
            }
            Ok(t.dims()[oar_core::base::shape::axis(cx.op.name, a.axis as i64, t.rank())?] as i32)
        })
        .collect()
}

fn join(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ArrayToTensorAttrs>();
    let items = items(cx)?;
    let sizes = sizes(cx, items)?;
    let (op, attrs) = joining(a)?;
    let mut outs = call_simple(op, &attrs, vec![items.to_vec()])?;
    cx.set(joined::OUT, outs.swap_remove(0).swap_remove(0));
    let mut index = Tensor::empty(DType::I32, &[sizes.len() as i64])?;
    index.data_mut::<i32>()?.copy_from_slice(&sizes);
    cx.set(joined::OUT_INDEX, index);
    Ok(())
}

fn cut(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ArrayToTensorAttrs>();
    let items = items(cx)?;
    let d = Value::Dense(cx.input(joined_grad::DOUT)?.clone());
    let mut attrs: AttrMap = [("axis".into(), Attr::Int(a.axis))].into_iter().collect();
    let op = if a.use_stack {
        attrs.insert("num", Attr::Int(items.len() as i32));
        table::need("unstack")?
    } else {
        attrs.insert("sections", Attr::Ints(sizes(cx, items)?));
        table::need("split")?
    };
    let parts = call_simple(op, &attrs, vec![vec![d]])?.swap_remove(0);
    ensure!(parts.len() == items.len(), InvalidArgument, "operator {}: the gradient does not fit", cx.op.name);
    let like = |(part, item): (Value, &Value)| match (part, item) {
        (Value::Dense(t), Value::Dense(x)) => Value::Dense(t.with_lod(x.lod.clone())),
        (part, _) => part,
    };
    cx.set(joined_grad::DX, Value::Array(Arc::new(parts.into_iter().zip(items).map(like).collect())));
    Ok(())
}

pub static TENSOR_ARRAY_TO_TENSOR: Op = Op {
    name: "tensor_array_to_tensor",
    inputs: joined::INS,
    outputs: joined::OUTS,
    attrs: ArrayToTensorAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(join),
    grad: Grad::By(&TENSOR_ARRAY_TO_TENSOR_GRAD),
    ..OP
};

pub static TENSOR_ARRAY_TO_TENSOR_GRAD: Op = Op {
    name: "tensor_array_to_tensor_grad",
    inputs: joined_grad::INS,
    outputs: joined_grad::OUTS,
    attrs: ArrayToTensorAttrs::FIELDS,
    infer: |cx| {
        let m = cx.meta(joined_grad::X, 0)?;
        cx.set_meta(joined_grad::DX, 0, Meta { kind: VarKind::Array, ..m });
        Ok(())
    },
    cpu: Kernel::Pure(cut),
    ..OP
};

pub static TABLE: &[&Op] = &[&TENSOR_ARRAY_TO_TENSOR, &TENSOR_ARRAY_TO_TENSOR_GRAD];
