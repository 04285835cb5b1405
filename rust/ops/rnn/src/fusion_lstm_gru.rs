//! fusion_lstm, fused_embedding_fc_lstm (the input product is a row of a table), fusion_gru, multi_gru: LSTMs and GRUs
//! over variable-length sequences including the input product. Inference only.

use super::lod::{activation, check, initial_state, offsets, sums};
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::gemm::{gemm, Epilogue, GemmFloat, View};
use oar_kernels::rnn::activation::Activation;
use oar_kernels::rnn::lod::batches::Batches;
use oar_kernels::sequence::pool::place_columns;
use oar_kernels::sequence::rows::{copy, Run};
use oar_kernels::{rnn::lod::gru, rnn::lod::lstm};
use oar_ops_common::index::index_of;

attrs! {
    pub struct FusionLstmAttrs {
        use_peepholes: bool = true, is_reverse: bool = false, use_seq: bool = true,
        gate_activation: Text = "sigmoid".into(), cell_activation: Text = "tanh".into(),
        candidate_activation: Text = "tanh".into(),
    }
    pub struct FusionGruAttrs {
        activation: Text = "tanh".into(), gate_activation: Text = "sigmoid".into(), is_reverse: bool = false,
        use_seq: bool = true, origin_mode: bool = false, use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), Scale_data: f32 = 1.0, Shift_data: f32 = 0.0,
        Scale_weights: Vec<f32> = vec![1.0], force_fp32_output: bool = false,
    }
    pub struct MultiGruAttrs {
        activation: Text = "tanh".into(), gate_activation: Text = "sigmoid".into(), layers: i32 = 1,
        origin_mode: bool = false, mkldnn_data_type: Text = "float32".into(), Scale_data: f32 = 1.0,
        Shift_data: f32 = 0.0, force_fp32_output: bool = false,
    }
}

slots! {
    mod fusion_lstm {
        X "X", WX "WeightX", WH "WeightH", BIAS "Bias", H0 "H0".dispensable(), C0 "C0".dispensable()
        => HIDDEN "Hidden", CELL "Cell", XX "XX".intermediate().not_returned().kernel_allocated(), BATCHED "BatchedInput".intermediate().not_returned().kernel_allocated(),
        BATCHED_H "BatchedHidden".intermediate().not_returned().kernel_allocated(), BATCHED_C "BatchedCell".intermediate().not_returned().kernel_allocated(),
        ORDERED_H "ReorderedH0".intermediate().not_returned().kernel_allocated(), ORDERED_C "ReorderedC0".intermediate().not_returned().kernel_allocated(),
        CHECKED "CheckedCell".intermediate().not_returned().kernel_allocated()
    }
    mod embedded {
        IDS "Ids", TABLE "Embeddings", WH "WeightH", BIAS "Bias", H0 "H0".dispensable(), C0 "C0".dispensable()
        => HIDDEN "Hidden", CELL "Cell", XX "XX".intermediate().not_returned().kernel_allocated(), BATCHED "BatchedInput".intermediate().not_returned().kernel_allocated(),
        BATCHED_H "BatchedHidden".intermediate().not_returned().kernel_allocated(), BATCHED_C "BatchedCell".intermediate().not_returned().kernel_allocated(),
        ORDERED_H "ReorderedH0".intermediate().not_returned().kernel_allocated(), ORDERED_C "ReorderedC0".intermediate().not_returned().kernel_allocated()
    }
    mod fusion_gru {
        X "X", H0 "H0".dispensable(), WX "WeightX", WH "WeightH", BIAS "Bias".dispensable()
        => ORDERED "ReorderedH0".intermediate().not_returned().kernel_allocated(), XX "XX".intermediate().not_returned().kernel_allocated(),
        BATCHED "BatchedInput".intermediate().not_returned().kernel_allocated(), BATCHED_OUT "BatchedOut".intermediate().not_returned().kernel_allocated(), HIDDEN "Hidden"
    }
    /// Forward and backward weights of each layer.
    mod multi_gru {
        X "X", WX "WeightX".duplicable(), WH "WeightH".duplicable(), BIAS "Bias".duplicable().dispensable(), SCALES "Scale_weights".duplicable().dispensable()
        => HIDDEN "Hidden"
    }
}

/// Buffers of Paddle's kernels; empty here.
fn leave_buffers(cx: &mut KernelContext, slots: &[OutSlot], dtype: DType) -> Result<()> {
    let empty = Tensor::empty(dtype, &[0])?;
    cx.set_wanted(slots.iter().map(|&slot| (slot, empty.clone())));
    Ok(())
}

const LSTM_BUFFERS: &[OutSlot] = &[
    fusion_lstm::XX,
    fusion_lstm::BATCHED,
    fusion_lstm::BATCHED_H,
    fusion_lstm::BATCHED_C,
    fusion_lstm::ORDERED_H,
    fusion_lstm::ORDERED_C,
    fusion_lstm::CHECKED,
];
const EMBEDDED_BUFFERS: &[OutSlot] = &[
    embedded::XX,
    embedded::BATCHED,
    embedded::BATCHED_H,
    embedded::BATCHED_C,
    embedded::ORDERED_H,
    embedded::ORDERED_C,
];
const GRU_BUFFERS: &[OutSlot] = &[fusion_gru::ORDERED, fusion_gru::XX, fusion_gru::BATCHED, fusion_gru::BATCHED_OUT];

/// [rows, width], or [rows, 1, width].
fn matrix(cx: &ShapeContext, slot: InSlot) -> Result<Dims> {
    let x = cx.dims(slot)?;
    match x[..] {
        [_, _] => Ok(x),
        [rows, 1, width] => Ok(Dims::from_slice(&[rows, width])),
        _ => cx.wrong(slot, "a matrix [rows, width] with LoD"),
    }
}

fn times(n: i64, by: i64) -> i64 {
    if n < 0 {
        -1
    } else {
        n.saturating_mul(by)
    }
}

/// Checks the recurrent weights and states; returns the cell width.
fn check_lstm(cx: &ShapeContext, dtype: DType, peepholes: bool, [wh, bias, h0, c0]: [InSlot; 4]) -> Result<i64> {
    let n = cx.dims(wh)?.first().copied().unwrap_or(-1);
    ensure!(n != 0, InvalidArgument, "operator {}: WeightH must not be empty", cx.op.name);
    check(cx, wh, &[n, times(n, 4)], dtype)?;
    check(cx, bias, &[1, times(n, if peepholes { 7 } else { 4 })], dtype)?;
    if cx.has(h0) && !cx.has(c0) {
        bail!(NotFound, "operator {}: C0 must be given where H0 is", cx.op.name);
    }
    for slot in [h0, c0] {
        if cx.has(slot) {
            check(cx, slot, &[-1, n], dtype)?;
        }
    }
    Ok(n)
}

fn acts(op: &str, a: &FusionLstmAttrs) -> Result<[Activation; 3]> {
    Ok([
        activation(op, "gate_activation", &a.gate_activation)?,
        activation(op, "cell_activation", &a.cell_activation)?,
        activation(op, "candidate_activation", &a.candidate_activation)?,
    ])
}

fn infer_lstm(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (matrix(cx, fusion_lstm::X)?, cx.dtype(fusion_lstm::X)?);
    let a = cx.attrs::<FusionLstmAttrs>();
    acts(cx.op.name, a)?;
    let slots = [fusion_lstm::WH, fusion_lstm::BIAS, fusion_lstm::H0, fusion_lstm::C0];
    let n = check_lstm(cx, dtype, a.use_peepholes, slots)?;
    check(cx, fusion_lstm::WX, &[x[1], times(n, 4)], dtype)?;
    cx.set_each(&[fusion_lstm::HIDDEN, fusion_lstm::CELL], &[x[0], n], dtype);
    [fusion_lstm::HIDDEN, fusion_lstm::CELL].into_iter().for_each(|out| cx.share_lod(out, fusion_lstm::X));
    cx.set_each(LSTM_BUFFERS, &[-1], dtype);
    Ok(())
}

fn infer_embedded(cx: &mut ShapeContext) -> Result<()> {
    let (ids, dtype) = (cx.dims(embedded::IDS)?, cx.dtype(embedded::TABLE)?);
    let a = cx.attrs::<FusionLstmAttrs>();
    acts(cx.op.name, a)?;
    if ids.len() != 2 || ids[1] != 1 && ids[1] >= 0 {
        return cx.wrong(embedded::IDS, "[rows, 1] with LoD");
    }
    let slots = [embedded::WH, embedded::BIAS, embedded::H0, embedded::C0];
    let n = check_lstm(cx, dtype, a.use_peepholes, slots)?;
    check(cx, embedded::TABLE, &[-1, times(n, 4)], dtype)?;
    cx.set_each(&[embedded::HIDDEN, embedded::CELL], &[ids[0], n], dtype);
    [embedded::HIDDEN, embedded::CELL].into_iter().for_each(|out| cx.share_lod(out, embedded::IDS));
    cx.set_each(EMBEDDED_BUFFERS, &[-1], dtype);
    Ok(())
}

/// `x * w + bias`, the bias being optional.
fn product<T: GemmFloat>(x: &[T], rows: usize, w: &[T], cols: usize, bias: Option<&[T]>) -> Vec<T> {
    let mut out = vec![T::default(); rows * cols];
    let k = w.len() / cols.max(1);
    let (one, zero) = (T::from_f64(1.0), T::from_f64(0.0));
    let (a, b) = (View::rows(x, k, false), View::rows(w, cols, false));
    gemm((rows, cols, k), one, a, b, zero, &mut out, cols, Epilogue { col_bias: bias, ..Epilogue::NONE });
    out
}

/// Runs the network over input products in sequence order; returns hidden states and cells.
fn run_lstm<T: GemmFloat + Element>(
    cx: &mut KernelContext,
    at: &[usize],
    x: &[T],
    [wh, bias]: [&Tensor; 2],
    [h0, c0]: [Option<&Tensor>; 2],
    [hidden, cell]: [OutSlot; 2],
) -> Result<()> {
    let (a, op) = (cx.attrs::<FusionLstmAttrs>(), cx.op.name);
    let [gate, cell_act, candidate] = acts(op, a)?;
    let batches = Batches::new(at, a.is_reverse);
    let n = wh.dims()[0] as usize;
    let (h, c) = (initial_state::<T>(op, &batches, h0, n)?, initial_state::<T>(op, &batches, c0, n)?);
    let rows = batches.rows.len();
    let zeros = |n: usize| vec![T::default(); n];
    let (mut gates, mut cells, mut acts, mut states) =
        (zeros(rows * 4 * n), zeros(rows * n), zeros(rows * n), zeros(rows * n));
    sums(&batches, x, None, 4 * n, &mut gates);
    let net = lstm::Net {
        batches: &batches,
        width: n,
        weight: wh.data::<T>(),
        peepholes: a.use_peepholes.then(|| &bias.data::<T>()[4 * n..]),
        projection: None,
        gate,
        cell: cell_act,
        candidate,
        cell_clip: T::default(),
        first: (h.as_deref(), c.as_deref()),
    };
    net.forward(lstm::ForwardResults {
        gates: &mut gates,
        cells: &mut cells,
        acts: &mut acts,
        hidden: &mut states,
        states: &mut [],
    });
    for (slot, from) in [(hidden, &states), (cell, &cells)] {
        if cx.wants(slot) {
            batches.scatter(from, n, cx.out_data::<T>(slot)?);
        }
    }
    Ok(())
}

fn fused_lstm(cx: &mut KernelContext) -> Result<()> {
    use fusion_lstm::*;
    let (x, wx, wh, bias) = (cx.input(X)?, cx.input(WX)?, cx.input(WH)?, cx.input(BIAS)?);
    let at = offsets(cx.op.name, "X", x)?;
    let states = [cx.opt(H0), cx.opt(C0)];
    dispatch!(x.dtype(), T in [f32, f64], {
        let cols = wx.dims()[1] as usize;
        let own = &bias.data::<T>()[..cols];
        let sums = product(x.data::<T>(), x.dims()[0] as usize, wx.data::<T>(), cols, Some(own));
        run_lstm::<T>(cx, &at, &sums, [wh, bias], states, [HIDDEN, CELL])?;
    }, other => return cx.unsupported(other));
    leave_buffers(cx, LSTM_BUFFERS, x.dtype())
}

/// The table holds the products including the first part of Bias.
fn fused_embedded(cx: &mut KernelContext) -> Result<()> {
    use embedded::*;
    let (ids, table, wh, bias, op) = (cx.input(IDS)?, cx.input(TABLE)?, cx.input(WH)?, cx.input(BIAS)?, cx.op.name);
    let at = offsets(op, "Ids", ids)?;
    let states = [cx.opt(H0), cx.opt(C0)];
    let (height, width) = (table.dims()[0], table.dims()[1] as usize);
    dispatch!(table.dtype(), T in [f32, f64], {
        let ids = index_of(op, ids)?;
        if let Some(id) = ids.iter().find(|id| !(0..height).contains(*id)) {
            bail!(InvalidArgument, "operator {op}: Ids must be in [0, {height}), the rows of Embeddings, got {id}");
        }
        let rows = ids.iter().enumerate().map(|(to, &id)| Run { from: id as usize, to, count: 1 });
        let mut sums = vec![0.0; ids.len() * width];
        copy(rows, width, table.data::<T>(), &mut sums);
        run_lstm::<T>(cx, &at, &sums, [wh, bias], states, [HIDDEN, CELL])?;
    }, other => return cx.unsupported(other));
    leave_buffers(cx, EMBEDDED_BUFFERS, table.dtype())
}

/// The parameters of a GRU: weights of input and state, bias, activations of gates and candidate.
struct Gru<'a> {
    wx: &'a Tensor,
    wh: &'a Tensor,
    bias: Option<&'a Tensor>,
    gate: Activation,
    candidate: Activation,
    origin: bool,
}

impl Gru<'_> {
    fn run<T: GemmFloat + Element>(&self, op: &str, batches: &Batches, x: &[T], h0: Option<&Tensor>) -> Result<Vec<T>> {
        let n = self.wh.dims()[0] as usize;
        let rows = batches.rows.len();
        let h = initial_state::<T>(op, batches, h0, n)?;
        let own = product(x, rows, self.wx.data::<T>(), 3 * n, self.bias.map(|b| b.data::<T>()));
        let zeros = |n: usize| vec![T::default(); n];
        let (mut gates, mut reset, mut hidden) = (zeros(rows * 3 * n), zeros(rows * n), zeros(rows * n));
        sums(batches, &own, None, 3 * n, &mut gates);
        let net = gru::Net {
            batches,
            width: n,
            weight: self.wh.data::<T>(),
            gate: self.gate,
            candidate: self.candidate,
            origin: self.origin,
            first: h.as_deref(),
        };
        net.forward(&mut gates, &mut reset, &mut hidden);
        let mut out = zeros(rows * n);
        batches.scatter(&hidden, n, &mut out);
        Ok(out)
    }
}

fn infer_gru(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (matrix(cx, fusion_gru::X)?, cx.dtype(fusion_gru::X)?);
    let (a, op) = (cx.attrs::<FusionGruAttrs>(), cx.op.name);
    activation(op, "gate_activation", &a.gate_activation)?;
    activation(op, "activation", &a.activation)?;
    let n = cx.dims(fusion_gru::WH)?.first().copied().unwrap_or(-1);
    ensure!(n != 0, InvalidArgument, "operator {op}: WeightH must not be empty");
    check(cx, fusion_gru::WH, &[n, times(n, 3)], dtype)?;
    check(cx, fusion_gru::WX, &[x[1], times(n, 3)], dtype)?;
    if cx.has(fusion_gru::BIAS) {
        check(cx, fusion_gru::BIAS, &[1, times(n, 3)], dtype)?;
    }
    if cx.has(fusion_gru::H0) {
        check(cx, fusion_gru::H0, &[-1, n], dtype)?;
    }
    cx.set(fusion_gru::HIDDEN, &[x[0], n], dtype);
    cx.share_lod(fusion_gru::HIDDEN, fusion_gru::X);
    cx.set_each(GRU_BUFFERS, &[-1], dtype);
    Ok(())
}

fn fused_gru(cx: &mut KernelContext) -> Result<()> {
    use fusion_gru::*;
    let (x, a, op) = (cx.input(X)?, cx.attrs::<FusionGruAttrs>(), cx.op.name);
    let batches = Batches::new(&offsets(op, "X", x)?, a.is_reverse);
    let gru = Gru {
        wx: cx.input(WX)?,
        wh: cx.input(WH)?,
        bias: cx.opt(BIAS),
        gate: activation(op, "gate_activation", &a.gate_activation)?,
        candidate: activation(op, "activation", &a.activation)?,
        origin: a.origin_mode,
    };
    let h0 = cx.opt(H0);
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = gru.run::<T>(op, &batches, x.data::<T>(), h0)?;
        cx.out_data::<T>(HIDDEN)?.copy_from_slice(&out);
    }, other => return cx.unsupported(other));
    leave_buffers(cx, GRU_BUFFERS, x.dtype())
}

fn infer_multi(cx: &mut ShapeContext) -> Result<()> {
    use multi_gru::*;
    let (x, dtype) = (matrix(cx, X)?, cx.dtype(X)?);
    let (a, op) = (cx.attrs::<MultiGruAttrs>(), cx.op.name);
    activation(op, "gate_activation", &a.gate_activation)?;
    activation(op, "activation", &a.activation)?;
    let parts = 2 * a.layers.max(0) as usize;
    let biases = if cx.has(BIAS) { cx.count(BIAS) } else { parts };
    ensure!(
        parts > 0 && cx.count(WX) == parts && cx.count(WH) == parts && biases == parts,
        InvalidArgument,
        "operator {op}: WeightX, WeightH and Bias must have two tensors for each of {} layers",
        a.layers
    );
    let mut input = x[1];
    for layer in 0..a.layers as usize {
        let mut out = 0;
        for part in [2 * layer, 2 * layer + 1] {
            let (wx, wh) = (cx.meta(WX, part)?, cx.meta(WH, part)?);
            let n = wh.dims.first().copied().unwrap_or(-1);
            let fits = |got: &[i64], want: [i64; 2]| {
                got.len() == 2 && got.iter().zip(want).all(|(&a, b)| a == b || a < 0 || b < 0)
            };
            let bias = if cx.has(BIAS) { Some(cx.meta(BIAS, part)?) } else { None };
            ensure!(
                n != 0
                    && fits(&wh.dims, [n, times(n, 3)])
                    && fits(&wx.dims, [input, times(n, 3)])
                    && bias.as_ref().is_none_or(|b| fits(&b.dims, [1, times(n, 3)]) && b.dtype == dtype)
                    && wx.dtype == dtype
                    && wh.dtype == dtype,
                InvalidArgument,
                "operator {op}: the weights of layer {layer} must be [{input}, 3 * width] and [width, 3 * width], its bias \
                 [1, 3 * width], got {:?} and {:?}",
                &wx.dims[..],
                &wh.dims[..]
            );
            out = if n < 0 || out < 0 { -1 } else { out + n };
        }
        input = out;
    }
    cx.set(HIDDEN, &[x[0], input], dtype);
    cx.share_lod(HIDDEN, X);
    Ok(())
}

fn run_multi(cx: &mut KernelContext) -> Result<()> {
    use multi_gru::*;
    let (x, a, op) = (cx.input(X)?, cx.attrs::<MultiGruAttrs>(), cx.op.name);
    let at = offsets(op, "X", x)?;
    let (wx, wh) = (cx.inputs(WX)?, cx.inputs(WH)?);
    let bias = if cx.has(BIAS) { cx.inputs(BIAS)? } else { Vec::new() };
    let both = [Batches::new(&at, false), Batches::new(&at, true)];
    let gate = activation(op, "gate_activation", &a.gate_activation)?;
    let candidate = activation(op, "activation", &a.activation)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut input = x.data::<T>().to_vec();
        for layer in 0..a.layers as usize {
            let mut halves = Vec::new();
            for (direction, batches) in both.iter().enumerate() {
                let i = 2 * layer + direction;
                let bias = bias.get(i).copied();
                let gru = Gru { wx: wx[i], wh: wh[i], bias, gate, candidate, origin: a.origin_mode };
                halves.push((wh[i].dims()[0] as usize, gru.run::<T>(op, batches, &input, None)?));
            }
            let columns = halves.iter().map(|(n, _)| n).sum();
            input.resize(x.dims()[0] as usize * columns, 0.0);
            let mut at = 0;
            halves.iter().for_each(|(n, half)| {
                place_columns(half, *n, at, columns, &mut input);
                at += n;
            });
        }
        cx.out_data::<T>(HIDDEN)?.copy_from_slice(&input);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static FUSION_LSTM: Op = Op {
    name: "fusion_lstm",
    inputs: fusion_lstm::INS,
    outputs: fusion_lstm::OUTS,
    attrs: FusionLstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_lstm,
    cpu: Kernel::Pure(fused_lstm),
    ..OP
};

pub static FUSED_EMBEDDING_FC_LSTM: Op = Op {
    name: "fused_embedding_fc_lstm",
    inputs: embedded::INS,
    outputs: embedded::OUTS,
    attrs: FusionLstmAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer: infer_embedded,
    cpu: Kernel::Pure(fused_embedded),
    ..OP
};

pub static FUSION_GRU: Op = Op {
    name: "fusion_gru",
    inputs: fusion_gru::INS,
    outputs: fusion_gru::OUTS,
    attrs: FusionGruAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_gru,
    cpu: Kernel::Pure(fused_gru),
    ..OP
};

pub static MULTI_GRU: Op = Op {
    name: "multi_gru",
    inputs: multi_gru::INS,
    outputs: multi_gru::OUTS,
    attrs: MultiGruAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_multi,
    cpu: Kernel::Pure(run_multi),
    ..OP
};

pub static TABLE: &[&Op] = &[&FUSION_LSTM, &FUSED_EMBEDDING_FC_LSTM, &FUSION_GRU, &MULTI_GRU];
