//! cudnn_lstm: the LSTM of rnn with weights in a list or concatenated in one tensor. Paddle has it on GPUs only,
//! without gradient for the single tensor; here both have one.

use super::network::{Network, Params, RequestedGrads, SavedState};
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::rnn::recurrent::RecurrentCell;
use oar_ops_common::axis::like;
use oar_ops_common::tensor_attr::ints;

attrs! {
    pub struct CudnnLstmAttrs {
        dropout_prob: f32 = 0.0, is_bidirec: bool = false, input_size: i32 = 10, hidden_size: i32 = 100,
        num_layers: i32 = 1, is_test: bool = false, seed: i32 = 0,
    }
}

slots! {
    /// As rnn; W holds the concatenated WeightList. StateOut holds the dropout mask.
    mod cudnn {
        INPUT "Input", H0 "InitH", C0 "InitC", W "W".dispensable(), LIST "WeightList".dispensable().duplicable(),
        LENGTHS "SequenceLength".dispensable()
        => RESERVE "Reserve".intermediate().kernel_allocated(), MASK "StateOut".kernel_allocated(), OUT "Out", H "LastH", C "LastC"
    }
    mod cudnn_grad {
        INPUT "Input", H0 "InitH", C0 "InitC", W "W".dispensable().extra(), LIST "WeightList".dispensable().duplicable(),
        LENGTHS "SequenceLength".dispensable(), RESERVE "Reserve", MASK "StateOut", OUT "Out", DOUT "Out@GRAD",
        DC "LastC@GRAD", DH "LastH@GRAD"
        => DLIST "WeightList@GRAD".duplicable(), DW "W@GRAD".extra(), DINPUT "Input@GRAD", DH0 "InitH@GRAD", DC0 "InitC@GRAD"
    }
}

/// Layers, directions, hidden size.
fn sizes(op: &str, a: &CudnnLstmAttrs) -> Result<(usize, usize, usize)> {
    ensure!(
        a.num_layers >= 1 && a.hidden_size >= 1 && (0.0..=1.0).contains(&a.dropout_prob),
        InvalidArgument,
        "operator {op}: num_layers and hidden_size must be greater than 0, dropout_prob between 0 and 1, got {}, {} and {}",
        a.num_layers,
        a.hidden_size,
        a.dropout_prob
    );
    Ok((a.num_layers as usize, if a.is_bidirec { 2 } else { 1 }, a.hidden_size as usize))
}

/// The weight shapes in list order.
fn shapes(layers: usize, directions: usize, hidden: usize, input: i64) -> Vec<Dims> {
    let (n, rows) = (hidden as i64, 4 * hidden as i64);
    let mut all = Vec::new();
    for layer in 0..layers {
        let width = if layer == 0 { input } else { directions as i64 * n };
        for _ in 0..directions {
            all.push(Dims::from_slice(&[rows, width]));
            all.push(Dims::from_slice(&[rows, n]));
        }
    }
    all.extend((0..2 * layers * directions).map(|_| Dims::from_slice(&[rows])));
    all
}

fn agrees(got: &[i64], wanted: &[i64]) -> bool {
    got.len() == wanted.len() && got.iter().zip(wanted).all(|(&a, &b)| a == b || a < 0 || b < 0)
}

/// Slots up to SequenceLength have the same numbers in both operators.
fn check_inputs(cx: &ShapeContext) -> Result<(usize, usize, usize)> {
    let (x, dtype, op) = (cx.dims(cudnn::INPUT)?, cx.dtype(cudnn::INPUT)?, cx.op.name);
    let (layers, directions, hidden) = sizes(op, cx.attrs::<CudnnLstmAttrs>())?;
    if x.len() != 3 {
        return Err(cx.wrong::<()>(cudnn::INPUT, "a tensor [steps, batch, width] of three dimensions").unwrap_err());
    }
    let state = [(layers * directions) as i64, x[1], hidden as i64];
    let check = |slot: InSlot, i: usize, wanted: &[i64]| {
        let got = cx.meta(slot, i)?;
        ensure!(
            agrees(&got.dims, wanted) && got.dtype == dtype,
            InvalidArgument,
            "operator {op}: {}[{i}] must be {dtype} of shape {wanted:?}, got {} of shape {:?}",
            cx.op.inputs[slot.0].name,
            got.dtype,
            &got.dims[..]
        );
        Ok(())
    };
    check(cudnn::H0, 0, &state)?;
    check(cudnn::C0, 0, &state)?;
    // num_layers may be any number: check the length of the list first.
    let parts = 4usize.saturating_mul(layers * directions);
    if cx.has(cudnn::LIST) {
        ensure!(
            cx.count(cudnn::LIST) == parts,
            InvalidArgument,
            "operator {op}: WeightList must have {parts} tensors for num_layers and is_bidirec, got {}",
            cx.count(cudnn::LIST)
        );
        for (i, dims) in shapes(layers, directions, hidden, x[2]).iter().enumerate() {
            check(cudnn::LIST, i, dims)?;
        }
    } else {
        let n = hidden as i128;
        let rest = (layers as i128 - 1) * directions as i128 * n * directions as i128;
        let width = i128::from(x[2]) * directions as i128 + rest;
        let total = 4 * n * (width + (layers * directions) as i128 * (n + 2));
        let w = cx.dims(cudnn::W)?;
        ensure!(
            w.len() == 1 && (w[0] < 0 || x[2] < 0 || i128::from(w[0]) == total) && cx.dtype(cudnn::W)? == dtype,
            InvalidArgument,
            "operator {op}: W must be {dtype} of shape [{total}] for the sizes given, got shape {:?}",
            &w[..]
        );
    }
    if cx.has(cudnn::LENGTHS) {
        let n = cx.dims(cudnn::LENGTHS)?;
        ensure!(
            agrees(&n, &[x[1]]),
            InvalidArgument,
            "operator {op}: SequenceLength must have one length for each of {} sequences, got shape {:?}",
            x[1],
            &n[..]
        );
    }
    Ok((layers, directions, hidden))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (_, directions, hidden) = check_inputs(cx)?;
    let (mut x, dtype) = (cx.dims(cudnn::INPUT)?, cx.dtype(cudnn::INPUT)?);
    x[2] = (directions * hidden) as i64;
    cx.set(cudnn::OUT, &x, dtype);
    cx.set(cudnn::RESERVE, &[-1], dtype);
    cx.set(cudnn::MASK, &[-1], DType::U8);
    cx.like(cudnn::H, cudnn::H0)?;
    cx.like(cudnn::C, cudnn::C0)
}

fn network(cx: &KernelContext) -> Result<Network> {
    let (x, a, op) = (cx.input(cudnn::INPUT)?, cx.attrs::<CudnnLstmAttrs>(), cx.op.name);
    let (layers, directions, hidden) = sizes(op, a)?;
    let [steps, batch, input] = [0, 1, 2].map(|i| x.dims()[i] as usize);
    ensure!(steps > 0, InvalidArgument, "operator {op}: Input must have a step or more, got shape {:?}", x.dims());
    let lengths = match cx.opt(cudnn::LENGTHS) {
        None => None,
        Some(t) => {
            let lengths = ints(op, t)?;
            if let Some(n) = lengths.iter().find(|&&n| n < 0 || n > steps as i64) {
                bail!(InvalidArgument, "operator {op}: SequenceLength must be between 0 and {steps}, got {n}");
            }
            Some(lengths.into_iter().map(|n| n as usize).collect())
        }
    };
    let dropout = if a.is_test { 0.0 } else { a.dropout_prob };
    let seed = a.seed.max(0);
    Ok(Network { cell: RecurrentCell::Lstm, layers, directions, steps, batch, input, hidden, lengths, dropout, seed })
}

/// The weights in list order, from WeightList or W.
fn weights<'a, T: Element>(cx: &KernelContext<'a>, net: &Network) -> Result<Vec<&'a [T]>> {
    if cx.has(cudnn::LIST) {
        return Ok(cx.inputs(cudnn::LIST)?.into_iter().map(|t| t.data::<T>()).collect());
    }
    let mut rest = cx.input(cudnn::W)?.data::<T>();
    let take = |dims: Dims| {
        let (own, behind) = rest.split_at(dims.iter().product::<i64>() as usize);
        rest = behind;
        own
    };
    Ok(shapes(net.layers, net.directions, net.hidden, net.input as i64).into_iter().map(take).collect())
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (net, x) = (network(cx)?, cx.input(cudnn::INPUT)?);
    let (mut h, mut c) = (cx.input(cudnn::H0)?.deep_copy()?, cx.input(cudnn::C0)?.deep_copy()?);
    let mut reserve = Tensor::empty(x.dtype(), &[net.reserve() as i64])?;
    let mut out = cx.take_out(cudnn::OUT)?;
    let mut mask = Tensor::empty(DType::U8, if net.drops() { out.dims() } else { &[0] })?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let list = weights::<T>(cx, &net)?;
        let states = (h.data_mut::<T>()?, c.data_mut::<T>()?);
        let (reserve, mask) = (reserve.data_mut::<T>()?, mask.data_mut::<u8>()?);
        net.forward(x.data::<T>(), (&list, &[]), states, reserve, mask, out.data_mut::<T>()?)?;
    }, other => return cx.unsupported(other));
    cx.set_wanted([(cudnn::OUT, out), (cudnn::H, h), (cudnn::C, c), (cudnn::MASK, mask), (cudnn::RESERVE, reserve)]);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    check_inputs(cx)?;
    let count = cx.count(cudnn_grad::LIST);
    if cx.free_outs {
        cx.set_outs(cudnn_grad::DLIST, count)?;
    }
    for i in 0..cx.outs(cudnn_grad::DLIST).min(count) {
        let meta = cx.meta(cudnn_grad::LIST, i)?;
        cx.set_nth(cudnn_grad::DLIST, i, &meta.dims, meta.dtype);
    }
    if cx.has(cudnn_grad::W) {
        cx.like(cudnn_grad::DW, cudnn_grad::W)?;
    }
    cx.like(cudnn_grad::DINPUT, cudnn_grad::INPUT)?;
    cx.like(cudnn_grad::DH0, cudnn_grad::H0)?;
    cx.like(cudnn_grad::DC0, cudnn_grad::C0)
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use cudnn_grad::*;
    let (net, x) = (network(cx)?, cx.input(INPUT)?);
    let (out, dout, reserve, mask) = (cx.input(OUT)?, cx.input(DOUT)?, cx.input(RESERVE)?, cx.input(MASK)?);
    let dims = [net.steps as i64, net.batch as i64, (net.directions * net.hidden) as i64];
    like(cx, out, &dims, x.dtype(), "Out")?;
    like(cx, dout, &dims, x.dtype(), "the gradient of Out")?;
    like(cx, reserve, &[net.reserve() as i64], x.dtype(), "Reserve")?;
    if net.drops() {
        like(cx, mask, &dims, DType::U8, "StateOut")?;
    }
    let (h0, c0) = (cx.input(H0)?, cx.input(C0)?);
    for slot in [DH, DC] {
        like(cx, cx.input(slot)?, h0.dims(), x.dtype(), "the gradient of the last state")?;
    }
    let (mut dh, mut dc) = (cx.input(DH)?.deep_copy()?, cx.input(DC)?.deep_copy()?);
    let shapes = shapes(net.layers, net.directions, net.hidden, net.input as i64);
    let total: i64 = shapes.iter().map(|d| d.iter().product::<i64>()).sum();
    // Compute the concatenated gradient; a list gets slices of it.
    let mut flat = Tensor::empty(x.dtype(), &[total])?;
    let mut dx = if cx.wants(DINPUT) { Some(cx.take_out(DINPUT)?) } else { None };
    dispatch!(x.dtype(), T in [f32, f64], {
        let params = Params { list: weights::<T>(cx, &net)?, h: h0.data::<T>(), c: c0.data::<T>() };
        let saved = SavedState { reserve: reserve.data::<T>(), mask: mask.data::<u8>(), out: out.data::<T>() };
        let mut rest = flat.data_mut::<T>()?;
        let mut list = Vec::with_capacity(shapes.len());
        for dims in &shapes {
            let (own, behind) = rest.split_at_mut(dims.iter().product::<i64>() as usize);
            list.push(Some(own));
            rest = behind;
        }
        let wanted = RequestedGrads { list, x: dx.as_mut().map(|t| t.data_mut::<T>()).transpose()? };
        let states = (dh.data_mut::<T>()?, dc.data_mut::<T>()?);
        net.backward(x.data::<T>(), &params, &saved, dout.data::<T>(), states, wanted)?;
    }, other => return cx.unsupported(other));
    let mut at = 0;
    for (i, dims) in shapes.iter().enumerate() {
        if i < cx.n_outs(DLIST) && cx.wants_nth(DLIST, i) {
            cx.set_nth(DLIST, i, flat.view(at, dims));
        }
        at += dims.iter().product::<i64>() as usize;
    }
    if cx.wants(DW) && cx.has(W) {
        cx.set(DW, flat);
    }
    if let Some(dx) = dx {
        cx.set(DINPUT, dx);
    }
    cx.set_wanted([(DH0, dh), (DC0, dc)]);
    Ok(())
}

pub static CUDNN_LSTM: Op = Op {
    name: "cudnn_lstm",
    inputs: cudnn::INS,
    outputs: cudnn::OUTS,
    attrs: CudnnLstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Random(forward),
    grad: Grad::By(&CUDNN_LSTM_GRAD),
    ..OP
};

pub static CUDNN_LSTM_GRAD: Op = Op {
    name: "cudnn_lstm_grad",
    inputs: cudnn_grad::INS,
    outputs: cudnn_grad::OUTS,
    attrs: CudnnLstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};
