//! gru (over variable-length sequences) and gru_unit (one step); the input products are inputs.

use super::lod::{activation, check, initial_state, offsets, sums};
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::rnn::activation::Activation;
use oar_kernels::rnn::lod::batches::Batches;
use oar_kernels::rnn::lod::gru::{Grads, Net};
use oar_ops_common::axis::like;

attrs! {
    pub struct GruAttrs {
        activation: Text = "tanh".into(), gate_activation: Text = "sigmoid".into(), is_reverse: bool = false,
        origin_mode: bool = false,
    }
    pub struct GruUnitAttrs { activation: i32 = 2, gate_activation: i32 = 1, origin_mode: bool = false }
}

slots! {
    /// Input [rows, 3 * width] with LoD; Weight [width, 3 * width], whose last part is the candidate's; Bias [1, 3 *
    /// width].
    mod gru {
        INPUT "Input", H0 "H0".dispensable(), WEIGHT "Weight", BIAS "Bias".dispensable()
        => GATE "BatchGate".intermediate(), RESET "BatchResetHiddenPrev".intermediate(), STATES "BatchHidden".intermediate(), HIDDEN "Hidden"
    }
    mod gru_grad {
        INPUT "Input".meta_only(), H0 "H0".dispensable(), BIAS "Bias".dispensable(), WEIGHT "Weight", GATE "BatchGate",
        RESET "BatchResetHiddenPrev", STATES "BatchHidden", HIDDEN "Hidden".meta_only(), DHIDDEN "Hidden@GRAD"
        => DH0 "H0@GRAD", DINPUT "Input@GRAD", DWEIGHT "Weight@GRAD", DBIAS "Bias@GRAD"
    }
    mod gru_unit {
        INPUT "Input", BEFORE "HiddenPrev", WEIGHT "Weight", BIAS "Bias".dispensable()
        => GATE "Gate".intermediate(), RESET "ResetHiddenPrev".intermediate(), HIDDEN "Hidden"
    }
    mod gru_unit_grad {
        INPUT "Input".meta_only(), BEFORE "HiddenPrev", WEIGHT "Weight", BIAS "Bias".dispensable(), GATE "Gate", RESET "ResetHiddenPrev",
        DHIDDEN "Hidden@GRAD"
        => DINPUT "Input@GRAD", DBEFORE "HiddenPrev@GRAD", DWEIGHT "Weight@GRAD", DBIAS "Bias@GRAD"
    }
}

/// Attributes that both operators share.
struct GruConfig {
    gate: Activation,
    candidate: Activation,
    origin: bool,
}

fn config(op: &str, a: &GruAttrs) -> Result<GruConfig> {
    Ok(GruConfig {
        gate: activation(op, "gate_activation", &a.gate_activation)?,
        candidate: activation(op, "activation", &a.activation)?,
        origin: a.origin_mode,
    })
}

fn unit_config(op: &str, a: &GruUnitAttrs) -> Result<GruConfig> {
    let act = |attr: &str, n: i32| {
        Ok(match n {
            0 => Activation::Identity,
            1 => Activation::Sigmoid,
            2 => Activation::Tanh,
            3 => Activation::Relu,
            other => bail!(
                InvalidArgument,
                "operator {op}: {attr} must be 0 (identity), 1 (sigmoid), 2 (tanh) or 3 (relu), got {other}"
            ),
        })
    };
    Ok(GruConfig {
        gate: act("gate_activation", a.gate_activation)?,
        candidate: act("activation", a.activation)?,
        origin: a.origin_mode,
    })
}

/// Checks the shared inputs; returns the state width.
fn check_all(cx: &ShapeContext, [input, first, weight, bias]: [InSlot; 4]) -> Result<i64> {
    let (x, w, dtype) = (cx.dims(input)?, cx.dims(weight)?, cx.dtype(input)?);
    if x.len() != 2 {
        return cx.wrong(input, "a matrix [rows, 3 * width]");
    }
    let n = match (w.first(), x[1]) {
        (Some(&n), _) if n >= 0 => n,
        (_, three) if three >= 0 => three / 3,
        _ => -1,
    };
    let three = if n < 0 { -1 } else { 3 * n };
    ensure!(n != 0, InvalidArgument, "operator {}: Weight must not be empty", cx.op.name);
    check(cx, input, &[x[0], three], dtype)?;
    check(cx, weight, &[n, three], dtype)?;
    if cx.has(bias) {
        check(cx, bias, &[1, three], dtype)?;
    }
    if cx.has(first) {
        check(cx, first, &[-1, n], dtype)?;
    }
    Ok(n)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let n = check_all(cx, [gru::INPUT, gru::H0, gru::WEIGHT, gru::BIAS])?;
    config(cx.op.name, cx.attrs::<GruAttrs>())?;
    let (x, dtype) = (cx.dims(gru::INPUT)?, cx.dtype(gru::INPUT)?);
    cx.set_each(&[gru::RESET, gru::STATES, gru::HIDDEN], &[x[0], n], dtype);
    cx.set(gru::GATE, &x, dtype);
    cx.share_lod(gru::HIDDEN, gru::INPUT);
    Ok(())
}

fn infer_unit(cx: &mut ShapeContext) -> Result<()> {
    let n = check_all(cx, [gru_unit::INPUT, gru_unit::BEFORE, gru_unit::WEIGHT, gru_unit::BIAS])?;
    unit_config(cx.op.name, cx.attrs::<GruUnitAttrs>())?;
    let (x, dtype, h) = (cx.dims(gru_unit::INPUT)?, cx.dtype(gru_unit::INPUT)?, cx.dims(gru_unit::BEFORE)?);
    ensure!(
        h[0] == x[0] || h[0] < 0 || x[0] < 0,
        InvalidArgument,
        "operator {}: Input and HiddenPrev must have as many rows, got shapes {:?} and {:?}",
        cx.op.name,
        &x[..],
        &h[..]
    );
    cx.set(gru_unit::GATE, &x, dtype);
    cx.set(gru_unit::RESET, &[x[0], n], dtype);
    cx.set(gru_unit::HIDDEN, &[x[0], n], dtype);
    Ok(())
}

/// Calls `f` with the network of the tensors and attributes.
fn with_net<T: GemmFloat + Element, R>(
    op: &str,
    config: &GruConfig,
    batches: &Batches,
    weight: &Tensor,
    h0: Option<&Tensor>,
    f: impl FnOnce(&Net<T>) -> R,
) -> Result<R> {
    let width = weight.dims()[0] as usize;
    let first = initial_state::<T>(op, batches, h0, width)?;
    Ok(f(&Net {
        batches,
        width,
        weight: weight.data::<T>(),
        gate: config.gate,
        candidate: config.candidate,
        origin: config.origin,
        first: first.as_deref(),
    }))
}

/// Gates, reset states and states, in the order of steps.
fn compute(
    cx: &KernelContext,
    config: &GruConfig,
    batches: &Batches,
    (x, h0, weight, bias): (&Tensor, Option<&Tensor>, &Tensor, Option<&Tensor>),
) -> Result<[Tensor; 3]> {
    let n = weight.dims()[0];
    let mut gates = Tensor::empty(x.dtype(), x.dims())?;
    let (mut reset, mut hidden) =
        (Tensor::empty(x.dtype(), &[x.dims()[0], n])?, Tensor::empty(x.dtype(), &[x.dims()[0], n])?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let bias = bias.map(|b| b.data::<T>());
        let to = gates.data_mut::<T>()?;
        sums(batches, x.data::<T>(), bias, 3 * n as usize, to);
        let (reset, hidden) = (reset.data_mut::<T>()?, hidden.data_mut::<T>()?);
        with_net::<T, _>(cx.op.name, config, batches, weight, h0, |net| net.forward(to, reset, hidden))?;
    }, other => return cx.unsupported(other));
    Ok([gates, reset, hidden])
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let config = config(cx.op.name, cx.attrs::<GruAttrs>())?;
    let (x, weight) = (cx.input(gru::INPUT)?, cx.input(gru::WEIGHT)?);
    let batches = Batches::new(&offsets(cx.op.name, "Input", x)?, cx.attrs::<GruAttrs>().is_reverse);
    let outputs = compute(cx, &config, &batches, (x, cx.opt(gru::H0), weight, cx.opt(gru::BIAS)))?;
    let n = weight.dims()[0] as usize;
    dispatch!(x.dtype(), T in [f32, f64], {
        batches.scatter(outputs[2].data::<T>(), n, cx.out_data::<T>(gru::HIDDEN)?);
    }, other => return cx.unsupported(other));
    cx.set_wanted([gru::GATE, gru::RESET, gru::STATES].into_iter().zip(outputs));
    Ok(())
}

fn run_unit(cx: &mut KernelContext) -> Result<()> {
    let config = unit_config(cx.op.name, cx.attrs::<GruUnitAttrs>())?;
    let (x, weight) = (cx.input(gru_unit::INPUT)?, cx.input(gru_unit::WEIGHT)?);
    let batches = Batches::one(x.dims()[0] as usize);
    let before = cx.input(gru_unit::BEFORE)?;
    let outputs = compute(cx, &config, &batches, (x, Some(before), weight, cx.opt(gru_unit::BIAS)))?;
    cx.set_wanted([gru_unit::GATE, gru_unit::RESET, gru_unit::HIDDEN].into_iter().zip(outputs));
    Ok(())
}

/// Inputs of the gradient operators: gates, reset states and states in step order, the gradient in sequence order.
struct Back<'a> {
    weight: &'a Tensor,
    h0: Option<&'a Tensor>,
    gates: &'a Tensor,
    reset: &'a Tensor,
    states: Option<&'a Tensor>,
    dout: &'a Tensor,
}

fn compute_grad(
    cx: &mut KernelContext,
    config: &GruConfig,
    batches: &Batches,
    back: &Back,
    [dx, dh0, dweight, dbias]: [OutSlot; 4],
) -> Result<()> {
    let (op, dtype) = (cx.op.name, back.gates.dtype());
    let n = back.weight.dims().first().copied().unwrap_or(0);
    let rows = batches.rows.len() as i64;
    like(cx, back.weight, &[n, 3 * n], dtype, "Weight")?;
    like(cx, back.gates, &[rows, 3 * n], dtype, "what the operator left of its gates")?;
    for t in [Some(back.reset), back.states, Some(back.dout)].into_iter().flatten() {
        like(cx, t, &[rows, n], dtype, "what the operator left, and the gradient,")?;
    }
    let width = n as usize;
    let mut taken = Vec::new();
    for slot in [dx, dh0, dweight, dbias] {
        taken.push(if cx.wants(slot) { Some(cx.take_out(slot)?) } else { None });
    }
    dispatch!(dtype, T in [f32, f64], {
        let mut dhidden = vec![0.0 as T; rows as usize * width];
        batches.gather(back.dout.data::<T>(), width, &mut dhidden);
        let mut d = vec![0.0 as T; rows as usize * 3 * width];
        let mut first = vec![0.0 as T; batches.order.len() * width];
        {
            let [_, _, w, b] = &mut taken[..] else { unreachable!("four outputs") };
            let grads = Grads {
                weight: w.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
                bias: b.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
                first: Some(&mut first),
            };
            // A single step has no previous states.
            let states = back.states.unwrap_or(back.reset).data::<T>();
            let (gates, reset) = (back.gates.data::<T>(), back.reset.data::<T>());
            with_net::<T, _>(op, config, batches, back.weight, back.h0, |net| {
                net.backward(gates, reset, states, &mut dhidden, &mut d, grads)
            })?;
        }
        if let Some(t) = &mut taken[0] {
            batches.scatter(&d, 3 * width, t.data_mut::<T>()?);
        }
        if let Some(t) = &mut taken[1] {
            batches.scatter_first(&first, width, 0.0, t.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    let slots = [dx, dh0, dweight, dbias];
    cx.set_wanted(slots.into_iter().zip(taken).filter_map(|(slot, t)| Some((slot, t?))));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use gru_grad::*;
    let config = config(cx.op.name, cx.attrs::<GruAttrs>())?;
    let out = cx.input(HIDDEN)?;
    let batches = Batches::new(&offsets(cx.op.name, "Hidden", out)?, cx.attrs::<GruAttrs>().is_reverse);
    let back = Back {
        weight: cx.input(WEIGHT)?,
        h0: cx.opt(H0),
        gates: cx.input(GATE)?,
        reset: cx.input(RESET)?,
        states: Some(cx.input(STATES)?),
        dout: cx.input(DHIDDEN)?,
    };
    compute_grad(cx, &config, &batches, &back, [DINPUT, DH0, DWEIGHT, DBIAS])
}

fn run_unit_grad(cx: &mut KernelContext) -> Result<()> {
    use gru_unit_grad::*;
    let config = unit_config(cx.op.name, cx.attrs::<GruUnitAttrs>())?;
    let before = cx.input(BEFORE)?;
    let batches = Batches::one(before.dims().first().copied().unwrap_or(0) as usize);
    let back = Back {
        weight: cx.input(WEIGHT)?,
        h0: Some(before),
        gates: cx.input(GATE)?,
        reset: cx.input(RESET)?,
        states: None,
        dout: cx.input(DHIDDEN)?,
    };
    compute_grad(cx, &config, &batches, &back, [DINPUT, DBEFORE, DWEIGHT, DBIAS])
}

pub static GRU: Op = Op {
    name: "gru",
    inputs: gru::INS,
    outputs: gru::OUTS,
    attrs: GruAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&GRU_GRAD),
    ..OP
};

pub static GRU_GRAD: Op = Op {
    name: "gru_grad",
    inputs: gru_grad::INS,
    outputs: gru_grad::OUTS,
    attrs: GruAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static GRU_UNIT: Op = Op {
    name: "gru_unit",
    inputs: gru_unit::INS,
    outputs: gru_unit::OUTS,
    attrs: GruUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_unit,
    cpu: Kernel::Pure(run_unit),
    grad: Grad::By(&GRU_UNIT_GRAD),
    ..OP
};

pub static GRU_UNIT_GRAD: Op = Op {
    name: "gru_unit_grad",
    inputs: gru_unit_grad::INS,
    outputs: gru_unit_grad::OUTS,
    attrs: GruUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(run_unit_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&GRU, &GRU_GRAD, &GRU_UNIT, &GRU_UNIT_GRAD];
