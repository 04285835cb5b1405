//! prelu: x if positive, else x times a learned slope (one in total, per channel or per element).

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::prelu as kernel;
use oar_ops_common::axis::like;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct PReluAttrs { mode: String = "all".into() }
}

slots! {
    mod prelu { X "X", ALPHA "Alpha" => OUT "Out" }
    mod prelu_grad { X "X", ALPHA "Alpha", DOUT "Out@GRAD" => DX "X@GRAD", DALPHA "Alpha@GRAD" }
}

fn check(op: &str, mode: &str, x: &[i64], alpha: &[i64]) -> Result<()> {
    let known = |d: &[i64]| d.iter().all(|&n| n >= 0).then(|| d.iter().product::<i64>());
    let wanted = match mode {
        "all" => Some(1),
        "channel" => {
            ensure!(
                x.len() >= 2,
                InvalidArgument,
                "operator {op}: in mode 'channel' X must have 2 dimensions or more, got shape {x:?}"
            );
            known(&x[1..2])
        }
        "element" => {
            ensure!(
                !x.is_empty() && x.len() == alpha.len(),
                InvalidArgument,
                "operator {op}: in mode 'element' Alpha must have as many dimensions as X, got {alpha:?} and {x:?}"
            );
            known(&x[1..])
        }
        _ => {
            ensure!(false, InvalidArgument, "operator {op}: mode must be all, channel or element, got '{mode}'");
            None
        }
    };
    let got = known(alpha);
    ensure!(
        wanted.is_none() || got.is_none() || wanted == got,
        InvalidArgument,
        "operator {op}: in mode '{mode}' and for X of shape {x:?} Alpha must have {} elements, got shape {alpha:?}",
        wanted.unwrap_or(0)
    );
    Ok(())
}

/// Number of consecutive elements with one slope.
fn run_length(mode: &str, x: &[i64]) -> usize {
    match mode {
        "channel" => x[2..].iter().product::<i64>() as usize,
        "element" => 1,
        _ => x.iter().product::<i64>() as usize,
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, alpha) = (cx.dims(prelu::X)?, cx.dims(prelu::ALPHA)?);
    check(cx.op.name, &cx.attrs::<PReluAttrs>().mode, &x, &alpha)?;
    like_first(cx)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, alpha, mode) = (cx.input(prelu::X)?, cx.input(prelu::ALPHA)?, &cx.attrs::<PReluAttrs>().mode);
    like(cx, alpha, alpha.dims(), x.dtype(), "Alpha")?;
    if x.numel() == 0 {
        return Ok(());
    }
    let length = run_length(mode, x.dims());
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::forward(x.data::<T>(), alpha.data::<T>(), length, cx.out_data::<T>(prelu::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use prelu_grad::{ALPHA, DALPHA, DOUT, DX, X};
    let (x, alpha, d) = (cx.input(X)?, cx.input(ALPHA)?, cx.input(DOUT)?);
    let mode = &cx.attrs::<PReluAttrs>().mode;
    check(cx.op.name, mode, x.dims(), alpha.dims())?;
    like(cx, alpha, alpha.dims(), x.dtype(), "Alpha")?;
    like(cx, d, x.dims(), x.dtype(), "the gradient of Out")?;
    let length = run_length(mode, x.dims());
    let [dx, dalpha] = cx.each_out([DX, DALPHA]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, alpha, d) = (x.data::<T>(), alpha.data::<T>(), d.data::<T>());
        if x.is_empty() {
            return dalpha.map_or(Ok(()), |t| t.data_mut::<T>().map(|t| t.fill(0.0)));
        }
        if let Some(t) = dx {
            kernel::x_grad(x, alpha, d, length, t.data_mut::<T>()?);
        }
        if let Some(t) = dalpha {
            kernel::slopes_grad(x, d, length, t.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static PRELU: Op = Op {
    name: "prelu",
    inputs: prelu::INS,
    outputs: prelu::OUTS,
    attrs: PReluAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, prelu::X, run)),
    grad: Grad::By(&PRELU_GRAD),
    ..OP
};

pub static PRELU_GRAD: Op = Op {
    name: "prelu_grad",
    inputs: prelu_grad::INS,
    outputs: prelu_grad::OUTS,
    attrs: PReluAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, prelu_grad::X, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRELU, &PRELU_GRAD];
