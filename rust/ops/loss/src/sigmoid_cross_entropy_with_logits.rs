//! sigmoid_cross_entropy_with_logits: binary cross entropy of logits.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::loss::cross_entropy as loss;
use oar_ops_common::axis::like;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct SigmoidEntropyAttrs { normalize: bool = false, ignore_index: i32 = -100 }
}

slots! {
    mod sigmoid_entropy { X "X", LABEL "Label" => OUT "Out" }
    mod sigmoid_entropy_grad { X "X", LABEL "Label", DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

fn infer_sigmoid(cx: &mut ShapeContext) -> Result<()> {
    let (x, label) = (cx.dims(sigmoid_entropy::X)?, cx.dims(sigmoid_entropy::LABEL)?);
    let agrees = |(&a, &b): (&i64, &i64)| a == b || a < 0 || b < 0;
    ensure!(
        x.len() == label.len() && x.iter().zip(&label).all(agrees),
        InvalidArgument,
        "operator {}: X and Label must have the same shape, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &label[..]
    );
    like_first(cx)
}

fn run_sigmoid_entropy(cx: &mut KernelContext) -> Result<()> {
    use sigmoid_entropy::{LABEL, OUT, X};
    let (x, label) = (cx.input(X)?, cx.input(LABEL)?);
    let a = cx.attrs::<SigmoidEntropyAttrs>();
    like(cx, label, x.dims(), x.dtype(), "Label")?;
    let ignore = a.ignore_index as i64;
    dispatch!(x.dtype(), T in [f32, f64], {
        loss::sigmoid_cross_entropy(x.data::<T>(), label.data::<T>(), ignore, a.normalize, cx.out_data::<T>(OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_sigmoid_entropy_grad(cx: &mut KernelContext) -> Result<()> {
    use sigmoid_entropy_grad::{DOUT, DX, LABEL, X};
    let (x, label, dout) = (cx.input(X)?, cx.input(LABEL)?, cx.input(DOUT)?);
    let a = cx.attrs::<SigmoidEntropyAttrs>();
    like(cx, label, x.dims(), x.dtype(), "Label")?;
    like(cx, dout, x.dims(), x.dtype(), "the gradient of Out")?;
    let ignore = a.ignore_index as i64;
    dispatch!(x.dtype(), T in [f32, f64], {
        loss::sigmoid_cross_entropy_grad(
            x.data::<T>(), label.data::<T>(), ignore, a.normalize, dout.data::<T>(), cx.out_data::<T>(DX)?,
        );
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SIGMOID_ENTROPY: Op = Op {
    name: "sigmoid_cross_entropy_with_logits",
    inputs: sigmoid_entropy::INS,
    outputs: sigmoid_entropy::OUTS,
    dtypes: FLOATS,
    cannot_fail: true,
    attrs: SigmoidEntropyAttrs::FIELDS,
    infer: infer_sigmoid,
    cpu: Kernel::Pure(|cx| in_f32(cx, sigmoid_entropy::X, run_sigmoid_entropy)),
    grad: Grad::By(&SIGMOID_ENTROPY_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static SIGMOID_ENTROPY_GRAD: Op = Op {
    name: "sigmoid_cross_entropy_with_logits_grad",
    inputs: sigmoid_entropy_grad::INS,
    outputs: sigmoid_entropy_grad::OUTS,
    dtypes: FLOATS,
    attrs: SigmoidEntropyAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, sigmoid_entropy_grad::X, run_sigmoid_entropy_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SIGMOID_ENTROPY, &SIGMOID_ENTROPY_GRAD];
