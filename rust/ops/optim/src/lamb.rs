//! lamb: Adam with a layer-wise trust ratio.

use super::update::{apply, by_types, infer_aliases, like_param, next_power, outs, Gradient};
use oar_core::attrs;
use oar_core::base::release;
use oar_core::base::{DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, SparseKernel, OP};
use oar_core::slots;
use oar_kernels::{optimizer as kernel, optimizer::rules};
use oar_ops_common::tensor_attr::{scalar, scalar_of};

attrs! {
    pub struct LambAttrs { weight_decay: f32, beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-6 }
}

slots! {
    mod lamb {
        PARAM "Param", GRAD "Grad", RATE "LearningRate", MOMENT1 "Moment1", MOMENT2 "Moment2", BETA1_POW "Beta1Pow",
        BETA2_POW "Beta2Pow"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT1_OUT "Moment1Out".aliases("Moment1"),
        MOMENT2_OUT "Moment2Out".aliases("Moment2"), BETA1_POW_OUT "Beta1PowOut".dispensable().aliases("Beta1Pow"),
        BETA2_POW_OUT "Beta2PowOut".dispensable().aliases("Beta2Pow")
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Rows without a gradient are updated with a zero gradient. Without any rows nothing changes, nor do the powers.
fn lamb_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    use lamb::{BETA1_POW, BETA1_POW_OUT, BETA2_POW, BETA2_POW_OUT, MOMENT1_OUT, MOMENT2_OUT, PARAM_OUT, RATE};
    if grad.is_none() {
        return Ok(());
    }
    let (rate, a) = (scalar(cx, RATE)?, cx.attrs::<LambAttrs>());
    // The output holds the power if both are one variable.
    let op = cx.op;
    let mut power = |from: InSlot, to: OutSlot| match cx.each_out([to]) {
        [Some(t)] => scalar_of(op, from, t),
        [None] => scalar(cx, from),
    };
    let mut powers = (power(BETA1_POW, BETA1_POW_OUT)?, power(BETA2_POW, BETA2_POW_OUT)?);
    if release::is_18() {
        powers = (0.0, 0.0); // without bias correction
    }
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

pub static TABLE: &[&Op] = &[&LAMB];
