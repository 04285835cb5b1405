//! lstm_unit: one LSTM step from gate sums, in the order input, forget, output, candidate.

use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::rnn::lstm_unit as kernel;
use oar_ops_common::axis::like;

attrs! {
    pub struct LstmUnitAttrs { forget_bias: f32 = 0.0 }
}

slots! {
    /// X [batch, 4 * width], C_prev [batch, width].
    mod lstm_unit { X "X", BEFORE "C_prev" => C "C", H "H" }
    mod lstm_unit_grad {
        X "X", BEFORE "C_prev", C "C", DH "H@GRAD", DC "C@GRAD" => DX "X@GRAD", DBEFORE "C_prev@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, c, dtype) = (cx.dims(lstm_unit::X)?, cx.dims(lstm_unit::BEFORE)?, cx.dtype(lstm_unit::X)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        x.len() == 2
            && c.len() == 2
            && agree(x[0], c[0])
            && (c[1] < 0 || agree(x[1], c[1].saturating_mul(4)))
            && cx.dtype(lstm_unit::BEFORE)? == dtype,
        InvalidArgument,
        "operator {}: X must be [batch, 4 * width] and C_prev [batch, width] of one data type, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &c[..]
    );
    cx.set(lstm_unit::C, &c, dtype);
    cx.set(lstm_unit::H, &c, dtype);
    cx.share_lod(lstm_unit::C, lstm_unit::BEFORE);
    Ok(())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, before) = (cx.input(lstm_unit::X)?, cx.input(lstm_unit::BEFORE)?);
    let n = before.dims()[1] as usize;
    let bias = cx.attrs::<LstmUnitAttrs>().forget_bias;
    if n == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut c, mut h) = (cx.take_out(lstm_unit::C)?, cx.take_out(lstm_unit::H)?);
        let out = (c.data_mut::<T>()?, h.data_mut::<T>()?);
        kernel::forward((x.data::<T>(), before.data::<T>()), bias as T, n, out);
        cx.set(lstm_unit::C, c);
        cx.set(lstm_unit::H, h);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use lstm_unit_grad::{BEFORE, C, DBEFORE, DC, DH, DX, X};
    let (x, before) = (cx.input(X)?, cx.input(BEFORE)?);
    let (c, dh, dc) = (cx.input(C)?, cx.input(DH)?, cx.input(DC)?);
    for t in [c, dh, dc] {
        like(cx, t, before.dims(), x.dtype(), "C, and the gradients of C and H,")?;
    }
    let n = before.dims()[1] as usize;
    let bias = cx.attrs::<LstmUnitAttrs>().forget_bias;
    if n == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut spare = [Vec::new(), Vec::new()];
        let [dx, dbefore] = cx.each_out([DX, DBEFORE]);
        let [spare_x, spare_c] = &mut spare;
        let dx: &mut [T] = match dx {
            Some(t) => t.data_mut::<T>()?,
            None => {
                spare_x.resize(x.numel(), 0.0);
                spare_x
            }
        };
        let dbefore: &mut [T] = match dbefore {
            Some(t) => t.data_mut::<T>()?,
            None => {
                spare_c.resize(before.numel(), 0.0);
                spare_c
            }
        };
        let saved = (x.data::<T>(), before.data::<T>(), c.data::<T>());
        kernel::backward(saved, bias as T, n, (dh.data::<T>(), dc.data::<T>()), (dx, dbefore));
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static LSTM_UNIT: Op = Op {
    name: "lstm_unit",
    inputs: lstm_unit::INS,
    outputs: lstm_unit::OUTS,
    attrs: LstmUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&LSTM_UNIT_GRAD),
    ..OP
};

pub static LSTM_UNIT_GRAD: Op = Op {
    name: "lstm_unit_grad",
    inputs: lstm_unit_grad::INS,
    outputs: lstm_unit_grad::OUTS,
    attrs: LstmUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&LSTM_UNIT, &LSTM_UNIT_GRAD];
