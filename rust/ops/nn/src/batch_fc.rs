//! batch_fc: a product with a bias for each slot of a batch. Paddle has it for CUDA only.

use super::operands::{agree, of_type};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::batch_fc::BatchFc;

slots! {
    mod fc { INPUT "Input", W "W", BIAS "Bias" => OUT "Out" }
    mod fc_grad {
        INPUT "Input", W "W", BIAS "Bias".meta_only(), DOUT "Out@GRAD"
        => DINPUT "Input@GRAD", DW "W@GRAD", DBIAS "Bias@GRAD"
    }
}

fn infer_fc(cx: &mut ShapeContext) -> Result<()> {
    let (x, w, b) = (cx.dims(fc::INPUT)?, cx.dims(fc::W)?, cx.dims(fc::BIAS)?);
    let fits = x.len() == 3 && w.len() == 3 && agree(x[0], w[0]) && agree(x[2], w[1]);
    ensure!(
        fits && b.len() == 2 && agree(b[0], x[0]) && agree(b[1], w[2]),
        InvalidArgument,
        "operator {}: Input, W and Bias must have shapes [slots, rows, in], [slots, in, out] and [slots, out], got {:?}, \
         {:?} and {:?}",
        cx.op.name,
        &x[..],
        &w[..],
        &b[..]
    );
    let dtype = cx.dtype(fc::INPUT)?;
    cx.set(fc::OUT, &[x[0], x[1], w[2]], dtype);
    cx.share_lod(fc::OUT, fc::INPUT);
    Ok(())
}

fn fc_sizes(x: &Tensor, w: &Tensor) -> BatchFc {
    let (x, w) = (x.dims(), w.dims());
    BatchFc { slots: x[0] as usize, rows: x[1] as usize, inputs: x[2] as usize, outputs: w[2] as usize }
}

fn run_fc(cx: &mut KernelContext) -> Result<()> {
    let (x, w, bias) = (cx.input(fc::INPUT)?, cx.input(fc::W)?, cx.input(fc::BIAS)?);
    of_type(cx, x.dtype(), &[fc::W, fc::BIAS])?;
    let s = fc_sizes(x, w);
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(fc::OUT)?;
        s.forward(x.data::<T>(), w.data::<T>(), bias.data::<T>(), out);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_fc_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, w, dout) = (cx.input(fc_grad::INPUT)?, cx.input(fc_grad::W)?, cx.input(fc_grad::DOUT)?);
    of_type(cx, x.dtype(), &[fc_grad::W, fc_grad::BIAS, fc_grad::DOUT])?;
    let s = fc_sizes(x, w);
    ensure!(
        dout.numel() == s.slots * s.rows * s.outputs,
        InvalidArgument,
        "operator batch_fc_grad: the gradient of Out must have shape [{}, {}, {}], got {dout:?}",
        s.slots,
        s.rows,
        s.outputs
    );
    let [dx, dw, dbias] = cx.each_out([fc_grad::DINPUT, fc_grad::DW, fc_grad::DBIAS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, w, dout) = (x.data::<T>(), w.data::<T>(), dout.data::<T>());
        if let Some(dx) = dx {
            s.x_grad(dout, w, dx.data_mut::<T>()?);
        }
        if let Some(dw) = dw {
            s.w_grad(x, dout, dw.data_mut::<T>()?);
        }
        if let Some(dbias) = dbias {
            s.bias_grad(dout, dbias.data_mut::<T>()?);
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static BATCH_FC: Op = Op {
    name: "batch_fc",
    inputs: fc::INS,
    outputs: fc::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_fc,
    cpu: Kernel::Pure(run_fc),
    grad: Grad::By(&BATCH_FC_GRAD),
    ..OP
};

pub static BATCH_FC_GRAD: Op = Op {
    name: "batch_fc_grad",
    inputs: fc_grad::INS,
    outputs: fc_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_fc_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&BATCH_FC, &BATCH_FC_GRAD];
