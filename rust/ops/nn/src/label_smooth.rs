//! label_smooth: labels mixed with a prior distribution, uniform by default.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::label_smooth as kernel;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct SmoothAttrs { epsilon: f32 = 0.0 }
}

slots! {
    mod smooth { X "X", PRIOR "PriorDist".dispensable() => OUT "Out" }
    mod smooth_grad { DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(smooth::X)?;
    ensure!(!x.is_empty(), InvalidArgument, "operator {}: X must have a dimension", cx.op.name);
    if cx.has(smooth::PRIOR) {
        let (labels, prior) = (x[x.len() - 1], cx.dims(smooth::PRIOR)?);
        let known = labels >= 0 && prior.iter().all(|&d| d >= 0);
        ensure!(
            !known || prior.iter().product::<i64>() == labels,
            InvalidArgument,
            "operator {}: PriorDist must have one element per label ({labels}), got shape {:?}",
            cx.op.name,
            &prior[..]
        );
    }
    like_first(cx)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, epsilon) = (cx.input(smooth::X)?, cx.attrs::<SmoothAttrs>().epsilon);
    if x.numel() == 0 {
        return Ok(());
    }
    let labels = x.dims()[x.rank() - 1] as usize;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (keep, mix, data) = ((1.0 - epsilon) as T, epsilon as T, x.data::<T>());
        let prior = match cx.opt(smooth::PRIOR) {
            Some(t) => {
                ensure!(
                    t.dtype() == x.dtype(),
                    InvalidArgument,
                    "operator {}: PriorDist must be {} as X, got {}",
                    cx.op.name,
                    x.dtype(),
                    t.dtype()
                );
                Some(t.data::<T>())
            }
            None => None,
        };
        let even = (epsilon / labels as f32) as T;
        let out = cx.out_data::<T>(smooth::OUT)?;
        kernel::smooth(data, labels, keep, (mix, prior), even, out);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (d, epsilon) = (cx.input(smooth_grad::DOUT)?, cx.attrs::<SmoothAttrs>().epsilon);
    dispatch!(d.dtype(), T in [f32, f64], {
        kernel::smooth_grad(d.data::<T>(), (1.0 - epsilon) as T, cx.out_data::<T>(smooth_grad::DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static LABEL_SMOOTH: Op = Op {
    name: "label_smooth",
    inputs: smooth::INS,
    outputs: smooth::OUTS,
    attrs: SmoothAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth::X, run)),
    grad: Grad::By(&LABEL_SMOOTH_GRAD),
    ..OP
};

pub static LABEL_SMOOTH_GRAD: Op = Op {
    name: "label_smooth_grad",
    inputs: smooth_grad::INS,
    outputs: smooth_grad::OUTS,
    attrs: SmoothAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, smooth_grad::DOUT, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LABEL_SMOOTH, &LABEL_SMOOTH_GRAD];
