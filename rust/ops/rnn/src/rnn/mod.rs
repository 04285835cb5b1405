//! rnn: layers of simple RNNs, LSTMs or GRUs over padded sequences.

mod cudnn_lstm;
mod network;

use network::{Network, Packed, Params, RequestedGrads, SavedState};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::rnn::recurrent::RecurrentCell;
use oar_ops_common::tensor_attr::ints;

attrs! {
    pub struct RnnAttrs {
        dropout_prob: f32 = 0.0, is_bidirec: bool = false, input_size: i32 = 10, hidden_size: i32 = 100,
        num_layers: i32 = 1, mode: String, is_test: bool = false, seed: i32 = 0,
    }
}

slots! {
    /// Input [steps, batch, width]. PreState is h (and c of an LSTM) [layers * directions, batch, hidden]. WeightList
    /// has the input and state weights of each layer and direction, then their biases. PANELS holds, for each layer and
    /// direction, the transposed input weights and the state weights as `PackedState` blocks, packed when a predictor
    /// loads its model.
    mod rnn {
        INPUT "Input", STATE "PreState".duplicable(), WEIGHTS "WeightList".duplicable(), LENGTHS "SequenceLength".dispensable(),
        PANELS "Panels".dispensable().duplicable().extra()
        => DROPPED "DropoutState".dispensable().kernel_allocated(), RESERVE "Reserve".intermediate().kernel_allocated(), OUT "Out", LAST "State".duplicable()
    }
    mod rnn_grad {
        INPUT "Input", STATE "PreState".duplicable(), WEIGHTS "WeightList".duplicable(), LENGTHS "SequenceLength".dispensable(),
        DROPPED "DropoutState".dispensable(), RESERVE "Reserve", OUT "Out", DOUT "Out@GRAD", DLAST "State@GRAD".dispensable().duplicable()
        => DWEIGHTS "WeightList@GRAD".duplicable(), DINPUT "Input@GRAD", DSTATE "PreState@GRAD".duplicable()
    }
}

/// The attributes, decoded.
struct RnnConfig {
    cell: RecurrentCell,
    layers: usize,
    directions: usize,
    hidden: usize,
}

fn config(op: &str, a: &RnnAttrs) -> Result<RnnConfig> {
    let cell = match a.mode.as_str() {
        "LSTM" => RecurrentCell::Lstm,
        "GRU" => RecurrentCell::Gru,
        "RNN_TANH" => RecurrentCell::Tanh,
        "RNN_RELU" => RecurrentCell::Relu,
        other => {
            bail!(InvalidArgument, "operator {op}: mode must be LSTM, GRU, RNN_TANH or RNN_RELU, got '{other}'")
        }
    };
    ensure!(
        a.num_layers >= 1 && a.hidden_size >= 1,
        InvalidArgument,
        "operator {op}: num_layers and hidden_size must be greater than 0, got {} and {}",
        a.num_layers,
        a.hidden_size
    );
    ensure!(
        (0.0..=1.0).contains(&a.dropout_prob),
        InvalidArgument,
        "operator {op}: dropout_prob must be between 0 and 1, got {}",
        a.dropout_prob
    );
    let directions = if a.is_bidirec { 2 } else { 1 };
    Ok(RnnConfig { cell, layers: a.num_layers as usize, directions, hidden: a.hidden_size as usize })
}

fn check(cx: &ShapeContext, slot: InSlot, i: usize, wanted: &[i64], dtype: DType) -> Result<()> {
    let got = cx.meta(slot, i)?;
    let agrees = |(&a, &b): (&i64, &i64)| a == b || a < 0 || b < 0;
    ensure!(
        got.dims.len() == wanted.len() && got.dims.iter().zip(wanted).all(agrees) && got.dtype == dtype,
        InvalidArgument,
        "operator {}: {}[{i}] must be {dtype} of shape {wanted:?}, got {} of shape {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        got.dtype,
        &got.dims[..]
    );
    Ok(())
}

/// The operator and its gradient have the same slot numbers; both are checked here.
fn check_inputs(cx: &ShapeContext) -> Result<RnnConfig> {
    let (x, dtype) = (cx.dims(rnn::INPUT)?, cx.dtype(rnn::INPUT)?);
    let op = cx.op.name;
    let plan = config(op, cx.attrs::<RnnAttrs>())?;
    if x.len() != 3 {
        return Err(cx.wrong::<()>(rnn::INPUT, "a tensor [steps, batch, width] of three dimensions").unwrap_err());
    }
    if cx.has(rnn::LENGTHS) {
        let n = cx.dims(rnn::LENGTHS)?;
        ensure!(
            n.len() == 1 && (n[0] == x[1] || n[0] < 0 || x[1] < 0),
            InvalidArgument,
            "operator {op}: SequenceLength must have one length for each of {} sequences, got shape {:?}",
            x[1],
            &n[..]
        );
    }
    let parts = plan.layers * plan.directions;
    let states = if plan.cell == RecurrentCell::Lstm { 2 } else { 1 };
    for (slot, n) in [(rnn::STATE, states), (rnn::WEIGHTS, 4usize.saturating_mul(parts))] {
        ensure!(
            cx.count(slot) == n,
            InvalidArgument,
            "operator {op}: {} must have {n} tensors for mode, num_layers and is_bidirec, got {}",
            cx.op.inputs[slot.0].name,
            cx.count(slot)
        );
    }
    let hidden = plan.hidden as i64;
    for i in 0..states {
        check(cx, rnn::STATE, i, &[parts as i64, x[1], hidden], dtype)?;
    }
    let rows = plan.cell.gates() as i64 * hidden;
    for part in 0..parts {
        let input = if part < plan.directions { x[2] } else { plan.directions as i64 * hidden };
        check(cx, rnn::WEIGHTS, 2 * part, &[rows, input], dtype)?;
        check(cx, rnn::WEIGHTS, 2 * part + 1, &[rows, hidden], dtype)?;
        for bias in 2 * parts + 2 * part..2 * parts + 2 * part + 2 {
            check(cx, rnn::WEIGHTS, bias, &[rows], dtype)?;
        }
    }
    Ok(plan)
}

/// Checks the packed weights, which are given for all layers and directions or not at all.
fn check_panels(cx: &ShapeContext, plan: &RnnConfig, input: i64, dtype: DType) -> Result<()> {
    let (op, parts, given) = (cx.op.name, plan.layers * plan.directions, cx.count(rnn::PANELS));
    ensure!(
        given == 0 || given == 2 * parts,
        InvalidArgument,
        "operator {op}: Panels must have {} tensors for num_layers and is_bidirec, or none, got {given}",
        2 * parts
    );
    let (hidden, gates) = (plan.hidden as i64, plan.cell.gates() as i64);
    for part in 0..given / 2 {
        let input = if part < plan.directions { input } else { plan.directions as i64 * hidden };
        check(cx, rnn::PANELS, 2 * part, &[input, gates * hidden], dtype)?;
        let units = cx.meta(rnn::PANELS, 2 * part + 1)?.dims.last().copied().unwrap_or(0).max(1);
        check(cx, rnn::PANELS, 2 * part + 1, &[hidden / units, hidden, gates, units], dtype)?;
    }
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let plan = check_inputs(cx)?;
    let (mut x, dtype) = (cx.dims(rnn::INPUT)?, cx.dtype(rnn::INPUT)?);
    check_panels(cx, &plan, x[2], dtype)?;
    x[2] = (plan.directions * plan.hidden) as i64;
    cx.set(rnn::OUT, &x, dtype);
    cx.set(rnn::DROPPED, &[-1], DType::U8);
    cx.set(rnn::RESERVE, &[-1], dtype);
    let states = cx.count(rnn::STATE);
    cx.set_outs(rnn::LAST, states)?;
    for i in 0..states {
        let state = cx.meta(rnn::STATE, i)?.dims;
        cx.set_nth(rnn::LAST, i, &state, dtype);
    }
    Ok(())
}

/// The network of this call.
fn network(cx: &KernelContext) -> Result<Network> {
    let (x, a, op) = (cx.input(rnn::INPUT)?, cx.attrs::<RnnAttrs>(), cx.op.name);
    let RnnConfig { cell, layers, directions, hidden } = config(op, a)?;
    let [steps, batch, input] = [0, 1, 2].map(|i| x.dims()[i] as usize);
    ensure!(steps > 0, InvalidArgument, "operator {op}: Input must have a step or more, got shape {:?}", x.dims());
    let lengths = match cx.opt(rnn::LENGTHS) {
        None => None,
        Some(t) => {
            let lengths = ints(op, t)?;
            if let Some(n) = lengths.iter().find(|&&n| n < 0 || n > steps as i64) {
                bail!(InvalidArgument, "operator {op}: SequenceLength must be between 0 and {steps}, got {n}");
            }
            // Without shorter sequences no lengths are needed.
            let all = lengths.iter().all(|&n| n == steps as i64);
            (!all).then(|| lengths.into_iter().map(|n| n as usize).collect())
        }
    };
    let dropout = if a.is_test { 0.0 } else { a.dropout_prob };
    Ok(Network { cell, layers, directions, steps, batch, input, hidden, lengths, dropout, seed: a.seed })
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let net = network(cx)?;
    let x = cx.input(rnn::INPUT)?;
    let (state, weights) = (cx.inputs(rnn::STATE)?, cx.inputs(rnn::WEIGHTS)?);
    let panels = cx.inputs(rnn::PANELS)?;
    let mut last = state.iter().map(|t| t.deep_copy()).collect::<Result<Vec<_>>>()?;
    let mut reserve = Tensor::empty(x.dtype(), &[net.reserve() as i64])?;
    let mask = if net.drops() { cx.out(rnn::OUT)?.sizes().clone() } else { oar_core::base::Dims::from_slice(&[0]) };
    let mut mask = Tensor::empty(DType::U8, &mask)?;
    let mut out = cx.take_out(rnn::OUT)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let list: Vec<&[T]> = weights.iter().map(|t| t.data::<T>()).collect();
        let packed: Vec<_> = panels.chunks_exact(2).map(|pair| Packed::of(pair[0], pair[1])).collect();
        let (h, c) = last.split_at_mut(1);
        let c = c.first_mut().map(|c| c.data_mut::<T>()).transpose()?.unwrap_or(&mut []);
        net.forward(
            x.data::<T>(), (&list, &packed), (h[0].data_mut::<T>()?, c), reserve.data_mut::<T>()?, mask.data_mut::<u8>()?,
            out.data_mut::<T>()?,
        )?;
    }, other => return cx.unsupported(other));
    cx.set(rnn::OUT, out);
    for (i, t) in last.into_iter().enumerate() {
        cx.set_nth(rnn::LAST, i, t);
    }
    cx.set(rnn::DROPPED, mask);
    if cx.wants(rnn::RESERVE) {
        cx.set(rnn::RESERVE, reserve);
    }
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    check_inputs(cx)?;
    for (out, of) in [
        (rnn_grad::DWEIGHTS, rnn_grad::WEIGHTS),
        (rnn_grad::DINPUT, rnn_grad::INPUT),
        (rnn_grad::DSTATE, rnn_grad::STATE),
    ] {
        if cx.free_outs && cx.op.outputs[out.0].has(oar_core::op::SlotFlag::Duplicable) {
            cx.set_outs(out, cx.count(of))?;
        }
        for i in 0..cx.outs(out) {
            let meta = cx.meta(of, i)?;
            cx.set_nth(out, i, &meta.dims, meta.dtype);
        }
    }
    Ok(())
}

/// The gradients of the last states; zeros if absent.
fn last_grads(cx: &KernelContext, like: &[&Tensor]) -> Result<Vec<Tensor>> {
    let last_grads_in = cx.values(rnn_grad::DLAST);
    like.iter()
        .enumerate()
        .map(|(i, state)| match last_grads_in.get(i) {
            None | Some(Value::None) => Tensor::zeros(state.dtype(), state.dims()),
            Some(value) => {
                let t = value.dense()?;
                oar_ops_common::axis::like(cx, t, state.dims(), state.dtype(), "the gradient of State")?;
                t.deep_copy()
            }
        })
        .collect()
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use rnn_grad::{DINPUT, DOUT, DROPPED, DSTATE, DWEIGHTS, INPUT, OUT, RESERVE, STATE, WEIGHTS};
    let net = network(cx)?;
    let (x, out, dout, reserve) = (cx.input(INPUT)?, cx.input(OUT)?, cx.input(DOUT)?, cx.input(RESERVE)?);
    let (state, weights) = (cx.inputs(STATE)?, cx.inputs(WEIGHTS)?);
    let dims = [net.steps as i64, net.batch as i64, (net.directions * net.hidden) as i64];
    for (t, dims, what) in
        [(out, &dims[..], "Out"), (dout, &dims, "the gradient of Out"), (reserve, &[net.reserve() as i64], "Reserve")]
    {
        oar_ops_common::axis::like(cx, t, dims, x.dtype(), what)?;
    }
    let mask = cx.opt(DROPPED).filter(|_| net.drops());
    ensure!(
        !net.drops() || mask.is_some_and(|m| m.dtype() == DType::U8 && m.dims() == dims),
        InvalidArgument,
        "operator {}: DropoutState must be uint8 of the shape {dims:?} of Out",
        cx.op.name
    );
    let mut dlast = last_grads(cx, &state)?;
    let n = cx.n_outs(DWEIGHTS);
    let mut dweights = Vec::with_capacity(weights.len());
    for (i, w) in weights.iter().enumerate() {
        let wanted = i < n && cx.wants_nth(DWEIGHTS, i);
        dweights.push(wanted.then(|| Tensor::empty(w.dtype(), w.dims())).transpose()?);
    }
    let mut dx = if cx.wants(DINPUT) { Some(cx.take_out(DINPUT)?) } else { None };
    dispatch!(x.dtype(), T in [f32, f64], {
        let (h, c) = dlast.split_at_mut(1);
        let dc = c.first_mut().map(|c| c.data_mut::<T>()).transpose()?.unwrap_or(&mut []);
        let params = Params {
            list: weights.iter().map(|t| t.data::<T>()).collect(),
            h: state[0].data::<T>(),
            c: state.get(1).map_or(&[], |c| c.data::<T>()),
        };
        let saved = SavedState {
            reserve: reserve.data::<T>(), mask: mask.map_or(&[], |m| m.data::<u8>()), out: out.data::<T>(),
        };
        let wanted = RequestedGrads {
            list: dweights
                .iter_mut()
                .map(|t| t.as_mut().map(|t| t.data_mut::<T>()).transpose())
                .collect::<Result<_>>()?,
            x: dx.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
        };
        net.backward(x.data::<T>(), &params, &saved, dout.data::<T>(), (h[0].data_mut::<T>()?, dc), wanted)?;
    }, other => return cx.unsupported(other));
    for (i, t) in dweights.into_iter().enumerate() {
        if let Some(t) = t {
            cx.set_nth(DWEIGHTS, i, t);
        }
    }
    if let Some(dx) = dx {
        cx.set(DINPUT, dx);
    }
    for (i, t) in dlast.into_iter().enumerate() {
        if cx.wants_nth(DSTATE, i) {
            cx.set_nth(DSTATE, i, t);
        }
    }
    Ok(())
}

pub static RNN: Op = Op {
    name: "rnn",
    inputs: rnn::INS,
    outputs: rnn::OUTS,
    attrs: RnnAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    // Dropout between layers draws random numbers.
    cpu: Kernel::Random(forward),
    grad: Grad::By(&RNN_GRAD),
    ..OP
};

pub static RNN_GRAD: Op = Op {
    name: "rnn_grad",
    inputs: rnn_grad::INS,
    outputs: rnn_grad::OUTS,
    attrs: RnnAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&RNN, &RNN_GRAD, &cudnn_lstm::CUDNN_LSTM, &cudnn_lstm::CUDNN_LSTM_GRAD];
