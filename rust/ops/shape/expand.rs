//! expand, the operator of 1.x: a tensor repeated so many times along each dimension.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::ensure;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::parts::broadcast::reduce_to;
use oar_core::op::parts::elements::{share, strided, strides_of};
use oar_core::op::parts::given::{given, Way};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};

attrs! {
    pub struct ExpandAttrs { expand_times: Vec<i32> = vec![] }
}

fn check(op: &str, x: &[i64], times: &[i64]) -> Result<()> {
    ensure!(
        times.len() == x.len() && (1..=6).contains(&x.len()) && times.iter().all(|&t| t > 0),
        InvalidArgument,
        "operator {op}: 'expand_times' must have a positive number for each of 1 to 6 dimensions of X {x:?}, got {times:?}"
    );
    Ok(())
}

/// For each dimension of `x` two: how many times (1 where `once`), and its size.
fn pairs(x: &[i64], times: &[i64], once: bool) -> Dims {
    x.iter().zip(times).flat_map(|(&d, &t)| [if once { 1 } else { t }, d]).collect()
}

fn infer(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let times: Vec<i64> = cx.attrs::<ExpandAttrs>().expand_times.iter().map(|&t| t as i64).collect();
    if cx.has(1) || cx.has(2) {
        cx.set(0, &Dims::from_elem(-1, x.len()), dtype);
        return Ok(());
    }
    check(cx.op.name, &x, &times)?;
    let out: Dims = x.iter().zip(&times).map(|(&d, &t)| if d < 0 { -1 } else { d.saturating_mul(t) }).collect();
    cx.set(0, &out, dtype);
    if out.first() == x.first() {
        cx.share_lod(0, 0);
    }
    Ok(())
}

/// The numbers of repetitions: the tensors', or the attribute's.
fn times(cx: &Run, one: usize, list: usize, x: &[i64]) -> Result<Vec<i64>> {
    let times = match given(cx, &[Way::One(one.into()), Way::List(list.into())])?.values() {
        Some(t) => t,
        None => cx.attrs::<ExpandAttrs>().expand_times.iter().map(|&t| t as i64).collect(),
    };
    check(cx.op.name, x, &times)?;
    let fits = x.iter().zip(&times).all(|(d, t)| d.checked_mul(*t).is_some());
    ensure!(fits, ResourceExhausted, "operator {}: X {x:?} is too large {times:?} times", cx.op.name);
    Ok(times)
}

fn expand(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let times = times(cx, 1, 2, x.dims())?;
    let strides: Vec<isize> = strides_of(x.dims()).into_iter().flat_map(|s| [0, s]).collect();
    let out = strided(x, &pairs(x.dims(), &times, false), &strides, 0)?;
    let dims: Dims = x.dims().iter().zip(&times).map(|(d, t)| d * t).collect();
    let lod = x.lod.clone().filter(|_| times[0] == 1);
    cx.set(0, out.reshaped(&dims).with_lod(lod));
    Ok(())
}

fn expand_grad(cx: &mut Run) -> Result<()> {
    let (x, d) = (cx.input(0)?, cx.input(1)?);
    let times = times(cx, 3, 2, x.dims())?;
    let dims: Dims = x.dims().iter().zip(&times).map(|(d, t)| d * t).collect();
    ensure!(
        d.dims() == &dims[..],
        InvalidArgument,
        "operator {}: Out@GRAD must have shape {dims:?}, got {d:?}",
        cx.op.name
    );
    let split = share(d)?.reshaped(&pairs(x.dims(), &times, false));
    let dx = reduce_to(split, &pairs(x.dims(), &times, true), -1)?;
    cx.set(0, dx.reshaped(x.dims()).with_lod(x.lod.clone()));
    Ok(())
}

pub static EXPAND: Op = Op {
    name: "expand",
    inputs: &[slot("X"), slot("ExpandTimes").opt(), slot("expand_times_tensor").many().opt()],
    outputs: &[slot("Out")],
    attrs: ExpandAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(expand),
    grad: Grad::By(&EXPAND_GRAD),
    ..OP
};
pub static EXPAND_GRAD: Op = Op {
    name: "expand_grad",
    inputs: &[
        slot("X").meta_only(),
        slot("Out@GRAD"),
        slot("expand_times_tensor").many().opt(),
        slot("ExpandTimes").opt(),
    ],
    outputs: &[slot("X@GRAD")],
    attrs: ExpandAttrs::FIELDS,
    infer: |cx| if cx.is_run() { Ok(()) } else { grads_like_inputs(cx) },
    cpu: Kernel::Pure(expand_grad),
    grad: Grad::Map(&EXPAND, &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&EXPAND, &EXPAND_GRAD];
