//! lars_momentum: momentum with layer-wise adaptive rates.

use super::update::{apply, by_types, infer_aliases, like_param, Gradient};
use oar_core::attrs;
use oar_core::base::release;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::slots;
use oar_kernels::optimizer::rules;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct LarsAttrs { mu: f32, lars_coeff: f32 = 0.001, lars_weight_decay: f32 = 0.0005, epsilon: f32 = 0.0 }
}

slots! {
    mod lars {
        PARAM "Param", GRAD "Grad", VELOCITY "Velocity", RATE "LearningRate"
        => PARAM_OUT "ParamOut".aliases("Param"), VELOCITY_OUT "VelocityOut".aliases("Velocity")
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_lars(cx: &mut KernelContext) -> Result<()> {
    use lars::{GRAD, PARAM_OUT, RATE, VELOCITY_OUT};
    let (grad, mut rate, a) = (Gradient::dense(cx, GRAD)?, scalar(cx, RATE)?, cx.attrs::<LarsAttrs>());
    let (decay, epsilon) = (a.lars_weight_decay as f64, a.epsilon as f64);
    let param = cx.out(PARAM_OUT)?;
    let (own, slope) = by_types!(cx, param.dtype(), false, |T, M, G| {
        (rules::norm::<T, M>(param.data::<M>()), rules::norm::<T, G>(grad.data::<G>(cx.op.name)?))
    });
    // 1.8 scales the rate of parameters without decay, too.
    if (decay > 0.0 || release::is_18()) && own > 0.0 && slope > 0.0 {
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

pub static TABLE: &[&Op] = &[&LARS];
