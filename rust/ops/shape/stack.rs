//! stack and unstack: join and cut along an axis that is new.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{Dims, Result};
use oar_core::ensure;
use oar_core::op::parts::join::{cut, join, same_dtype};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;

attrs! {
    pub struct StackAttrs { axis: i32 = 0 }
    pub struct UnstackAttrs { axis: i32 = 0, num: i32 }
}

fn stack_all(cx: &mut Run, at: i32) -> Result<()> {
    let parts = cx.inputs(0)?;
    let (dims, at) = stacked(cx.op.name, parts[0].dims(), parts.len(), at)?;
    same_dtype(cx.op.name, &parts)?;
    for (i, t) in parts.iter().enumerate() {
        ensure!(
            t.dims() == parts[0].dims(),
            InvalidArgument,
            "operator {}: all inputs must have one shape, input 0 has {:?}, input {i} has {:?}",
            cx.op.name,
            parts[0].dims(),
            t.dims()
        );
    }
    let mut flat = Dims::from_slice(&dims);
    flat[at] = 1;
    let lod = parts[0].lod.clone();
    let parts: Vec<Tensor> = parts.iter().map(|t| t.reshaped(&flat)).collect();
    let out = join(&parts.iter().collect::<Vec<_>>(), &dims, at)?;
    cx.set(0, out.with_lod(lod));
    Ok(())
}

fn stacked(op: &str, x: &[i64], n: usize, at: i32) -> Result<(Dims, usize)> {
    let at = axis(op, at as i64, x.len() + 1)?;
    let mut dims = Dims::from_slice(x);
    dims.insert(at, n as i64);
    Ok((dims, at))
}

fn infer_stack_all(cx: &mut Infer, at: i32) -> Result<()> {
    let n = cx.count(0);
    ensure!(n > 0, InvalidArgument, "operator {} needs at least one input", cx.op.name);
    if cx.is_run() {
        return Ok(());
    }
    let x = cx.dims(0)?;
    for i in 1..n {
        let Ok(other) = cx.meta(0, i) else { continue };
        let other = other.dims;
        let alike = other.len() == x.len() && x.iter().zip(&other).all(|(&a, &b)| a == b || a < 0 || b < 0);
        ensure!(
            alike,
            InvalidArgument,
            "operator {}: all inputs must have one shape, input 0 has {x:?}, input {i} has {other:?}",
            cx.op.name
        );
    }
    let (dims, _) = stacked(cx.op.name, &x, n, at)?;
    let dtype = cx.dtype(0)?;
    cx.set(0, &dims, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn unstack_all(cx: &mut Run, at: i32) -> Result<()> {
    let x = cx.input(0)?;
    let at = axis(cx.op.name, at as i64, x.rank())?;
    let mut dims = Dims::from_slice(x.dims());
    dims.remove(at);
    for i in 0..cx.n_outs(0) {
        ensure!(
            (i as i64) < x.dims()[at],
            InvalidArgument,
            "operator {}: axis {at} of shape {:?} has fewer than {} parts",
            cx.op.name,
            x.dims(),
            i + 1
        );
        if cx.wants_nth(0, i) {
            let t = cut(x, at, i as i64, 1)?;
            cx.set_nth(0, i, t.reshaped(&dims));
        }
    }
    Ok(())
}

/// `n`: how many parts there must be, where an attribute says it.
fn infer_unstack_all(cx: &mut Infer, at: i32, n: Option<i32>) -> Result<()> {
    let x = cx.dims(0)?;
    let at = axis(cx.op.name, at as i64, x.len())?;
    if let Some(n) = n {
        ensure!(
            n > 0 && (x[at] < 0 || x[at] == n as i64),
            InvalidArgument,
            "operator {}: num must be the size of axis {at} of shape {x:?}, got {n}",
            cx.op.name
        );
        cx.set_outs(0, n as usize)?;
    }
    if cx.is_run() {
        return Ok(());
    }
    let dtype = cx.dtype(0)?;
    let mut dims = x.clone();
    dims.remove(at);
    (0..cx.outs(0)).for_each(|i| cx.set_nth(0, i, &dims, dtype));
    Ok(())
}

macro_rules! stacks {
    ($op:ident $name:literal $in:literal $out:literal $attrs:ident $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: &[slot($in).many()],
            outputs: &[slot($out)],
            attrs: $attrs::FIELDS,
            infer: |cx| infer_stack_all(cx, cx.attrs::<$attrs>().axis),
            cpu: Kernel::Pure(|cx| stack_all(cx, cx.attrs::<$attrs>().axis)),
            grad: $grad,
            ..OP
        };
    };
}
macro_rules! unstacks {
    ($op:ident $name:literal $in:literal $out:literal $attrs:ident $n:expr, $grad:expr) => {
        pub static $op: Op = Op {
            name: $name,
            inputs: &[slot($in)],
            outputs: &[slot($out).many()],
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
stacks!(STACK "stack" "X" "Y" StackAttrs Grad::By(&STACK_GRAD));
unstacks!(STACK_GRAD "stack_grad" "Y@GRAD" "X@GRAD" StackAttrs |_| None, Grad::None);
unstacks!(UNSTACK "unstack" "X" "Y" UnstackAttrs |a| Some(a.num), Grad::By(&UNSTACK_GRAD));
stacks!(UNSTACK_GRAD "unstack_grad" "Y@GRAD" "X@GRAD" UnstackAttrs Grad::None);

pub static TABLE: &[&Op] = &[&STACK, &STACK_GRAD, &UNSTACK, &UNSTACK_GRAD];
