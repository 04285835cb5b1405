//! while and conditional_block: operators that run sub-blocks, with their gradients.
//!
//! A training `while` keeps one scope per step. It holds the variables that the block declares, and the values before
//! the step of its inputs. The gradient block runs in the same scopes in reverse order; in it `v@GRAD` is at first the
//! gradient of the value after the step, at last of the value before the step.

use oar_core::attrs;
use oar_core::base::{DType, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::names::{grad_name, EMPTY, SUFFIX};
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::attrs::BlockRef;
use oar_core::op::infer::{Meta, VarKind};
use oar_core::op::run::Frame;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{Scope, Tensor, Value, VarStorage};
use oar_core::{bail, ensure, err, slots};
use oar_ops_common::sum::add_values;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

attrs! {
    pub struct WhileAttrs { sub_block: BlockRef, is_test: bool = false, skip_eager_deletion_vars: Vec<String> = vec![] }
    pub struct WhileGradAttrs {
        sub_block: BlockRef, is_test: bool = false, skip_eager_deletion_vars: Vec<String> = vec![],
        original_output_grad: Vec<String> = vec![],
        // Arrays with versions: as with tensors, what a step leaves in the gradient is all of it.
        versioned_arrays: Vec<String> = vec![],
    }
    pub struct ConditionalAttrs {
        sub_block: BlockRef, is_scalar_condition: bool = false, skip_eager_deletion_vars: Vec<String> = vec![],
    }
}

slots! {
    // The block writes variables of the scope: no outputs are allocated.
    mod while_loop { X "X".duplicable(), CONDITION "Condition".duplicable() => OUT "Out".duplicable().kernel_allocated(), STEP_SCOPES "StepScopes".kernel_allocated() }
    mod while_grad {
        X "X".duplicable(), OUT "Out".duplicable(), STEP_SCOPES "StepScopes", DOUT "Out@GRAD".duplicable() => DX "X@GRAD".duplicable().kernel_allocated()
    }
    mod conditional { COND "Cond".duplicable(), INPUT "Input".duplicable() => OUT "Out".duplicable().kernel_allocated(), SCOPE "Scope".kernel_allocated() }
    mod conditional_grad {
        COND "Cond".duplicable(), INPUT "Input".duplicable(), OUT "Out".duplicable(), DOUT "Out@GRAD".duplicable(), SCOPE "Scope"
        => DINPUT "Input@GRAD".duplicable().kernel_allocated()
    }
}

/// The value of a STEP_SCOPES variable; it owns the scopes.
#[derive(Default)]
pub struct StepScopes(Mutex<Vec<Arc<Scope>>>);

fn step_scopes(v: &Value) -> Option<&StepScopes> {
    match v {
        Value::Opaque(o) => o.downcast_ref(),
        _ => None,
    }
}

fn condition(op: &str, v: &Value) -> Result<bool> {
    match v {
        Value::Dense(t) if t.dtype() == DType::Bool && t.numel() == 1 => Ok(t.bytes()[0] != 0),
        Value::Dense(t) => {
            bail!(
                InvalidArgument,
                "operator {op}: the condition must be one bool, got {} of shape {:?}",
                t.dtype(),
                t.dims()
            )
        }
        other => bail!(InvalidArgument, "operator {op}: the condition must be one bool, got {}", other.what()),
    }
}

/// Variables that an `increment` of the gradient block takes back by a step, as in Programs of Paddle 2.0.2: they change
/// in the outer scope, and what the step scope holds is not read.
fn taken_back(frame: &Frame, grad_block: i32) -> Vec<String> {
    let mut names = Vec::new();
    for op in frame.program.block(grad_block).map(|b| b.all_ops()).unwrap_or_default() {
        let op = op.read();
        if op.op_type == "increment" && op.input("X") == op.output("Out") {
            names.extend(op.input("X").unwrap_or(&[]).iter().cloned());
        }
    }
    names
}

fn run_while(cx: &mut KernelContext) -> Result<()> {
    let frame = cx.frame()?;
    let a = cx.attrs::<WhileAttrs>();
    let names = cx.env.names("Condition");
    let name = names.first().ok_or_else(|| err!(NotFound, "operator while has no Condition"))?;
    let cell = frame.scope.find(name).ok_or_else(|| err!(NotFound, "operator while: no variable '{name}'"))?;
    let block = a.sub_block.0;
    let steps = Arc::new(StepScopes::default());
    if a.is_test {
        let scope = frame.scope.child();
        let mut result = Ok(());
        while result.is_ok() && condition("while", &cell.get())? {
            scope.clear();
            result = cx.env.check_interrupt().and_then(|()| cx.env.run_block(block, &scope));
        }
        frame.scope.drop_kid(&scope);
        result?;
    } else {
        let remembered: Vec<(String, Arc<VarStorage>)> =
            cx.env.names("X").into_iter().filter_map(|n| frame.scope.find(&n).map(|c| (n, c))).collect();
        while condition("while", &cell.get())? {
            cx.env.check_interrupt()?;
            let scope = frame.scope.child();
            steps.0.lock().push(scope.clone());
            let before: Vec<Value> = remembered.iter().map(|(_, c)| c.get()).collect();
            cx.env.run_block(block, &scope)?;
            for ((n, _), v) in remembered.iter().zip(before) {
                if matches!(v, Value::Dense(_)) {
                    scope.bind(n, Arc::new(VarStorage::new(v)));
                }
            }
        }
    }
    cx.set(while_loop::STEP_SCOPES, Value::Opaque(steps));
    Ok(())
}

/// The block's variables have their metas where they are declared; StepScopes is not a tensor.
fn scopes(cx: &mut ShapeContext, slot: OutSlot) -> Result<()> {
    cx.set_meta(slot, 0, Meta { kind: VarKind::Other, ..Meta::default() });
    Ok(())
}

pub static WHILE: Op = Op {
    name: "while",
    inputs: while_loop::INS,
    outputs: while_loop::OUTS,
    attrs: WhileAttrs::FIELDS,
    infer: |cx| scopes(cx, while_loop::STEP_SCOPES),
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Control(run_while),
    grad: Grad::Program(while_grad_desc),
    ..OP
};

fn strings(names: &[String]) -> Attr {
    Attr::Strings(names.to_vec())
}

fn while_grad_desc(fwd: &OpDesc, _no_grad: &HashSet<String>, blocks: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let [grad_block] = blocks else { bail!(InvalidArgument, "the gradient of while needs its gradient block") };
    let ops = grad_block.all_ops();
    let written: HashSet<String> =
        ops.iter().flat_map(|o| o.read().outputs.iter().flat_map(|(_, v)| v.clone()).collect::<Vec<_>>()).collect();
    let xs = fwd.input("X").unwrap_or(&[]).to_vec();
    let outs = fwd.output("Out").unwrap_or(&[]).to_vec();
    let x_grads: Vec<String> =
        xs.iter().map(|n| grad_name(n)).map(|g| if written.contains(&g) { g } else { EMPTY.to_string() }).collect();
    // Gradients that the block reads but does not compute come from outside.
    let mut known: HashSet<String> = xs.iter().chain(&outs).cloned().collect();
    let (fwd_block, parent) = (grad_block.forward_block(), grad_block.parent());
    let declared = |n: &str| [&fwd_block, &parent].into_iter().flatten().any(|b| b.find_var_recursive(n).is_some());
    let mut from_outside: Vec<String> = Vec::new();
    for op in &ops {
        let op = op.read();
        for n in op.inputs.iter().flat_map(|(_, v)| v) {
            if !known.contains(n) && !declared(n) && n != EMPTY && !from_outside.contains(n) {
                from_outside.push(n.clone());
            }
        }
        known.extend(op.outputs.iter().flat_map(|(_, v)| v.iter().cloned()));
    }
    let mut g = OpDesc::new("while_grad");
    g.set_input("X", xs);
    g.set_input("Out", outs);
    g.set_input("StepScopes", fwd.output("StepScopes").unwrap_or(&[]).to_vec());
    g.set_input("Out@GRAD", from_outside.clone());
    g.set_output("X@GRAD", x_grads);
    g.attrs.insert("sub_block", Attr::Block(grad_block.idx()));
    g.attrs.insert("is_test", fwd.attrs.get("is_test").cloned().unwrap_or(Attr::Boolean(false)));
    g.attrs.insert("original_output_grad", strings(&from_outside));
    g.attrs.insert("skip_eager_deletion_vars", Attr::Strings(Vec::new()));
    Ok(vec![g])
}

fn run_while_grad(cx: &mut KernelContext) -> Result<()> {
    let frame = cx.frame()?;
    let a = cx.attrs::<WhileGradAttrs>();
    ensure!(!a.is_test, InvalidArgument, "operator while_grad: the forward while operator ran with is_test");
    let scopes =
        cx.values(while_grad::STEP_SCOPES).first().and_then(step_scopes).map(|s| std::mem::take(&mut *s.0.lock()));
    let scopes = scopes.ok_or_else(|| err!(PreconditionNotMet, "operator while_grad: StepScopes holds no steps"))?;
    let outside = cx.env.names("Out@GRAD");
    ensure!(
        outside.len() == a.original_output_grad.len(),
        InvalidArgument,
        "operator while_grad: {} gradients come from outside, {} are read inside",
        outside.len(),
        a.original_output_grad.len()
    );
    let (xs, x_grads) = (cx.env.names("X"), cx.env.names("X@GRAD"));
    let mut carried = Vec::new();
    for (k, (out, inside)) in outside.iter().zip(&a.original_output_grad).enumerate() {
        carried.push(match cx.values(while_grad::DOUT).get(k) {
            Some(value) if !value.is_none() => value.clone(),
            _ => {
                start_from_zeros(&frame.scope, out, inside, &a.versioned_arrays)?;
                frame.scope.find(out).map(|cell| cell.get()).unwrap_or_default()
            }
        });
    }
    let is_versioned = |value: &Value, grad: &String| {
        matches!(value, Value::Array(_))
            && grad.strip_suffix(SUFFIX).is_some_and(|x| a.versioned_arrays.iter().any(|n| n == x))
    };
    let mut totals: Vec<Option<Value>> = vec![None; x_grads.len()];
    let taken_back = taken_back(&frame, a.sub_block.0);
    for scope in scopes.iter().rev() {
        cx.env.check_interrupt()?;
        scope.erase(&taken_back);
        for (value, inside) in carried.iter().zip(&a.original_output_grad) {
            if !value.is_none() {
                scope.bind(inside, Arc::new(VarStorage::new(value.clone())));
            }
        }
        cx.env.run_block(a.sub_block.0, scope)?;
        // The block's result for an outside gradient is the input of the preceding step.
        for (value, inside) in carried.iter_mut().zip(&a.original_output_grad) {
            let Some(written) = scope.find_local(inside).map(|cell| cell.get()) else { continue };
            let same = |t: &Tensor| written.as_dense().is_some_and(|w| w.dims() == t.dims() && w.dtype() == t.dtype());
            if value.as_dense().is_some_and(same) || is_versioned(&written, inside) {
                *value = written;
            }
        }
        for (i, (x, x_grad)) in xs.iter().zip(&x_grads).enumerate() {
            if x_grad == EMPTY {
                continue;
            }
            let name = grad_name(x);
            let inside = scope.find(&name).map(|c| c.get()).unwrap_or_default();
            let is_array = matches!(inside, Value::Array(_));
            if is_versioned(&inside, &name) && a.original_output_grad.contains(&name) {
                continue;
            }
            if inside.is_none() || is_array && array_is_empty(&inside) {
                continue;
            }
            // Outside gradients were passed from step to step; the others are summed over the steps.
            if !a.original_output_grad.contains(&name) {
                totals[i] = Some(match totals[i].take() {
                    None => inside,
                    Some(sum) => add_values(sum, &inside)?,
                });
            } else if is_array {
                let cell = frame.scope.find(x_grad).unwrap_or_else(|| frame.scope.var(x_grad));
                let sum = add_values(cell.get(), &inside)?;
                for (value, _) in carried.iter_mut().zip(&a.original_output_grad).filter(|(_, n)| **n == name) {
                    *value = sum.clone();
                }
                cell.set(sum);
            }
        }
        frame.scope.drop_kid(scope);
    }
    for ((out, inside), value) in outside.iter().zip(&a.original_output_grad).zip(carried) {
        if value.as_dense().is_none() && !is_versioned(&value, inside) {
            continue;
        }
        match xs.iter().zip(&x_grads).position(|(x, g)| g != EMPTY && grad_name(x) == *inside) {
            Some(i) => cx.set_nth(while_grad::DX, i, value),
            None => frame.scope.find(out).into_iter().for_each(|cell| cell.set(value.clone())),
        }
    }
    for (i, total) in totals.into_iter().enumerate() {
        let carries = a.original_output_grad.contains(&grad_name(&xs[i]));
        let value = match (total, cx.values(while_grad::X).get(i)) {
            (Some(total), _) => total,
            // No step has run, or none has used it with a gradient.
            (None, Some(x))
                if x.as_dense().is_some_and(|t| t.dtype().is_float()) && x_grads[i] != EMPTY && !carries =>
            {
                zeros_like(Some(x))?
            }
            _ => continue,
        };
        cx.set_nth(while_grad::DX, i, value);
    }
    Ok(())
}

/// An outside gradient that has no value is zeros: nothing after the loop reads that variable.
fn start_from_zeros(scope: &Arc<Scope>, out: &str, inside: &str, arrays: &[String]) -> Result<()> {
    if scope.find(out).is_some_and(|cell| !cell.get().is_none()) {
        return Ok(());
    }
    let name = inside.split(SUFFIX).next().unwrap_or_default();
    if arrays.iter().any(|n| n == name) {
        scope.var(out).set(Value::Array(Arc::default()));
        return Ok(());
    }
    let forward = scope.find(name);
    if let Some(Value::Dense(t)) = forward.map(|cell| cell.get()) {
        if t.dtype().is_float() {
            scope.var(out).set(Tensor::zeros(t.dtype(), t.dims())?.with_lod(t.lod.clone()));
        }
    }
    Ok(())
}

fn array_is_empty(v: &Value) -> bool {
    match v {
        Value::Array(a) => a.iter().all(|v| v.as_dense().is_none_or(|t| t.numel() == 0)),
        _ => false,
    }
}

/// Gradients have the metas of their variables, of any kind.
fn infer_grads(cx: &mut ShapeContext, input: InSlot, grad: OutSlot) -> Result<()> {
    for i in 0..cx.outs(grad) {
        let Ok(m) = cx.meta(input, i) else { continue };
        cx.set_meta(grad, i, m);
    }
    Ok(())
}

pub static WHILE_GRAD: Op = Op {
    name: "while_grad",
    inputs: while_grad::INS,
    outputs: while_grad::OUTS,
    attrs: WhileGradAttrs::FIELDS,
    infer: |cx| infer_grads(cx, while_grad::X, while_grad::DX),
    cpu: Kernel::Control(run_while_grad),
    sparse_kernel: SparseKernel::Same,
    ..OP
};

fn should_run(cx: &KernelContext, scalar: bool) -> Result<bool> {
    if scalar {
        let [v] = cx.values(conditional::COND) else {
            bail!(InvalidArgument, "operator {}: a scalar condition is one variable", cx.op.name)
        };
        return condition(cx.op.name, v);
    }
    Ok(cx.values(conditional::INPUT).iter().all(|v| v.as_dense().is_some_and(|t| t.numel() != 0)))
}

fn run_conditional(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ConditionalAttrs>();
    let frame = cx.frame()?;
    let steps = StepScopes::default();
    if should_run(cx, a.is_scalar_condition)? {
        let scope = frame.scope.child();
        steps.0.lock().push(scope.clone());
        cx.env.run_block(a.sub_block.0, &scope)?;
    }
    cx.set(conditional::SCOPE, Value::Opaque(Arc::new(steps)));
    Ok(())
}

pub static CONDITIONAL_BLOCK: Op = Op {
    name: "conditional_block",
    inputs: conditional::INS,
    outputs: conditional::OUTS,
    attrs: ConditionalAttrs::FIELDS,
    infer: |cx| scopes(cx, conditional::SCOPE),
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Control(run_conditional),
    grad: Grad::Program(conditional_grad_desc),
    ..OP
};

/// The variant of inference Programs, without gradient.
pub static CONDITIONAL_BLOCK_INFER: Op = Op {
    name: "conditional_block_infer",
    inputs: conditional::INS,
    outputs: conditional::OUTS,
    attrs: ConditionalAttrs::FIELDS,
    infer: |cx| scopes(cx, conditional::SCOPE),
    sparse_kernel: SparseKernel::Same,
    cpu: Kernel::Control(run_conditional),
    ..OP
};

fn conditional_grad_desc(fwd: &OpDesc, no_grad: &HashSet<String>, blocks: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let [grad_block] = blocks else {
        bail!(InvalidArgument, "the gradient of conditional_block needs its gradient block")
    };
    let get = |names: Option<&[String]>| names.unwrap_or(&[]).to_vec();
    let mut g = OpDesc::new("conditional_block_grad");
    g.set_input("Cond", get(fwd.input("Cond")));
    g.set_input("Input", get(fwd.input("Input")));
    g.set_input("Out", get(fwd.output("Out")));
    g.set_input("Out@GRAD", get(fwd.output("Out")).iter().map(|n| grad_name(n)).collect());
    g.set_input("Scope", get(fwd.output("Scope")));
    let inputs = get(fwd.input("Input"));
    let grads = inputs.iter().map(|n| grad_name(n));
    g.set_output("Input@GRAD", grads.map(|n| if no_grad.contains(&n) { EMPTY.to_string() } else { n }).collect());
    g.attrs.insert("sub_block", Attr::Block(grad_block.idx()));
    let scalar = fwd.attrs.get("is_scalar_condition").cloned().unwrap_or(Attr::Boolean(false));
    g.attrs.insert("is_scalar_condition", scalar);
    Ok(vec![g])
}

fn run_conditional_grad(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ConditionalAttrs>();
    let frame = cx.frame()?;
    let inputs = cx.env.names("Input");
    if should_run(cx, a.is_scalar_condition)? {
        let scopes =
            cx.values(conditional_grad::SCOPE).first().and_then(step_scopes).map(|s| std::mem::take(&mut *s.0.lock()));
        let Some([scope]) = scopes.as_deref() else {
            bail!(PreconditionNotMet, "operator conditional_block_grad: the forward block has not run")
        };
        cx.env.run_block(a.sub_block.0, scope)?;
        for (i, n) in inputs.iter().enumerate() {
            let inside = scope.find_local(&grad_name(n)).map(|cell| cell.get()).unwrap_or_default();
            // The block has used the input without a gradient, or has replaced it: zeros.
            let value = if inside.is_none() { zeros_like(cx.values(conditional_grad::INPUT).get(i))? } else { inside };
            if !value.is_none() {
                cx.set_nth(conditional_grad::DINPUT, i, value);
            }
        }
        frame.scope.drop_kid(scope);
        return Ok(());
    }
    // The block has not run: what it would have replaced is as before, and so is the gradient.
    let outs = cx.env.names("Out");
    for (i, n) in inputs.iter().enumerate() {
        let arriving = outs.iter().position(|o| o == n).and_then(|k| cx.values(conditional_grad::DOUT).get(k)).cloned();
        let value = match arriving {
            Some(value) if !value.is_none() => value,
            _ => zeros_like(cx.values(conditional_grad::INPUT).get(i))?,
        };
        if !value.is_none() {
            cx.set_nth(conditional_grad::DINPUT, i, value);
        }
    }
    Ok(())
}

/// Zeros in the form of a value; none for what has no elements.
fn zeros_like(value: Option<&Value>) -> Result<Value> {
    Ok(match value {
        Some(Value::Dense(t)) => Value::Dense(Tensor::zeros(t.dtype(), t.dims())?.with_lod(t.lod.clone())),
        Some(Value::Array(items)) => {
            let zeros = items.iter().map(|v| match v {
                Value::Dense(t) => Ok(Value::Dense(Tensor::zeros(t.dtype(), t.dims())?)),
                _ => Ok(Value::None),
            });
            Value::Array(Arc::new(zeros.collect::<Result<Vec<_>>>()?))
        }
        _ => Value::None,
    })
}

pub static CONDITIONAL_BLOCK_GRAD: Op = Op {
    name: "conditional_block_grad",
    inputs: conditional_grad::INS,
    outputs: conditional_grad::OUTS,
    attrs: ConditionalAttrs::FIELDS,
    infer: |cx| infer_grads(cx, conditional_grad::INPUT, conditional_grad::DINPUT),
    cpu: Kernel::Control(run_conditional_grad),
    sparse_kernel: SparseKernel::Same,
    ..OP
};

pub static TABLE: &[&Op] =
    &[&WHILE, &WHILE_GRAD, &CONDITIONAL_BLOCK, &CONDITIONAL_BLOCK_INFER, &CONDITIONAL_BLOCK_GRAD];
