//! lstm and lstmp: an LSTM over variable-length sequences whose input products are inputs; lstmp projects the hidden
//! state before the next step.

use super::lod::{activation, check, initial_state, limit, offsets, sums};
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::rnn::activation::Activation;
use oar_kernels::rnn::lod::batches::Batches;
use oar_kernels::rnn::lod::lstm::{ForwardResults, Grads, Net, Projection, Saved};
use oar_ops_common::axis::like;

attrs! {
    pub struct LstmAttrs {
        use_peepholes: bool = true, is_reverse: bool = false, gate_activation: Text = "sigmoid".into(),
        cell_activation: Text = "tanh".into(), candidate_activation: Text = "tanh".into(),
    }
    pub struct LstmpAttrs {
        use_peepholes: bool = true, is_reverse: bool = false, cell_clip: f32 = 0.0, proj_clip: f32 = 0.0,
        gate_activation: Text = "sigmoid".into(), cell_activation: Text = "tanh".into(),
        candidate_activation: Text = "tanh".into(), proj_activation: Text = "tanh".into(),
    }
}

slots! {
    /// Input [rows, 4 * width] with LoD; Weight [width, 4 * width]; Bias [1, 4 * width], with peepholes 7 * width.
    mod lstm {
        INPUT "Input", H0 "H0".dispensable(), C0 "C0".dispensable(), WEIGHT "Weight", BIAS "Bias"
        => HIDDEN "Hidden", CELL "Cell", GATE "BatchGate".intermediate(), ACT "BatchCellPreAct".intermediate()
    }
    mod lstm_grad {
        INPUT "Input".meta_only(), H0 "H0".dispensable(), C0 "C0".dispensable(), WEIGHT "Weight", BIAS "Bias", HIDDEN "Hidden", CELL "Cell",
        DHIDDEN "Hidden@GRAD", GATE "BatchGate", ACT "BatchCellPreAct", DCELL "Cell@GRAD".dispensable()
        => DINPUT "Input@GRAD", DH0 "H0@GRAD", DC0 "C0@GRAD", DWEIGHT "Weight@GRAD", DBIAS "Bias@GRAD"
    }
    /// Weight [state, 4 * width], ProjWeight [width, state].
    mod lstmp {
        INPUT "Input", H0 "H0".dispensable(), C0 "C0".dispensable(), WEIGHT "Weight", PROJ "ProjWeight", BIAS "Bias"
        => PROJECTION "Projection", CELL "Cell", GATE "BatchGate".intermediate(), ACT "BatchCellPreAct".intermediate(),
        HIDDEN "BatchHidden".intermediate()
    }
    mod lstmp_grad {
        WEIGHT "Weight", PROJ "ProjWeight", BIAS "Bias", PROJECTION "Projection", CELL "Cell", GATE "BatchGate",
        ACT "BatchCellPreAct", HIDDEN "BatchHidden", H0 "H0".dispensable(), C0 "C0".dispensable(), DPROJECTION "Projection@GRAD",
        DCELL "Cell@GRAD".dispensable()
        => DINPUT "Input@GRAD", DWEIGHT "Weight@GRAD", DPROJ "ProjWeight@GRAD", DBIAS "Bias@GRAD", DH0 "H0@GRAD",
        DC0 "C0@GRAD"
    }
}

/// Attributes that both operators share.
struct LstmConfig {
    peepholes: bool,
    reverse: bool,
    gate: Activation,
    cell: Activation,
    candidate: Activation,
    cell_clip: f64,
    projection: Activation,
    proj_clip: f64,
}

fn config(op: &str, a: &LstmAttrs) -> Result<LstmConfig> {
    Ok(LstmConfig {
        peepholes: a.use_peepholes,
        reverse: a.is_reverse,
        gate: activation(op, "gate_activation", &a.gate_activation)?,
        cell: activation(op, "cell_activation", &a.cell_activation)?,
        candidate: activation(op, "candidate_activation", &a.candidate_activation)?,
        cell_clip: 0.0,
        projection: Activation::Identity,
        proj_clip: 0.0,
    })
}

fn projected_config(op: &str, a: &LstmpAttrs) -> Result<LstmConfig> {
    let cell = activation(op, "cell_activation", &a.cell_activation)?;
    let projection = activation(op, "proj_activation", &a.proj_activation)?;
    Ok(LstmConfig {
        peepholes: a.use_peepholes,
        reverse: a.is_reverse,
        gate: activation(op, "gate_activation", &a.gate_activation)?,
        cell,
        candidate: activation(op, "candidate_activation", &a.candidate_activation)?,
        cell_clip: limit(a.cell_clip),
        // Paddle's kernel only checks that proj_activation is set, and applies the cell activation.
        projection: if projection == Activation::Identity { projection } else { cell },
        proj_clip: limit(a.proj_clip),
    })
}

/// The cell width, -1 if unknown.
fn width(cx: &ShapeContext, input: InSlot, weight: InSlot) -> Result<i64> {
    let (x, w) = (cx.dims(input)?, cx.dims(weight)?);
    if x.len() != 2 {
        return cx.wrong(input, "a matrix [rows, 4 * width] with LoD");
    }
    let four = if x[1] >= 0 { x[1] } else { w.get(1).copied().unwrap_or(-1) };
    ensure!(
        four < 0 || four > 0 && four % 4 == 0,
        InvalidArgument,
        "operator {}: the width of Input must be four times that of the cell, got {four}",
        cx.op.name
    );
    Ok(if four < 0 { -1 } else { four / 4 })
}

fn times(n: i64, by: i64) -> i64 {
    if n < 0 {
        -1
    } else {
        n * by
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let n = width(cx, lstm::INPUT, lstm::WEIGHT)?;
    let (x, dtype) = (cx.dims(lstm::INPUT)?, cx.dtype(lstm::INPUT)?);
    let peepholes = config(cx.op.name, cx.attrs::<LstmAttrs>())?.peepholes;
    check(cx, lstm::WEIGHT, &[n, times(n, 4)], dtype)?;
    check(cx, lstm::BIAS, &[1, times(n, if peepholes { 7 } else { 4 })], dtype)?;
    check_first(cx, lstm::H0, lstm::C0, n, n)?;
    cx.set_each(&[lstm::HIDDEN, lstm::CELL, lstm::ACT], &[x[0], n], dtype);
    cx.set(lstm::GATE, &[x[0], times(n, 4)], dtype);
    cx.share_lod(lstm::HIDDEN, lstm::INPUT);
    cx.share_lod(lstm::CELL, lstm::INPUT);
    Ok(())
}

fn check_first(cx: &ShapeContext, h0: InSlot, c0: InSlot, state: i64, n: i64) -> Result<()> {
    if cx.has(h0) && !cx.has(c0) {
        bail!(NotFound, "operator {}: C0 must be given where H0 is", cx.op.name);
    }
    for (slot, width) in [(h0, state), (c0, n)] {
        if cx.has(slot) {
            check(cx, slot, &[-1, width], cx.dtype(slot)?)?;
        }
    }
    Ok(())
}

fn infer_projected(cx: &mut ShapeContext) -> Result<()> {
    let n = width(cx, lstmp::INPUT, lstmp::WEIGHT)?;
    let (x, dtype) = (cx.dims(lstmp::INPUT)?, cx.dtype(lstmp::INPUT)?);
    let peepholes = projected_config(cx.op.name, cx.attrs::<LstmpAttrs>())?.peepholes;
    let state = cx.dims(lstmp::PROJ)?.get(1).copied().unwrap_or(-1);
    check(cx, lstmp::WEIGHT, &[state, times(n, 4)], dtype)?;
    check(cx, lstmp::PROJ, &[n, state], dtype)?;
    check(cx, lstmp::BIAS, &[1, times(n, if peepholes { 7 } else { 4 })], dtype)?;
    check_first(cx, lstmp::H0, lstmp::C0, state, n)?;
    cx.set_each(&[lstmp::CELL, lstmp::ACT, lstmp::HIDDEN], &[x[0], n], dtype);
    cx.set(lstmp::PROJECTION, &[x[0], state], dtype);
    cx.set(lstmp::GATE, &[x[0], times(n, 4)], dtype);
    cx.share_lod(lstmp::PROJECTION, lstmp::INPUT);
    cx.share_lod(lstmp::CELL, lstmp::INPUT);
    Ok(())
}

/// Input tensors of either operator.
struct LstmInputs<'a> {
    weight: &'a Tensor,
    projection: Option<&'a Tensor>,
    bias: &'a Tensor,
    h0: Option<&'a Tensor>,
    c0: Option<&'a Tensor>,
}

impl<'a> LstmInputs<'a> {
    /// Calls `f` with the network of the tensors and attributes.
    fn net<T: GemmFloat + Element, R>(
        &self,
        op: &str,
        config: &LstmConfig,
        batches: &Batches,
        f: impl FnOnce(&Net<T>) -> Result<R>,
    ) -> Result<R> {
        let n = self.weight.dims()[1] as usize / 4;
        let state = self.weight.dims()[0] as usize;
        let (h, c) = (initial_state::<T>(op, batches, self.h0, state)?, initial_state::<T>(op, batches, self.c0, n)?);
        let net = Net {
            batches,
            width: n,
            weight: self.weight.data::<T>(),
            peepholes: config.peepholes.then(|| &self.bias.data::<T>()[4 * n..]),
            projection: self.projection.map(|p| Projection {
                weight: p.data::<T>(),
                state,
                act: config.projection,
                clip: T::from_f64(config.proj_clip),
            }),
            gate: config.gate,
            cell: config.cell,
            candidate: config.candidate,
            cell_clip: T::from_f64(config.cell_clip),
            first: (h.as_deref(), c.as_deref()),
        };
        f(&net)
    }
}

/// Output slots: recurrent state, cells, gates, activated cells, and hidden states if they are not the recurrent state.
type Outs = (OutSlot, OutSlot, OutSlot, OutSlot, Option<OutSlot>);

fn forward(cx: &mut KernelContext, x: &Tensor, inputs: &LstmInputs, config: &LstmConfig, outs: Outs) -> Result<()> {
    let op = cx.op.name;
    let batches = Batches::new(&offsets(op, "Input", x)?, config.reverse);
    let (n, state) = (inputs.weight.dims()[1] as usize / 4, inputs.weight.dims()[0] as usize);
    let (out, cell, gate, act, hidden) = outs;
    let rows = batches.rows.len() as i64;
    let whole = |slot: OutSlot, cx: &mut KernelContext| cx.take_out(slot).or_else(|_| Tensor::empty(x.dtype(), &[0]));
    let (mut gates, mut acts) = (Tensor::empty(x.dtype(), x.dims())?, Tensor::empty(x.dtype(), &[rows, n as i64])?);
    let mut hidden_states = Tensor::empty(x.dtype(), &[rows, n as i64])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        sums(&batches, x.data::<T>(), Some(&inputs.bias.data::<T>()[..4 * n]), 4 * n, gates.data_mut::<T>()?);
        let mut cells = vec![0.0 as T; rows as usize * n];
        let mut states = vec![0.0 as T; if inputs.projection.is_some() { rows as usize * state } else { 0 }];
        inputs.net::<T, _>(op, config, &batches, |net| {
            net.forward(ForwardResults {
                gates: gates.data_mut::<T>()?,
                cells: &mut cells,
                acts: acts.data_mut::<T>()?,
                hidden: hidden_states.data_mut::<T>()?,
                states: &mut states,
            });
            Ok(())
        })?;
        let from = if inputs.projection.is_some() { &states[..] } else { hidden_states.data::<T>() };
        batches.scatter(from, state, cx.out_data::<T>(out)?);
        if cx.wants(cell) {
            let mut t = whole(cell, cx)?;
            batches.scatter(&cells, n, t.data_mut::<T>()?);
            cx.set(cell, t);
        }
    }, other => return cx.unsupported(other));
    cx.set_wanted([(gate, gates), (act, acts)]);
    cx.set_wanted(hidden.map(|slot| (slot, hidden_states)));
    Ok(())
}

/// Inputs of the gradient operators.
struct Back<'a> {
    out: &'a Tensor,
    dout: &'a Tensor,
    /// The gradient of the cells; None for zeros.
    dcell: Option<&'a Tensor>,
    cell: &'a Tensor,
    gates: &'a Tensor,
    acts: &'a Tensor,
    hidden: Option<&'a Tensor>,
}

/// Output slots: gradients of Input, Weight, Bias, H0, C0, ProjWeight.
type GradSlots = ([OutSlot; 5], Option<OutSlot>);

fn backward(
    cx: &mut KernelContext,
    inputs: &LstmInputs,
    config: &LstmConfig,
    back: &Back,
    (wanted, dproj): GradSlots,
) -> Result<()> {
    let (op, dtype) = (cx.op.name, back.out.dtype());
    let batches = Batches::new(&offsets(op, "the output", back.out)?, config.reverse);
    let (n, state) = (inputs.weight.dims()[1] as usize / 4, inputs.weight.dims()[0] as usize);
    let rows = batches.rows.len() as i64;
    let (cells, gates) = ([rows, n as i64], [rows, 4 * n as i64]);
    like(cx, back.dout, back.out.dims(), dtype, "the gradient of the output")?;
    if let Some(dcell) = back.dcell {
        like(cx, dcell, &cells, dtype, "the gradient of the cells")?;
    }
    for (t, dims) in [(back.cell, cells), (back.acts, cells), (back.gates, gates)] {
        like(cx, t, &dims, dtype, "what the operator left")?;
    }
    ensure!(
        back.out.dims() == [rows, state as i64]
            && back.hidden.is_none_or(|h| h.dims() == cells && h.dtype() == dtype)
            && inputs.weight.dtype() == dtype,
        InvalidArgument,
        "operator {op}: its inputs do not fit each other"
    );
    let [dx, dweight, dbias, dh0, dc0] = wanted;
    let mut taken = Vec::new();
    for slot in [Some(dx), Some(dweight), Some(dbias), Some(dh0), Some(dc0), dproj] {
        taken.push(match slot.filter(|&s| cx.wants(s)) {
            Some(slot) => Some(cx.take_out(slot)?),
            None => None,
        });
    }
    let slots = [Some(dx), Some(dweight), Some(dbias), Some(dh0), Some(dc0), dproj];
    dispatch!(dtype, T in [f32, f64], {
        let total = rows as usize;
        let gathered = |t: &Tensor, width: usize| {
            let mut to = vec![0.0 as T; total * width];
            batches.gather(t.data::<T>(), width, &mut to);
            to
        };
        let (out, mut dstates, cell) = (gathered(back.out, state), gathered(back.dout, state), gathered(back.cell, n));
        let mut dcells = back.dcell.map_or_else(|| vec![0.0 as T; total * n], |d| gathered(d, n));
        let came = Saved {
            gates: back.gates.data::<T>(),
            cells: &cell,
            acts: back.acts.data::<T>(),
            hidden: back.hidden.map_or(&out[..], |h| h.data::<T>()),
            states: if inputs.projection.is_some() { &out } else { &[] },
        };
        let mut d = vec![0.0 as T; total * 4 * n];
        let count = batches.order.len();
        let (mut first_h, mut first_c) = (vec![0.0 as T; count * state], vec![0.0 as T; count * n]);
        {
            let [_, w, b, _, _, p] = &mut taken[..] else { unreachable!("six outputs") };
            let grads = Grads {
                weight: w.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
                projection: p.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
                bias: b.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
                first_state: Some(&mut first_h),
                first_cell: Some(&mut first_c),
            };
            inputs.net::<T, _>(op, config, &batches, |net| {
                net.backward(&came, &mut dstates, &mut dcells, &mut d, grads);
                Ok(())
            })?;
        }
        if let Some(t) = &mut taken[0] {
            batches.scatter(&d, 4 * n, t.data_mut::<T>()?);
        }
        for (t, from, width) in [(3, &first_h, state), (4, &first_c, n)] {
            if let Some(t) = &mut taken[t] {
                batches.scatter_first(from, width, 0.0, t.data_mut::<T>()?);
            }
        }
    }, other => return cx.unsupported(other));
    cx.set_wanted(slots.into_iter().zip(taken).filter_map(|(slot, t)| Some((slot?, t?))));
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let config = config(cx.op.name, cx.attrs::<LstmAttrs>())?;
    let inputs = LstmInputs {
        weight: cx.input(lstm::WEIGHT)?,
        projection: None,
        bias: cx.input(lstm::BIAS)?,
        h0: cx.opt(lstm::H0),
        c0: cx.opt(lstm::C0),
    };
    let x = cx.input(lstm::INPUT)?;
    forward(cx, x, &inputs, &config, (lstm::HIDDEN, lstm::CELL, lstm::GATE, lstm::ACT, None))
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use lstm_grad::*;
    let config = config(cx.op.name, cx.attrs::<LstmAttrs>())?;
    let inputs = LstmInputs {
        weight: cx.input(WEIGHT)?,
        projection: None,
        bias: cx.input(BIAS)?,
        h0: cx.opt(H0),
        c0: cx.opt(C0),
    };
    let back = Back {
        out: cx.input(HIDDEN)?,
        dout: cx.input(DHIDDEN)?,
        dcell: cx.opt(DCELL),
        cell: cx.input(CELL)?,
        gates: cx.input(GATE)?,
        acts: cx.input(ACT)?,
        hidden: None,
    };
    backward(cx, &inputs, &config, &back, ([DINPUT, DWEIGHT, DBIAS, DH0, DC0], None))
}

fn run_projected(cx: &mut KernelContext) -> Result<()> {
    let config = projected_config(cx.op.name, cx.attrs::<LstmpAttrs>())?;
    let inputs = LstmInputs {
        weight: cx.input(lstmp::WEIGHT)?,
        projection: Some(cx.input(lstmp::PROJ)?),
        bias: cx.input(lstmp::BIAS)?,
        h0: cx.opt(lstmp::H0),
        c0: cx.opt(lstmp::C0),
    };
    let x = cx.input(lstmp::INPUT)?;
    let outs = (lstmp::PROJECTION, lstmp::CELL, lstmp::GATE, lstmp::ACT, Some(lstmp::HIDDEN));
    forward(cx, x, &inputs, &config, outs)
}

fn run_projected_grad(cx: &mut KernelContext) -> Result<()> {
    use lstmp_grad::*;
    let config = projected_config(cx.op.name, cx.attrs::<LstmpAttrs>())?;
    let inputs = LstmInputs {
        weight: cx.input(WEIGHT)?,
        projection: Some(cx.input(PROJ)?),
        bias: cx.input(BIAS)?,
        h0: cx.opt(H0),
        c0: cx.opt(C0),
    };
    let back = Back {
        out: cx.input(PROJECTION)?,
        dout: cx.input(DPROJECTION)?,
        dcell: cx.opt(DCELL),
        cell: cx.input(CELL)?,
        gates: cx.input(GATE)?,
        acts: cx.input(ACT)?,
        hidden: Some(cx.input(HIDDEN)?),
    };
    backward(cx, &inputs, &config, &back, ([DINPUT, DWEIGHT, DBIAS, DH0, DC0], Some(DPROJ)))
}

/// The gradient of Input has the shape of the gates.
fn infer_projected_grad(cx: &mut ShapeContext) -> Result<()> {
    oar_core::op::infer::grads_like_inputs(cx)?;
    cx.like(lstmp_grad::DINPUT, lstmp_grad::GATE)?;
    cx.share_lod(lstmp_grad::DINPUT, lstmp_grad::PROJECTION);
    Ok(())
}

pub static LSTM: Op = Op {
    name: "lstm",
    inputs: lstm::INS,
    outputs: lstm::OUTS,
    attrs: LstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&LSTM_GRAD),
    ..OP
};

pub static LSTM_GRAD: Op = Op {
    name: "lstm_grad",
    inputs: lstm_grad::INS,
    outputs: lstm_grad::OUTS,
    attrs: LstmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static LSTMP: Op = Op {
    name: "lstmp",
    inputs: lstmp::INS,
    outputs: lstmp::OUTS,
    attrs: LstmpAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_projected,
    cpu: Kernel::Pure(run_projected),
    grad: Grad::By(&LSTMP_GRAD),
    ..OP
};

pub static LSTMP_GRAD: Op = Op {
    name: "lstmp_grad",
    inputs: lstmp_grad::INS,
    outputs: lstmp_grad::OUTS,
    attrs: LstmpAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_projected_grad,
    cpu: Kernel::Pure(run_projected_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&LSTM, &LSTM_GRAD, &LSTMP, &LSTMP_GRAD];
