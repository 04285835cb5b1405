//! expand, the operator of 1.x: a tensor repeated so many times along each dimension.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::parts::broadcast::reduce_to;
use oar_core::op::parts::elements::{share, strided, strides_of};
use oar_core::op::parts::given::{given, Given, Inputs, Way};
use oar_core::op::{Grad, Infer, Kernel, Op, Run, OP};
use oar_core::{ensure, slots};

attrs! {
    pub struct ExpandAttrs { expand_times: Vec<i32> = vec![] }
}

slots! {
    mod expand { X "X", TIMES "ExpandTimes".opt(), TIMES_LIST "expand_times_tensor".many().opt() => OUT "Out".made() }
    mod expand_grad {
        X "X".meta_only(), DOUT "Out@GRAD", TIMES_LIST "expand_times_tensor".many().opt(), TIMES "ExpandTimes".opt()
        => DX "X@GRAD".made()
    }
}

const WAYS: [Way; 2] = [Way::One(expand::TIMES), Way::List(expand::TIMES_LIST)];
const GRAD_WAYS: [Way; 2] = [Way::One(expand_grad::TIMES), Way::List(expand_grad::TIMES_LIST)];

/// For each dimension of `x` two: how many times (1 where `once`), and its size.
fn pairs(x: &[i64], times: &[i64], once: bool) -> Dims {
    x.iter().zip(times).flat_map(|(&d, &t)| [if once { 1 } else { t }, d]).collect()
}

/// The numbers of repetitions, the tensors' or the attribute's; `None` while nobody knows them.
fn times(cx: &impl Inputs, ways: &[Way], a: &ExpandAttrs, x: &[i64]) -> Result<Option<Dims>> {
    let op = cx.op().name;
    let times = match given(cx, ways)? {
        Given::Values(t) => Dims::from_vec(t),
        Given::Count(_) => return Ok(None),
        Given::No => a.expand_times.iter().map(|&t| t as i64).collect(),
    };
    ensure!(
        times.len() == x.len() && (1..=6).contains(&x.len()) && times.iter().all(|&t| t > 0),
        InvalidArgument,
        "operator {op}: 'expand_times' must have a positive number for each of 1 to 6 dimensions of X {x:?}, got {times:?}"
    );
    let fits = x.iter().zip(&times).all(|(d, t)| d.checked_mul(*t).is_some());
    ensure!(fits, ResourceExhausted, "operator {op}: X {x:?} is too large {times:?} times");
    Ok(Some(times))
}

fn repeated(x: &[i64], times: &[i64]) -> Dims {
    x.iter().zip(times).map(|(&d, t)| if d < 0 { -1 } else { d * t }).collect()
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(expand::X)?, cx.dtype(expand::X)?);
    let Some(times) = times(cx, &WAYS, cx.attrs(), &x)? else {
        cx.set(expand::OUT, &Dims::from_elem(-1, x.len()), dtype);
        return Ok(());
    };
    cx.set(expand::OUT, &repeated(&x, &times), dtype);
    if times[0] == 1 {
        cx.share_lod(expand::OUT, expand::X);
    }
    Ok(())
}

fn expand(cx: &mut Run) -> Result<()> {
    let x = cx.input(expand::X)?;
    let times = times(cx, &WAYS, cx.attrs(), x.dims())?.unwrap_or_default();
    let strides: Vec<isize> = strides_of(x.dims()).into_iter().flat_map(|s| [0, s]).collect();
    let out = strided(x, &pairs(x.dims(), &times, false), &strides, 0)?;
    let lod = x.lod.clone().filter(|_| times[0] == 1);
    cx.set(expand::OUT, out.reshaped(&repeated(x.dims(), &times)).with_lod(lod));
    Ok(())
}

fn expand_grad(cx: &mut Run) -> Result<()> {
    let (x, d) = (cx.input(expand_grad::X)?, cx.input(expand_grad::DOUT)?);
    let times = times(cx, &GRAD_WAYS, cx.attrs(), x.dims())?.unwrap_or_default();
    let dims = repeated(x.dims(), &times);
    ensure!(
        d.dims() == &dims[..],
        InvalidArgument,
        "operator {}: Out@GRAD must have shape {dims:?}, got {d:?}",
        cx.op.name
    );
    let split = share(d)?.reshaped(&pairs(x.dims(), &times, false));
    let dx = reduce_to(split, &pairs(x.dims(), &times, true), -1)?;
    cx.set(expand_grad::DX, dx.reshaped(x.dims()).with_lod(x.lod.clone()));
    Ok(())
}

pub static EXPAND: Op = Op {
    name: "expand",
    inputs: expand::INS,
    outputs: expand::OUTS,
    attrs: ExpandAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(expand),
    grad: Grad::By(&EXPAND_GRAD),
    ..OP
};
pub static EXPAND_GRAD: Op = Op {
    name: "expand_grad",
    inputs: expand_grad::INS,
    outputs: expand_grad::OUTS,
    attrs: ExpandAttrs::FIELDS,
    takes: DTypes::FLOATS.and(DTypes::HALVES).and(DTypes::INDICES).and(DTypes::COMPLEX),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(expand_grad),
    grad: Grad::Map(&EXPAND, &[("X", "X@GRAD@GRAD"), ("Out", "Out@GRAD@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&EXPAND, &EXPAND_GRAD];
