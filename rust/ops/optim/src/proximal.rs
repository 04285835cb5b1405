//! Proximal optimizers (L1 and L2 regularization within the step): ftrl, proximal_gd, proximal_adagrad. The outputs
//! alias their inputs.

use super::update::{apply, infer_aliases, like_param, Gradient};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::slots;
use oar_kernels::optimizer::rules;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct FtrlAttrs { l1: f32 = 0.0, l2: f32 = 0.0, lr_power: f32 = -0.5 }
    pub struct ProximalAttrs { l1: f32 = 0.0, l2: f32 = 0.0 }
}

slots! {
    mod ftrl {
        PARAM "Param", SQUARED "SquaredAccumulator", LINEAR "LinearAccumulator", GRAD "Grad", RATE "LearningRate"
        => PARAM_OUT "ParamOut".aliases("Param"), SQUARED_OUT "SquaredAccumOut".aliases("SquaredAccumulator"),
        LINEAR_OUT "LinearAccumOut".aliases("LinearAccumulator")
    }
    mod proximal_gd {
        PARAM "Param", GRAD "Grad", RATE "LearningRate" => PARAM_OUT "ParamOut".aliases("Param")
    }
    mod proximal_adagrad {
        PARAM "Param", MOMENT "Moment", GRAD "Grad", RATE "LearningRate"
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT_OUT "MomentOut".aliases("Moment")
    }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Added to ftrl's L1 and L2, as in Paddle.
const LITTLE: f64 = 1e-10;

// ftrl

/// Rows without a gradient are unchanged.
fn ftrl_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    let (rate, a) = (scalar(cx, ftrl::RATE)?, cx.attrs::<FtrlAttrs>());
    apply!(cx, grad, [ftrl::PARAM_OUT, ftrl::SQUARED_OUT, ftrl::LINEAR_OUT], lazy: true, |T| {
        rules::Ftrl {
            rate: rate as T,
            l1: a.l1 as T + LITTLE as T,
            l2: a.l2 as T + LITTLE as T,
            power: a.lr_power as T,
            square_root: a.lr_power == -0.5,
        }
    })
}

pub static FTRL: Op = Op {
    name: "ftrl",
    inputs: ftrl::INS,
    outputs: ftrl::OUTS,
    attrs: FtrlAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, ftrl::PARAM, &[ftrl::GRAD, ftrl::SQUARED, ftrl::LINEAR])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let grad = Gradient::dense(cx, ftrl::GRAD)?;
        ftrl_by(cx, Some(grad))
    }),
    sparse_kernel: SparseKernel::Own(|cx| {
        let grad = Gradient::of_rows(cx, ftrl::GRAD)?;
        ftrl_by(cx, grad)
    }),
    ..OP
};

// proximal_gd, proximal_adagrad

fn run_proximal_gd(cx: &mut KernelContext) -> Result<()> {
    let grad = Some(Gradient::dense(cx, proximal_gd::GRAD)?);
    let (rate, a) = (scalar(cx, proximal_gd::RATE)?, cx.attrs::<ProximalAttrs>());
    apply!(cx, grad, [proximal_gd::PARAM_OUT], lazy: false, |T| {
        rules::ProximalGd { rate: rate as T, l1: a.l1 as T, l2: a.l2 as T }
    })
}

pub static PROXIMAL_GD: Op = Op {
    name: "proximal_gd",
    inputs: proximal_gd::INS,
    outputs: proximal_gd::OUTS,
    attrs: ProximalAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, proximal_gd::PARAM, &[proximal_gd::GRAD])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_proximal_gd),
    ..OP
};

fn run_proximal_adagrad(cx: &mut KernelContext) -> Result<()> {
    use proximal_adagrad::{GRAD, MOMENT_OUT, PARAM_OUT, RATE};
    let grad = Some(Gradient::dense(cx, GRAD)?);
    let (rate, a) = (scalar(cx, RATE)?, cx.attrs::<ProximalAttrs>());
    apply!(cx, grad, [PARAM_OUT, MOMENT_OUT], lazy: false, |T| {
        rules::ProximalAdagrad { rate: rate as T, l1: a.l1 as T, l2: a.l2 as T }
    })
}

pub static PROXIMAL_ADAGRAD: Op = Op {
    name: "proximal_adagrad",
    inputs: proximal_adagrad::INS,
    outputs: proximal_adagrad::OUTS,
    attrs: ProximalAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| {
        like_param(cx, proximal_adagrad::PARAM, &[proximal_adagrad::GRAD, proximal_adagrad::MOMENT])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(run_proximal_adagrad),
    ..OP
};

pub static TABLE: &[&Op] = &[&FTRL, &PROXIMAL_GD, &PROXIMAL_ADAGRAD];
