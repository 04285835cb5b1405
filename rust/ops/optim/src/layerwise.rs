//! Optimizers that scale the step of a whole parameter by norms: lamb, lars_momentum. The outputs alias their inputs.

use super::update::{apply, by_types, infer_aliases, like_param, next_power, outs, Gradient};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, SparseKernel, OP};
use oar_core::slots;
use oar_kernels::{optimizer as kernel, optimizer::rules};
use oar_ops_common::given::{scalar, scalar_of};

attrs! {
    pub struct LambAttrs { weight_decay: f32, beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-6 }
    pub struct LarsAttrs { mu: f32, lars_coeff: f32 = 0.001, lars_weight_decay: f32 = 0.0005, epsilon: f32 = 0.0 }
}

slots! {
    mod lamb {
        PARAM "Param", GRAD "Grad", RATE "LearningRate", MOMENT1 "Moment1", MOMENT2 "Moment2", BETA1_POW "Beta1Pow",
        BETA2_POW "Beta2Pow"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT1_OUT "Moment1Out".aliases("Moment1"),
        MOMENT2_OUT "Moment2Out".aliases("Moment2"), BETA1_POW_OUT "Beta1PowOut".dispensable().aliases("Beta1Pow"),
        BETA2_POW_OUT "Beta2PowOut".dispensable().aliases("Beta2Pow")
    }
    mod lars {
        PARAM "Param", GRAD "Grad", VELOCITY "Velocity", RATE "LearningRate"
        => PARAM_OUT "ParamOut".aliases("Param"), VELOCITY_OUT "VelocityOut".aliases("Velocity")
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

// lamb

/// Rows without a gradient have one of zero. Without any row nothing happens, to the powers neither.
fn lamb_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    use lamb::{BETA1_POW, BETA1_POW_OUT, BETA2_POW, BETA2_POW_OUT, MOMENT1_OUT, MOMENT2_OUT, PARAM_OUT, RATE};
    if grad.is_none() {
        return Ok(());
    }
    let (rate, a) = (scalar(cx, RATE)?, cx.attrs::<LambAttrs>());
    // A power is in its output's place where that is the same variable.
    let op = cx.op;
    let mut power = |from: InSlot, to: OutSlot| match cx.each_out([to]) {
        [Some(t)] => scalar_of(op, from, t),
        [None] => scalar(cx, from),
    };
    let powers = (power(BETA1_POW, BETA1_POW_OUT)?, power(BETA2_POW, BETA2_POW_OUT)?);
    let moved: Result<()> = apply!(cx, grad, [PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT], lazy: false, |T| {
        rules::Moments { beta1: a.beta1 as T, beta2: a.beta2 as T }
    });
    moved?;
    let [param, first, second] = outs(cx, [PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT])?;
    by_types!(cx, param.dtype(), false, |T, M, G| {
        let (param, first, second) = (param.data_mut::<M>()?, first.data_mut::<M>()?, second.data_mut::<M>()?);
        let rule = rules::Lamb::<T> {
            rate: rate as T,
            left1: 1.0 - powers.0 as T,
            left2: 1.0 - powers.1 as T,
            epsilon: a.epsilon as T,
            decay: a.weight_decay as T,
        };
        let (own, step) = (rules::norm::<T, M>(param), rule.norm::<M>(param, first, second));
        let trust = if own > 0.0 && step > 0.0 { own / step } else { 1.0 };
        let rule = rules::Lamb { rate: (rate * trust) as T, ..rule };
        kernel::idle::<T, M, _>(rule, param, &mut [first, second]);
    });
    for (slot, beta) in [(BETA1_POW_OUT, a.beta1), (BETA2_POW_OUT, a.beta2)] {
        if cx.n_outs(slot) > 0 {
            next_power(cx, slot, beta as f64)?;
        }
    }
    Ok(())
}

pub static LAMB: Op = Op {
    name: "lamb",
    inputs: lamb::INS,
    outputs: lamb::OUTS,
    attrs: LambAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, lamb::PARAM, &[lamb::GRAD, lamb::MOMENT1, lamb::MOMENT2])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let grad = Gradient::dense(cx, lamb::GRAD)?;
        lamb_by(cx, Some(grad))
    }),
    sparse_kernel: SparseKernel::Own(|cx| {
        let grad = Gradient::of_rows(cx, lamb::GRAD)?;
        lamb_by(cx, grad)
    }),
    ..OP
};

// lars_momentum

fn run_lars(cx: &mut KernelContext) -> Result<()> {
    use lars::{GRAD, PARAM_OUT, RATE, VELOCITY_OUT};
    let (grad, mut rate, a) = (Gradient::dense(cx, GRAD)?, scalar(cx, RATE)?, cx.attrs::<LarsAttrs>());
    let (decay, epsilon) = (a.lars_weight_decay as f64, a.epsilon as f64);
    let param = cx.out(PARAM_OUT)?;
    let (own, slope) = by_types!(cx, param.dtype(), false, |T, M, G| {
        (rules::norm::<T, M>(param.data::<M>()), rules::norm::<T, G>(grad.data::<G>(cx.op.name)?))
    });
    if decay > 0.0 && own > 0.0 && slope > 0.0 {
        rate = rate * a.lars_coeff as f64 * own / (slope + decay * own + epsilon);
    }
    apply!(cx, Some(grad), [PARAM_OUT, VELOCITY_OUT], lazy: false, |T| {
        rules::Lars { rate: rate as T, mu: a.mu as T, decay: a.lars_weight_decay as T }
    })
}

pub static LARS: Op = Op {
    name: "lars_momentum",
    inputs: lars::INS,
    outputs: lars::OUTS,
    attrs: LarsAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, lars::PARAM, &[lars::GRAD, lars::VELOCITY])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_lars),
    ..OP
};

pub static TABLE: &[&Op] = &[&LAMB, &LARS];
