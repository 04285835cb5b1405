//! dgc_momentum: momentum before deep gradient compression begins, then plain steps (dgc applies the momentum).

use super::update::{by_types, infer_aliases, like_param, update, Gradient, Places};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::optimizer::{Momentum, Sgd};
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct DgcMomentumAttrs {
        rampup_begin_step: f32 = -1.0, mu: f32, use_nesterov: bool = false, regularization_method: Text = "".into(),
        regularization_coeff: f32 = 0.0, multi_precision: bool = false, rescale_grad: f32 = 1.0,
    }
}

slots! {
    mod dgc {
        STEP "current_step", RANKS "nranks", PARAM "Param", GRAD "Grad", VELOCITY "Velocity", RATE "LearningRate",
        MASTER "MasterParam".dispensable()
        => GRAD_OUT "Grad_out".kernel_allocated(), PARAM_OUT "ParamOut".aliases("Param"),
        VELOCITY_OUT "VelocityOut".aliases("Velocity"), MASTER_OUT "MasterParamOut".dispensable().aliases("MasterParam")
    }
}

fn divided(t: &Tensor, by: f64) -> Result<Tensor> {
    let mut out = t.clone();
    dispatch!(t.dtype(), T in [f32, f64], {
        out.data_mut::<T>()?.iter_mut().for_each(|x| *x = (*x as f64 / by) as T);
    }, other => bail!(Unimplemented, "operator dgc_momentum has no CPU kernel for data type {other}"));
    Ok(out)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DgcMomentumAttrs>());
    let grad = cx.input(dgc::GRAD)?.clone();
    let begin = f64::from(a.rampup_begin_step).trunc();
    if begin < 0.0 {
        cx.set(dgc::GRAD_OUT, grad);
        return Ok(());
    }
    let (step, ranks, rate) = (scalar(cx, dgc::STEP)?, scalar(cx, dgc::RANKS)?.trunc(), scalar(cx, dgc::RATE)?);
    ensure!(ranks > 1.0, InvalidArgument, "operator {op}: nranks must be above 1, got {ranks}");
    let dtype = cx.out(dgc::PARAM_OUT)?.dtype();
    // dgc multiplies gradients by the number of ranks; divide again.
    let given = Gradient::dense(cx, dgc::GRAD)?;
    by_types!(cx, dtype, false, |T, M, G| {
        if step.trunc() < begin {
            let at = Places { param_and_states: [dgc::PARAM_OUT, dgc::VELOCITY_OUT], lazy: false };
            let rule = Momentum {
                rate: rate as T,
                mu: a.mu as T,
                scale: (f64::from(a.rescale_grad) / ranks) as T,
                decay: if a.regularization_method == "l2_decay" { a.regularization_coeff as T } else { 0.0 },
                nesterov: a.use_nesterov,
            };
            update::<T, M, G, _, 2>(cx, &at, &given, rule)?;
        } else {
            let at = Places { param_and_states: [dgc::PARAM_OUT], lazy: true };
            update::<T, M, G, _, 1>(cx, &at, &given, Sgd { rate: (rate / ranks) as T })?;
        }
    });
    cx.set(dgc::GRAD_OUT, divided(&grad, ranks)?);
    Ok(())
}

pub static DGC_MOMENTUM: Op = Op {
    name: "dgc_momentum",
    inputs: dgc::INS,
    outputs: dgc::OUTS,
    attrs: DgcMomentumAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        cx.like(dgc::GRAD_OUT, dgc::GRAD)?;
        like_param(cx, dgc::PARAM, &[dgc::GRAD, dgc::VELOCITY])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&DGC_MOMENTUM];
