//! stack, unstack and unbind: concatenate and split along a new axis.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{bail, ensure, slots};
use oar_ops_common::concat::{concat_into, same_dtype, slice_axis};

attrs! {
    pub struct StackAttrs { axis: i32 = 0 }
    pub struct UnbindAttrs { axis: i32 = 0 }
    pub struct UnstackAttrs { axis: i32 = 0, num: i32 }
}

// WHOLE is the stacked tensor, PARTS are its slices. The gradient of one operator is the other.
slots! {
    mod stack { PARTS "X".duplicable() => WHOLE "Y" }
    mod stack_grad { WHOLE "Y@GRAD" => PARTS "X@GRAD".duplicable().kernel_allocated() }
    // Slices may share the bytes of the stacked tensor.
    mod unstack { WHOLE "X" => PARTS "Y".duplicable().kernel_allocated() }
    mod unbind { WHOLE "X" => PARTS "Out".duplicable().kernel_allocated() }
    mod unstack_grad { PARTS "Y@GRAD".duplicable() => WHOLE "X@GRAD" }
}

fn stack_all(cx: &mut KernelContext, at: i32) -> Result<()> {
    let parts = cx.inputs(stack::PARTS)?;
    same_dtype(cx.op.name, &parts)?;
    let at = axis(cx.op.name, at as i64, parts[0].rank() + 1)?;
    concat_into(&parts, &vec![1; parts.len()], at, cx.out(stack::WHOLE)?)
}

fn infer_stack_all(cx: &mut ShapeContext, at: i32) -> Result<()> {
    let n = cx.count(stack::PARTS);
    ensure!(n > 0, InvalidArgument, "operator {} needs at least one input", cx.op.name);
    let (x, dtype) = (cx.dims(stack::PARTS)?, cx.dtype(stack::PARTS)?);
    for i in 1..n {
        let Ok(other) = cx.meta(stack::PARTS, i) else { continue };
        let other = other.dims;
        let alike = other.len() == x.len() && x.iter().zip(&other).all(|(&a, &b)| a == b || a < 0 || b < 0);
        ensure!(
            alike,
            InvalidArgument,
            "operator {}: all inputs must have one shape, input 0 has {x:?}, input {i} has {other:?}",
            cx.op.name
        );
    }
    let mut dims = x;
    dims.insert(axis(cx.op.name, at as i64, dims.len() + 1)?, n as i64);
    cx.set(stack::WHOLE, &dims, dtype);
    cx.share_lod(stack::WHOLE, stack::PARTS);
    Ok(())
}

fn unstack_all(cx: &mut KernelContext, at: i32) -> Result<()> {
    let x = cx.input(unstack::WHOLE)?;
    let at = axis(cx.op.name, at as i64, x.rank())?;
    let mut dims = Dims::from_slice(x.dims());
    dims.remove(at);
    for i in 0..cx.n_outs(unstack::PARTS) {
        ensure!(
            (i as i64) < x.dims()[at],
            InvalidArgument,
            "operator {}: axis {at} of shape {:?} has fewer than {} elements",
            cx.op.name,
            x.dims(),
            i + 1
        );
        if cx.wants_nth(unstack::PARTS, i) {
            let t = slice_axis(x, at, i as i64, 1)?;
            cx.set_nth(unstack::PARTS, i, t.reshaped(&dims));
        }
    }
    Ok(())
}

/// `n`: the required number of slices, if an attribute gives it.
fn infer_unstack_all(cx: &mut ShapeContext, at: i32, n: Option<i32>) -> Result<()> {
    let x = cx.dims(unstack::WHOLE)?;
    let at = axis(cx.op.name, at as i64, x.len())?;
    if let Some(n) = n {
        ensure!(
            n > 0 && (x[at] < 0 || x[at] == n as i64),
            InvalidArgument,
            "operator {}: num must be the size of axis {at} of shape {x:?}, got {n}",
            cx.op.name
        );
        cx.set_outs(unstack::PARTS, n as usize)?;
    }
    let dtype = cx.dtype(unstack::WHOLE)?;
    let mut dims = x;
    dims.remove(at);
    (0..cx.outs(unstack::PARTS)).for_each(|i| cx.set_nth(unstack::PARTS, i, &dims, dtype));
    Ok(())
}

macro_rules! stacks {
    ($op:ident $name:literal $slots:ident $attrs:ident $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: $slots::INS,
            outputs: $slots::OUTS,
            attrs: $attrs::FIELDS,
            infer: |cx| infer_stack_all(cx, cx.attrs::<$attrs>().axis),
            cpu: Kernel::Pure(|cx| stack_all(cx, cx.attrs::<$attrs>().axis)),
            grad: $grad,
            ..OP
        };
    };
}
macro_rules! unstacks {
    ($op:ident $name:literal $slots:ident $attrs:ident $n:expr, $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: $slots::INS,
            outputs: $slots::OUTS,
            attrs: $attrs::FIELDS,
            infer: |cx| {
                let n: fn(&$attrs) -> Option<i32> = $n;
                let a = cx.attrs::<$attrs>();
                infer_unstack_all(cx, a.axis, n(a))
            },
            cpu: Kernel::Pure(|cx| unstack_all(cx, cx.attrs::<$attrs>().axis)),
            grad: $grad,
            ..OP
        };
    };
}
stacks!(STACK "stack" stack StackAttrs Grad::By(&STACK_GRAD));
unstacks!(STACK_GRAD "stack_grad" stack_grad StackAttrs |_| None, Grad::None);
unstacks!(UNSTACK "unstack" unstack UnstackAttrs |a| Some(a.num), Grad::By(&UNSTACK_GRAD));
stacks!(UNSTACK_GRAD "unstack_grad" unstack_grad UnstackAttrs Grad::None);

/// unbind: as unstack, with the axis' size as the number of slices; its gradient is stack.
pub static UNBIND: Op = Op {
    name: "unbind",
    inputs: unbind::INS,
    outputs: unbind::OUTS,
    attrs: UnbindAttrs::FIELDS,
    infer: |cx| {
        let at = cx.attrs::<UnbindAttrs>().axis;
        let x = cx.dims(unbind::WHOLE)?;
        match usize::try_from(x[axis(cx.op.name, at as i64, x.len())?]) {
            Ok(n) => cx.set_outs(unbind::PARTS, n)?,
            Err(_) if cx.free_outs => bail!(
                InvalidArgument,
                "operator unbind: the size of axis {at} of shape {x:?} is the number of outputs, and must be known while \
                 the Program is built"
            ),
            Err(_) => {}
        }
        infer_unstack_all(cx, at, None)
    },
    cpu: Kernel::Pure(|cx| unstack_all(cx, cx.attrs::<UnbindAttrs>().axis)),
    grad: Grad::Map(&STACK, &[("X", "Out@GRAD"), ("Y", "X@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&UNBIND, &STACK, &STACK_GRAD, &UNSTACK, &UNSTACK_GRAD];
