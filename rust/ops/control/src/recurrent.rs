//! recurrent: runs a block for each step of its inputs and passes states from step to step (`StaticRNN`). The gradient
//! runs the gradient block in the scopes of the steps in reverse order.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::{grad_name, EMPTY};
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::attrs::BlockRef;
use oar_core::op::infer::{grads_like_inputs, Meta, VarKind};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::{Scope, Tensor, Value, VarStorage};
use oar_core::{bail, ensure, err, slots};
use oar_ops_common::elements::part;
use oar_ops_common::sum::add_values;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

attrs! {
    pub struct HelperAttrs { dtype: i32 = 5 }
    pub struct RecurrentAttrs {
        has_states: bool = false, ex_states: Vec<String>, states: Vec<String>, sub_block: BlockRef, reverse: bool = false,
        is_train: bool = true, skip_eager_deletion_vars: Vec<String> = vec![],
    }
}

slots! {
    mod helper { X "X" => OUT "Out".kernel_allocated() }
    mod helper_grad { DOUT "Out@GRAD", X "X".meta_only(), OUT "Out".meta_only() => DX "X@GRAD".kernel_allocated() }
    mod recurrent {
        INPUTS "inputs".duplicable(), STATES "initial_states".duplicable(), PARAMETERS "parameters".duplicable()
        => OUTPUTS "outputs".duplicable().kernel_allocated(), STEP_SCOPES "step_scopes".kernel_allocated()
    }
    mod recurrent_grad {
        INPUTS "inputs".duplicable(), STATES "initial_states".duplicable(), PARAMETERS "parameters".duplicable(), OUTPUTS "outputs".duplicable(),
        STEP_SCOPES "step_scopes", DOUTPUTS "outputs@GRAD".duplicable()
        => DINPUTS "inputs@GRAD".duplicable().kernel_allocated(), DSTATES "initial_states@GRAD".duplicable().kernel_allocated(),
        DPARAMETERS "parameters@GRAD".duplicable().kernel_allocated()
    }
}

// rnn_memory_helper: a copy whose gradient is zeros if `Out@GRAD` is absent, as for the states of the last step.

pub static RNN_MEMORY_HELPER: Op = Op {
    name: "rnn_memory_helper",
    inputs: helper::INS,
    outputs: helper::OUTS,
    attrs: HelperAttrs::FIELDS,
    infer: oar_core::op::infer::like_first,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(helper::X)?.share()?;
        cx.set(helper::OUT, x);
        Ok(())
    }),
    grad: Grad::By(&RNN_MEMORY_HELPER_GRAD),
    ..OP
};

pub static RNN_MEMORY_HELPER_GRAD: Op = Op {
    name: "rnn_memory_helper_grad",
    inputs: helper_grad::INS,
    outputs: helper_grad::OUTS,
    attrs: HelperAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(helper_grad::X)?;
        let dx = match cx.opt(helper_grad::DOUT) {
            Some(d) => d.share()?,
            None => Tensor::zeros(x.dtype(), x.dims())?,
        };
        cx.set(helper_grad::DX, dx.with_lod(x.lod.clone()));
        Ok(())
    }),
    ..OP
};

/// The scopes of the steps, in order; empty in inference.
#[derive(Default)]
struct Steps(Mutex<Vec<Arc<Scope>>>);

/// The number of steps: the first size of every input.
fn length(cx: &KernelContext, slot: InSlot) -> Result<usize> {
    let inputs = cx.inputs(slot)?;
    let Some(first) = inputs.first() else { bail!(InvalidArgument, "operator {}: there must be an input", cx.op.name) };
    for t in &inputs {
        ensure!(
            t.rank() > 0 && t.dims()[0] == first.dims()[0],
            InvalidArgument,
            "operator {}: all inputs must have as many steps (their first size), got {first:?} and {t:?}",
            cx.op.name
        );
    }
    Ok(first.dims()[0] as usize)
}

/// Step `at` of a tensor, without the first dimension.
fn step(t: &Tensor, at: usize) -> Result<Tensor> {
    let dims = &t.dims()[1..];
    part(t, at * dims.iter().product::<i64>() as usize, dims)
}

fn bind(scope: &Scope, name: &str, value: Value) {
    scope.bind(name, Arc::new(VarStorage::new(value)));
}

fn local(scope: &Scope, name: &str) -> Value {
    scope.find_local(name).map(|cell| cell.get()).unwrap_or_default()
}

/// The outputs of the steps, stacked along a new first dimension; `None` before the first step.
struct Stacked(Option<Tensor>);

impl Stacked {
    fn put(&mut self, op: &str, name: &str, steps: usize, at: usize, value: &Value) -> Result<()> {
        let Value::Dense(t) = value else { bail!(NoValue, "operator {op}: a step has not written '{name}'") };
        let mut dims = Dims::from_slice(&[steps as i64]);
        dims.extend_from_slice(t.dims());
        if self.0.is_none() {
            self.0 = Some(Tensor::zeros(t.dtype(), &dims)?);
        }
        let Some(whole) = &mut self.0 else { return Ok(()) };
        ensure!(
            whole.dims() == &dims[..] && whole.dtype() == t.dtype(),
            InvalidArgument,
            "operator {op}: '{name}' must be alike in all steps, got {t:?} in one of {whole:?}"
        );
        let n = t.nbytes();
        whole.bytes_mut()?[at * n..][..n].copy_from_slice(t.bytes());
        Ok(())
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (frame, a) = (cx.frame()?, cx.attrs::<RecurrentAttrs>());
    let steps = length(cx, recurrent::INPUTS)?;
    let (inputs, outputs) = (cx.env.names("inputs"), cx.env.names("outputs"));
    let initial = cx.values(recurrent::STATES);
    ensure!(
        !a.has_states || (a.ex_states.len() == initial.len() && a.states.len() == initial.len()),
        InvalidArgument,
        "operator {op}: there are {} initial states, {} states and {} states of the step before",
        initial.len(),
        a.states.len(),
        a.ex_states.len()
    );
    let steps_run = Steps::default();
    let mut wholes: Vec<Stacked> = outputs.iter().map(|_| Stacked(None)).collect();
    let mut before: Option<Arc<Scope>> = None;
    for i in 0..steps {
        cx.env.check_interrupt()?;
        let at = if a.reverse { steps - 1 - i } else { i };
        let scope = frame.scope.child();
        for (name, t) in inputs.iter().zip(cx.inputs(recurrent::INPUTS)?) {
            bind(&scope, name, Value::Dense(step(t, at)?));
        }
        if a.has_states {
            for (k, (ex, state)) in a.ex_states.iter().zip(&a.states).enumerate() {
                let value = before.as_ref().map_or_else(|| initial[k].clone(), |s| local(s, state));
                bind(&scope, ex, value);
            }
        }
        let done = cx.env.run_block(a.sub_block.0, &scope);
        let old = before.replace(scope.clone());
        match a.is_train {
            true => steps_run.0.lock().push(scope.clone()),
            false => old.iter().for_each(|s| frame.scope.drop_kid(s)),
        }
        done?;
        for (whole, name) in wholes.iter_mut().zip(&outputs) {
            whole.put(op, name, steps, at, &local(&scope, name))?;
        }
    }
    if let (false, Some(last)) = (a.is_train, &before) {
        frame.scope.drop_kid(last);
    }
    for (k, whole) in wholes.into_iter().enumerate() {
        if let Some(t) = whole.0 {
            cx.set_nth(recurrent::OUTPUTS, k, t);
        }
    }
    cx.set(recurrent::STEP_SCOPES, Value::Opaque(Arc::new(steps_run)));
    Ok(())
}

/// The outputs have their metas where they are declared.
fn infer(cx: &mut ShapeContext) -> Result<()> {
    ensure!(cx.count(recurrent::INPUTS) > 0, InvalidArgument, "operator recurrent: there must be an input");
    cx.set_meta(recurrent::STEP_SCOPES, 0, Meta { kind: VarKind::Other, ..Meta::default() });
    Ok(())
}

pub static RECURRENT: Op = Op {
    name: "recurrent",
    inputs: recurrent::INS,
    outputs: recurrent::OUTS,
    attrs: RecurrentAttrs::FIELDS,
    infer,
    cpu: Kernel::Control(run),
    grad: Grad::Program(grad_desc),
    ..OP
};

fn grad_desc(fwd: &OpDesc, no_grad: &HashSet<String>, blocks: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let [grad_block] = blocks else { bail!(InvalidArgument, "the gradient of recurrent needs its gradient block") };
    let mut g = OpDesc::new("recurrent_grad");
    for slot in ["inputs", "initial_states", "parameters"] {
        let names = fwd.input(slot).unwrap_or(&[]).to_vec();
        let grads = names.iter().map(|n| grad_name(n));
        let grads = grads.map(|n| if no_grad.contains(&n) { EMPTY.to_string() } else { n }).collect();
        g.set_output(&grad_name(slot), grads);
        g.set_input(slot, names);
    }
    let outputs = fwd.output("outputs").unwrap_or(&[]).to_vec();
    g.set_input("outputs@GRAD", outputs.iter().map(|n| grad_name(n)).collect());
    g.set_input("outputs", outputs);
    g.set_input("step_scopes", fwd.output("step_scopes").unwrap_or(&[]).to_vec());
    for (name, value) in fwd.attrs.iter().filter(|(n, _)| RECURRENT.attrs.field(n).is_some()) {
        g.attrs.insert(name, value.clone());
    }
    g.attrs.insert("sub_block", Attr::Block(grad_block.idx()));
    Ok(vec![g])
}

/// Takes the scopes of the forward run.
fn scopes(cx: &KernelContext) -> Result<Vec<Arc<Scope>>> {
    let scopes = match cx.value(recurrent_grad::STEP_SCOPES)? {
        Value::Opaque(scopes) => scopes.downcast_ref::<Steps>().map(|s| std::mem::take(&mut *s.0.lock())),
        _ => None,
    };
    scopes.ok_or_else(|| err!(PreconditionNotMet, "operator recurrent_grad: step_scopes holds no steps"))
}

/// The gradient of variable `i` of a slot in this scope, if the step computed it and it is requested.
fn gradient(cx: &KernelContext, scope: &Scope, slot: OutSlot, i: usize, name: &str) -> Option<Value> {
    let value = if cx.wants_nth(slot, i) { local(scope, &grad_name(name)) } else { Value::None };
    (!value.is_none()).then_some(value)
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let (frame, a) = (cx.frame()?, cx.attrs::<RecurrentAttrs>());
    let steps = length(cx, recurrent_grad::INPUTS)?;
    let scopes = scopes(cx)?;
    ensure!(
        scopes.len() == steps,
        PreconditionNotMet,
        "operator {op}: {steps} steps are required, but the forward run saved {}",
        scopes.len()
    );
    let (inputs, outputs) = (cx.env.names("inputs"), cx.env.names("outputs"));
    let (initial, parameters) = (cx.env.names("initial_states"), cx.env.names("parameters"));
    let mut whole: Vec<Stacked> = inputs.iter().map(|_| Stacked(None)).collect();
    let mut totals: Vec<Option<Value>> = vec![None; parameters.len()];
    let mut after: Option<&Arc<Scope>> = None;
    for (i, scope) in scopes.iter().enumerate().rev() {
        cx.env.check_interrupt()?;
        let at = if a.reverse { steps - 1 - i } else { i };
        for (name, d) in outputs.iter().zip(cx.values(recurrent_grad::DOUTPUTS)) {
            if let Value::Dense(d) = d {
                ensure!(
                    d.rank() > 0 && d.dims()[0] as usize == steps,
                    InvalidArgument,
                    "operator {op}: the gradient of '{name}' must have {steps} steps, got {d:?}"
                );
                bind(scope, &grad_name(name), Value::Dense(step(d, at)?));
            }
        }
        if let (Some(after), true) = (after, a.has_states) {
            for (ex, state) in a.ex_states.iter().zip(&a.states) {
                bind(scope, &grad_name(state), local(after, &grad_name(ex)));
            }
        }
        cx.env.run_block(a.sub_block.0, scope)?;
        for (k, name) in parameters.iter().enumerate() {
            let Some(value) = gradient(cx, scope, recurrent_grad::DPARAMETERS, k, name) else { continue };
            totals[k] = Some(match totals[k].take() {
                None => value,
                Some(sum) => add_values(sum, &value)?,
            });
        }
        for (k, name) in inputs.iter().enumerate() {
            if let Some(value) = gradient(cx, scope, recurrent_grad::DINPUTS, k, name) {
                whole[k].put(op, name, steps, at, &value)?;
            }
        }
        after = Some(scope);
    }
    if let (Some(first), true) = (after, a.has_states) {
        for (k, ex) in a.ex_states.iter().enumerate().take(initial.len()) {
            match gradient(cx, first, recurrent_grad::DSTATES, k, ex) {
                Some(value) => cx.set_nth(recurrent_grad::DSTATES, k, value),
                None => set_zeros(cx, recurrent_grad::STATES, recurrent_grad::DSTATES, k)?,
            }
        }
    }
    for scope in &scopes {
        frame.scope.drop_kid(scope);
    }
    for (k, total) in totals.into_iter().enumerate() {
        match total {
            Some(total) => cx.set_nth(recurrent_grad::DPARAMETERS, k, total),
            None => set_zeros(cx, recurrent_grad::PARAMETERS, recurrent_grad::DPARAMETERS, k)?,
        }
    }
    for (k, whole) in whole.into_iter().enumerate() {
        match whole.0 {
            Some(t) => cx.set_nth(recurrent_grad::DINPUTS, k, t),
            None => set_zeros(cx, recurrent_grad::INPUTS, recurrent_grad::DINPUTS, k)?,
        }
    }
    Ok(())
}

/// The gradient of a value that the steps use without a gradient: zeros.
fn set_zeros(cx: &mut KernelContext, input: InSlot, grad: OutSlot, k: usize) -> Result<()> {
    let zeros = match cx.values(input).get(k) {
        Some(Value::Dense(t)) if cx.wants_nth(grad, k) => Tensor::zeros(t.dtype(), t.dims())?.with_lod(t.lod.clone()),
        _ => return Ok(()),
    };
    cx.set_nth(grad, k, zeros);
    Ok(())
}

/// Gradients have the metas of their variables.
fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use recurrent_grad::{DINPUTS, DPARAMETERS, DSTATES, INPUTS, PARAMETERS, STATES};
    for (input, grad) in [(INPUTS, DINPUTS), (STATES, DSTATES), (PARAMETERS, DPARAMETERS)] {
        for i in 0..cx.outs(grad) {
            let Ok(m) = cx.meta(input, i) else { continue };
            cx.set_meta(grad, i, m);
        }
    }
    Ok(())
}

pub static RECURRENT_GRAD: Op = Op {
    name: "recurrent_grad",
    inputs: recurrent_grad::INS,
    outputs: recurrent_grad::OUTS,
    attrs: RecurrentAttrs::FIELDS,
    infer: infer_grad,
    cpu: Kernel::Control(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&RNN_MEMORY_HELPER, &RNN_MEMORY_HELPER_GRAD, &RECURRENT, &RECURRENT_GRAD];
