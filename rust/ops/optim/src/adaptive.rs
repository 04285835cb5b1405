//! Adaptive optimizers: adagrad, decayed_adagrad, adadelta, adamax, rmsprop. The outputs alias their inputs.

use super::update::{apply, infer_aliases, like_param, Gradient};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::{ensure, slots};
use oar_kernels::optimizer::rules;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct AdagradAttrs { epsilon: f32 = 1e-6 }
    pub struct DecayedAdagradAttrs { decay: f32 = 0.95, epsilon: f32 = 1e-6 }
    pub struct AdadeltaAttrs { rho: f32 = 0.95, epsilon: f32 = 1e-6 }
    pub struct AdamaxAttrs { beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8 }
    pub struct RmsPropAttrs { epsilon: f32 = 1e-10, decay: f32 = 0.9, momentum: f32 = 0.0, centered: bool = false }
}

slots! {
    /// Also the slots of decayed_adagrad.
    mod adagrad {
        PARAM "Param", GRAD "Grad", MOMENT "Moment", RATE "LearningRate"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT_OUT "MomentOut".aliases("Moment")
    }
    mod adadelta {
        PARAM "Param", GRAD "Grad", GRADIENTS "AvgSquaredGrad", STEPS "AvgSquaredUpdate"
        => PARAM_OUT "ParamOut".aliases("Param"), GRADIENTS_OUT "AvgSquaredGradOut".aliases("AvgSquaredGrad"),
        STEPS_OUT "AvgSquaredUpdateOut".aliases("AvgSquaredUpdate")
    }
    mod adamax {
        PARAM "Param", GRAD "Grad", RATE "LearningRate", MOMENT "Moment", INF_NORM "InfNorm", BETA1_POW "Beta1Pow"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT_OUT "MomentOut".aliases("Moment"),
        INF_NORM_OUT "InfNormOut".aliases("InfNorm")
    }
    mod rmsprop {
        PARAM "Param", MEAN_SQUARE "MeanSquare", MEAN_GRAD "MeanGrad".dispensable(), RATE "LearningRate", GRAD "Grad",
        MOMENT "Moment"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT_OUT "MomentOut".aliases("Moment"),
        MEAN_SQUARE_OUT "MeanSquareOut".aliases("MeanSquare"), MEAN_GRAD_OUT "MeanGradOut".aliases("MeanGrad")
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

// adagrad

/// Rows without a gradient are unchanged.
fn adagrad_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    let (rate, epsilon) = (scalar(cx, adagrad::RATE)?, cx.attrs::<AdagradAttrs>().epsilon);
    apply!(cx, grad, [adagrad::PARAM_OUT, adagrad::MOMENT_OUT], lazy: true, |T| {
        rules::Adagrad { rate: rate as T, epsilon: epsilon as T }
    })
}

pub static ADAGRAD: Op = Op {
    name: "adagrad",
    inputs: adagrad::INS,
    outputs: adagrad::OUTS,
    attrs: AdagradAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, adagrad::PARAM, &[adagrad::GRAD, adagrad::MOMENT])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let grad = Gradient::dense(cx, adagrad::GRAD)?;
        adagrad_by(cx, Some(grad))
    }),
    sparse_kernel: SparseKernel::Own(|cx| {
        let grad = Gradient::of_rows(cx, adagrad::GRAD)?;
        adagrad_by(cx, grad)
    }),
    ..OP
};

fn decayed_adagrad(cx: &mut KernelContext) -> Result<()> {
    let grad = Some(Gradient::dense(cx, adagrad::GRAD)?);
    let (rate, a) = (scalar(cx, adagrad::RATE)?, cx.attrs::<DecayedAdagradAttrs>());
    apply!(cx, grad, [adagrad::PARAM_OUT, adagrad::MOMENT_OUT], lazy: false, |T| {
        rules::DecayedAdagrad { rate: rate as T, decay: a.decay as T, epsilon: a.epsilon as T }
    })
}

pub static DECAYED_ADAGRAD: Op = Op {
    name: "decayed_adagrad",
    inputs: adagrad::INS,
    outputs: adagrad::OUTS,
    attrs: DecayedAdagradAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, adagrad::PARAM, &[adagrad::GRAD, adagrad::MOMENT])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(decayed_adagrad),
    ..OP
};

// adadelta

fn run_adadelta(cx: &mut KernelContext) -> Result<()> {
    use adadelta::{GRAD, GRADIENTS_OUT, PARAM_OUT, STEPS_OUT};
    let grad = Some(Gradient::dense(cx, GRAD)?);
    let a = cx.attrs::<AdadeltaAttrs>();
    apply!(cx, grad, [PARAM_OUT, GRADIENTS_OUT, STEPS_OUT], lazy: false, |T| {
        rules::Adadelta { rho: a.rho as T, epsilon: a.epsilon as T }
    })
}

pub static ADADELTA: Op = Op {
    name: "adadelta",
    inputs: adadelta::INS,
    outputs: adadelta::OUTS,
    attrs: AdadeltaAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, adadelta::PARAM, &[adadelta::GRAD, adadelta::GRADIENTS, adadelta::STEPS])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_adadelta),
    ..OP
};

// adamax

fn run_adamax(cx: &mut KernelContext) -> Result<()> {
    use adamax::{BETA1_POW, GRAD, INF_NORM_OUT, MOMENT_OUT, PARAM_OUT, RATE};
    let grad = Some(Gradient::dense(cx, GRAD)?);
    let (rate, power, a) = (scalar(cx, RATE)?, scalar(cx, BETA1_POW)?, cx.attrs::<AdamaxAttrs>());
    apply!(cx, grad, [PARAM_OUT, MOMENT_OUT, INF_NORM_OUT], lazy: false, |T| {
        rules::Adamax {
            rate: rate as T / (1.0 - power as T),
            beta1: a.beta1 as T,
            beta2: a.beta2 as T,
            epsilon: a.epsilon as T,
        }
    })
}

pub static ADAMAX: Op = Op {
    name: "adamax",
    inputs: adamax::INS,
    outputs: adamax::OUTS,
    attrs: AdamaxAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, adamax::PARAM, &[adamax::GRAD, adamax::MOMENT, adamax::INF_NORM])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_adamax),
    ..OP
};

// rmsprop

/// Rows without a gradient are updated with a zero gradient: their momentum still moves them.
fn rmsprop_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    use rmsprop::{MEAN_GRAD_OUT, MEAN_SQUARE_OUT, MOMENT_OUT, PARAM_OUT, RATE};
    let (rate, a) = (scalar(cx, RATE)?, cx.attrs::<RmsPropAttrs>());
    if a.centered {
        return apply!(cx, grad, [PARAM_OUT, MEAN_SQUARE_OUT, MOMENT_OUT, MEAN_GRAD_OUT], lazy: false, |T| {
            rules::CenteredRmsProp {
                rate: rate as T,
                rho: a.decay as T,
                epsilon: a.epsilon as T,
                mu: a.momentum as T,
            }
        });
    }
    apply!(cx, grad, [PARAM_OUT, MEAN_SQUARE_OUT, MOMENT_OUT], lazy: false, |T| {
        rules::RmsProp { rate: rate as T, rho: a.decay as T, epsilon: a.epsilon as T, mu: a.momentum as T }
    })
}

pub static RMSPROP: Op = Op {
    name: "rmsprop",
    inputs: rmsprop::INS,
    outputs: rmsprop::OUTS,
    attrs: RmsPropAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        if cx.attrs::<RmsPropAttrs>().centered {
            ensure!(
                cx.has(rmsprop::MEAN_GRAD),
                NotFound,
                "operator rmsprop: input 'MeanGrad' must be given where centered is true, expected a tensor, got none"
            );
            like_param(cx, rmsprop::PARAM, &[rmsprop::MEAN_GRAD])?;
        }
        like_param(cx, rmsprop::PARAM, &[rmsprop::GRAD, rmsprop::MOMENT, rmsprop::MEAN_SQUARE])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let grad = Gradient::dense(cx, rmsprop::GRAD)?;
        rmsprop_by(cx, Some(grad))
    }),
    sparse_kernel: SparseKernel::Own(|cx| {
        let grad = Gradient::of_rows(cx, rmsprop::GRAD)?;
        rmsprop_by(cx, grad)
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&ADAGRAD, &DECAYED_ADAGRAD, &ADADELTA, &ADAMAX, &RMSPROP];
