//! log_loss: negative log likelihood of Bernoulli probabilities.

use super::elements::{each2, each3, like, one_column, same_shapes};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, dispatch, slots};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct LogLossAttrs { epsilon: f32 }
}

slots! {
    mod log_loss { PREDICTED "Predicted", LABELS "Labels" => LOSS "Loss" }
    mod log_loss_grad { PREDICTED "Predicted", LABELS "Labels", DLOSS "Loss@GRAD" => DPREDICTED "Predicted@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn run_log_loss(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(log_loss::PREDICTED)?;
    let label = like(cx, log_loss::LABELS, x)?;
    let epsilon = cx.attrs::<LogLossAttrs>().epsilon;
    dispatch!(x.dtype(), T in [f32, f64], {
        let e = epsilon as T;
        each2(x.data::<T>(), label.data::<T>(), cx.out_data::<T>(log_loss::LOSS)?, |x, y| {
            -(y * (x + e).ln()) - (1.0 - y) * (1.0 - x + e).ln()
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_log_loss_grad(cx: &mut KernelContext) -> Result<()> {
    use log_loss_grad::{DLOSS, DPREDICTED, LABELS, PREDICTED};
    let x = cx.input(PREDICTED)?;
    let (label, dloss) = (like(cx, LABELS, x)?, like(cx, DLOSS, x)?);
    let epsilon = cx.attrs::<LogLossAttrs>().epsilon;
    dispatch!(x.dtype(), T in [f32, f64], {
        let e = epsilon as T;
        let (xs, y, d) = (x.data::<T>(), label.data::<T>(), dloss.data::<T>());
        each3(xs, y, d, cx.out_data::<T>(DPREDICTED)?, |x, y, d| {
            d * (-(y / (x + e)) + (1.0 - y) / (1.0 - x + e))
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static LOG_LOSS: Op = Op {
    name: "log_loss",
    inputs: log_loss::INS,
    outputs: log_loss::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: LogLossAttrs::FIELDS,
    infer: |cx| {
        same_shapes(cx, &[log_loss::PREDICTED, log_loss::LABELS])?;
        one_column(cx, log_loss::PREDICTED)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, log_loss::PREDICTED, run_log_loss)),
    grad: Grad::By(&LOG_LOSS_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static LOG_LOSS_GRAD: Op = Op {
    name: "log_loss_grad",
    inputs: log_loss_grad::INS,
    outputs: log_loss_grad::OUTS,
    dtypes: FLOATS,
    attrs: LogLossAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, log_loss_grad::PREDICTED, run_log_loss_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LOG_LOSS, &LOG_LOSS_GRAD];
