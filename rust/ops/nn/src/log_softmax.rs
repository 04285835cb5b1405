//! log_softmax: the logarithm of softmax along an axis.

use oar_core::base::DTypes;
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Amp, Grad, Kernel, Op, OP};
use oar_core::{attrs, dispatch, slots};
use oar_kernels::softmax as kernel;
use oar_ops_common::axis::{like, split};
use oar_ops_common::half::in_f32;

attrs! {
    pub struct LogSoftmaxAttrs { axis: i32 = -1 }
}

slots! {
    mod forward { X "X" => OUT "Out" }
    mod backward { OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const REALS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static LOG_SOFTMAX: Op = Op {
    name: "log_softmax",
    inputs: forward::INS,
    outputs: forward::OUTS,
    attrs: LogSoftmaxAttrs::FIELDS,
    dtypes: REALS,
    infer: |cx| {
        let rank = cx.dims(forward::X)?.len();
        oar_core::base::shape::axis(cx.op.name, cx.attrs::<LogSoftmaxAttrs>().axis as i64, rank)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, forward::X, |cx| {
            let x = cx.input(forward::X)?;
            let dims = split(cx.op.name, x.dims(), cx.attrs::<LogSoftmaxAttrs>().axis)?;
            dispatch!(x.dtype(), T in [f32, f64], {
                kernel::log_softmax(dims, x.data::<T>(), cx.out_data::<T>(forward::OUT)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    grad: Grad::By(&LOG_SOFTMAX_GRAD),
    amp: Amp::Black,
    cannot_fail: true,
    ..OP
};

pub static LOG_SOFTMAX_GRAD: Op = Op {
    name: "log_softmax_grad",
    inputs: backward::INS,
    outputs: backward::OUTS,
    attrs: LogSoftmaxAttrs::FIELDS,
    dtypes: REALS,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| {
        in_f32(cx, backward::OUT, |cx| {
            let (y, dy) = (cx.input(backward::OUT)?, cx.input(backward::DOUT)?);
            like(cx, dy, y.dims(), y.dtype(), "the gradient of Out")?;
            let dims = split(cx.op.name, y.dims(), cx.attrs::<LogSoftmaxAttrs>().axis)?;
            dispatch!(y.dtype(), T in [f32, f64], {
                kernel::log_softmax_grad(dims, y.data::<T>(), dy.data::<T>(), cx.out_data::<T>(backward::DX)?);
            }, other => return cx.unsupported(other));
            Ok(())
        })
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&LOG_SOFTMAX, &LOG_SOFTMAX_GRAD];
