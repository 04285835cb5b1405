//! attention_lstm: an LSTM that attends to the whole sequence at every step, with weights computed from its cell.
//! Inference only. Gate order: forget, input, output, candidate.

use super::lod::{activation, check, offsets};
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::rnn::attention_lstm::AttentionLstm;

attrs! {
    pub struct AttentionLstmAttrs {
        gate_activation: Text = "sigmoid".into(), cell_activation: Text = "tanh".into(),
        candidate_activation: Text = "tanh".into(),
    }
}

slots! {
    /// X [rows, inputs] with LoD; AttentionWeight [inputs + width, 1], LSTMWeight [width + inputs, 4 * width].
    mod attention {
        X "X", C0 "C0", H0 "H0".dispensable(), WEIGHT "AttentionWeight", BIAS "AttentionBias".dispensable(),
        SCALAR "AttentionScalar".dispensable(), SCALAR_BIAS "AttentionScalarBias".dispensable(), LSTM "LSTMWeight",
        LSTM_BIAS "LSTMBias"
        => HIDDEN "Hidden", CELL "Cell", ATTENDED "AttentionedX".intermediate().not_returned().kernel_allocated(),
        FC "AttentionFCOut".intermediate().not_returned().kernel_allocated(), LSTM_X "LSTMX".intermediate().not_returned().kernel_allocated(),
        LSTM_OUT "LSTMOUT".intermediate().not_returned().kernel_allocated()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    use attention::*;
    let (x, dtype, op) = (cx.dims(X)?, cx.dtype(X)?, cx.op.name);
    let a = cx.attrs::<AttentionLstmAttrs>();
    activation(op, "gate_activation", &a.gate_activation)?;
    activation(op, "cell_activation", &a.cell_activation)?;
    activation(op, "candidate_activation", &a.candidate_activation)?;
    if x.len() != 2 {
        return cx.wrong(X, "a matrix [rows, inputs] with LoD");
    }
    let four = cx.dims(LSTM)?.get(1).copied().unwrap_or(-1);
    ensure!(
        four < 0 || four > 0 && four % 4 == 0,
        InvalidArgument,
        "operator {op}: the width of LSTMWeight must be four times that of the cell, got {four}"
    );
    let n = if four < 0 { -1 } else { four / 4 };
    let both = if n < 0 || x[1] < 0 { -1 } else { n + x[1] };
    check(cx, LSTM, &[both, four], dtype)?;
    check(cx, LSTM_BIAS, &[1, four], dtype)?;
    check(cx, WEIGHT, &[both, 1], dtype)?;
    check(cx, C0, &[-1, n], dtype)?;
    if cx.has(H0) {
        check(cx, H0, &[-1, n], dtype)?;
    }
    for slot in [BIAS, SCALAR, SCALAR_BIAS] {
        if cx.has(slot) {
            check(cx, slot, &[1, 1], dtype)?;
        }
    }
    cx.set_each(&[HIDDEN, CELL], &[x[0], n], dtype);
    [HIDDEN, CELL].into_iter().for_each(|out| cx.share_lod(out, X));
    cx.set_each(&[ATTENDED, FC, LSTM_X, LSTM_OUT], &[-1], dtype);
    Ok(())
}

fn kernel(cx: &mut KernelContext) -> Result<()> {
    use attention::*;
    let (x, c0, h0, op) = (cx.input(X)?, cx.input(C0)?, cx.opt(H0), cx.op.name);
    let (weight, lstm, lstm_bias) = (cx.input(WEIGHT)?, cx.input(LSTM)?, cx.input(LSTM_BIAS)?);
    let (bias, scalar, scalar_bias) = (cx.opt(BIAS), cx.opt(SCALAR), cx.opt(SCALAR_BIAS));
    let a = cx.attrs::<AttentionLstmAttrs>();
    let gate = activation(op, "gate_activation", &a.gate_activation)?;
    let cell_act = activation(op, "cell_activation", &a.cell_activation)?;
    let candidate = activation(op, "candidate_activation", &a.candidate_activation)?;
    let at = offsets(op, "X", x)?;
    let (inputs, n, count) = (x.dims()[1] as usize, lstm.dims()[1] as usize / 4, at.len() - 1);
    for t in [Some(c0), h0].into_iter().flatten() {
        ensure!(
            t.dims()[0] == count as i64,
            InvalidArgument,
            "operator {op}: C0 and H0 must have a row for each of {count} sequences, got {t:?}"
        );
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut hidden, mut cell) = (cx.take_out(HIDDEN)?, cx.take_out(CELL)?);
        let (hs, cs) = (hidden.data_mut::<T>()?, cell.data_mut::<T>()?);
        let one = |t: Option<&Tensor>| t.map(|t| t.data::<T>()[0]);
        let net = AttentionLstm {
            inputs,
            attention: weight.data::<T>(),
            bias: one(bias),
            scale: one(scalar),
            scale_bias: one(scalar_bias),
            weight: lstm.data::<T>(),
            gate_bias: lstm_bias.data::<T>(),
            gate,
            cell: cell_act,
            candidate,
        };
        net.forward(&at, x.data::<T>(), (h0.map(|h| h.data::<T>()), c0.data::<T>()), n, (hs, cs));
        cx.set(HIDDEN, hidden);
        cx.set(CELL, cell);
    }, other => return cx.unsupported(other));
    let empty = Tensor::empty(x.dtype(), &[0])?;
    cx.set_wanted([ATTENDED, FC, LSTM_X, LSTM_OUT].map(|slot| (slot, empty.clone())));
    Ok(())
}

pub static ATTENTION_LSTM: Op = Op {
    name: "attention_lstm",
    inputs: attention::INS,
    outputs: attention::OUTS,
    attrs: AttentionLstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(kernel),
    ..OP
};

pub static TABLE: &[&Op] = &[&ATTENTION_LSTM];
