//! run_program: a block as one operator with a gradient. Loaded and translated Programs run through it in dygraph mode.
//!
//! The block holds the forward operators, then those that `gradients` appends: a shape and a constant for each result,
//! which the incoming gradients replace, and the gradient operators. Both parts run in one scope, the value of
//! OutScope, which sub-blocks read. Other forward values that the gradient part reads are kept in `ForwardRun`.

use oar_core::base::Result;
use oar_core::ir::names::grad_name;
use oar_core::ir::{BlockNode, Program};
use oar_core::op::attrs::BlockRef;
use oar_core::op::callbacks::{OpRange, RUN_OP_RANGE};
use oar_core::op::infer::{grads_like_inputs, Meta, VarKind};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, SparseKernel, OP};
use oar_core::tensor::{Scope, Value, VarStorage};
use oar_core::{attrs, bail, ensure, err, slots};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

attrs! {
    pub struct RunAttrs { global_block: BlockRef, start_op_index: i64, end_op_index: i64, is_test: bool = false }
}

slots! {
    mod fwd { X "X".duplicable(), PARAMS "Params".duplicable().dispensable() => OUT "Out".duplicable().kernel_allocated(), SCOPE "OutScope".not_returned().kernel_allocated() }
    mod grad {
        X "X".duplicable(), PARAMS "Params".duplicable().dispensable(), DOUT "Out@GRAD".duplicable(), SCOPE "OutScope"
        => DX "X@GRAD".duplicable().kernel_allocated(), DPARAMS "Params@GRAD".duplicable().kernel_allocated()
    }
}

/// The value of OutScope: the state that a call saves for its gradient.
struct ForwardRun {
    program: Arc<Program>,
    block: i32,
    /// The gradient operators.
    ops: Range<usize>,
    scope: Arc<Scope>,
    xs: Vec<String>,
    params: Vec<String>,
    outs: Vec<String>,
    /// Variables of the forward range that the gradient range reads.
    saved: Vec<(String, Value)>,
}

fn names_of(block: &BlockNode, ops: Range<usize>, written: bool) -> HashSet<String> {
    let mut names = HashSet::new();
    for op in block.all_ops().get(ops).unwrap_or_default() {
        let op = op.read();
        let slots = if written { &op.outputs } else { &op.inputs };
        names.extend(slots.iter().flat_map(|(_, v)| v).cloned());
    }
    names
}

fn run_part(
    op: &str,
    range: &OpRange,
    scope: &Arc<Scope>,
    feeds: Vec<(String, Value)>,
    fetches: &[String],
) -> Result<Vec<Value>> {
    let run = RUN_OP_RANGE.get().ok_or_else(|| err!(Unavailable, "operator {op}: no executor is installed"))?;
    run(range, scope, feeds, fetches)
}

/// The names of a slot's variables, one for each value.
fn names(cx: &KernelContext, slot: &str, count: usize) -> Result<Vec<String>> {
    let names = cx.env.names(slot);
    let (op, got) = (cx.op.name, names.len());
    ensure!(got == count, InvalidArgument, "operator {op}: '{slot}' has {count} variables, and names of {got}");
    Ok(names)
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<RunAttrs>());
    let program = cx.env.program();
    let program =
        program.ok_or_else(|| err!(PreconditionNotMet, "operator {op}: global_block is not a block of a Program"))?;
    let index = a.global_block.0;
    let block =
        program.block(index).ok_or_else(|| err!(NotFound, "operator {op}: the Program has no block {index}"))?;
    let (all, start, end) = (block.all_ops().len(), a.start_op_index, a.end_op_index);
    ensure!(
        0 <= start && start <= end && end <= all as i64,
        OutOfRange,
        "operator {op}: start_op_index and end_op_index must be places among {all} operators, got {start} and {end}"
    );
    let (start, end) = (start as usize, end as usize);
    let (xs, params) = (names(cx, "X", cx.values(fwd::X).len())?, names(cx, "Params", cx.values(fwd::PARAMS).len())?);
    let outs = names(cx, "Out", cx.n_outs(fwd::OUT))?;
    ensure!(!xs.is_empty(), NotFound, "operator {op}: input 'X' must not be empty");
    ensure!(!outs.is_empty(), NotFound, "operator {op}: output 'Out' must not be empty");
    let scope = Scope::new();
    for (i, (name, value)) in params.iter().zip(cx.values(fwd::PARAMS)).enumerate() {
        // Bind the variable storage: operators of the block may change it (statistics).
        scope.bind(name, cx.env.cell("Params", i).unwrap_or_else(|| Arc::new(VarStorage::new(value.clone()))));
    }
    // Skip the results' shapes and constants.
    let ops = (end + 2 * outs.len()).min(all)..all;
    let mut saved = Vec::new();
    if !a.is_test && cx.wants(fwd::SCOPE) {
        let mut both = names_of(&block, ops.clone(), false);
        let written = names_of(&block, start..end, true);
        both.retain(|n| written.contains(n) && !params.contains(n));
        saved.extend(both);
        saved.sort();
    }
    let fetches: Vec<String> = outs.iter().chain(&saved).cloned().collect();
    let feeds = xs.iter().cloned().zip(cx.values(fwd::X).iter().cloned()).collect();
    let range = OpRange { program: program.clone(), block: index, ops: start..end };
    let mut values = run_part(op, &range, &scope, feeds, &fetches)?;
    let saved = saved.into_iter().zip(values.split_off(outs.len())).collect();
    for (i, (value, name)) in values.into_iter().zip(&outs).enumerate() {
        ensure!(!value.is_none(), NotFound, "operator {op}: no operator of the block has written '{name}'");
        cx.set_nth(fwd::OUT, i, value);
    }
    cx.set(
        fwd::SCOPE,
        Value::Opaque(Arc::new(ForwardRun { program, block: index, ops, scope, xs, params, outs, saved })),
    );
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let state = match cx.value(grad::SCOPE)? {
        Value::Opaque(state) => state.clone(),
        other => {
            bail!(InvalidArgument, "operator {op}: OutScope must be an output of run_program, got {}", other.what())
        }
    };
    let Some(ran) = state.downcast_ref::<ForwardRun>() else {
        bail!(InvalidArgument, "operator {op}: OutScope must be an output of run_program")
    };
    let (xs, douts) = (cx.values(grad::X), cx.values(grad::DOUT));
    ensure!(
        xs.len() == ran.xs.len() && douts.len() == ran.outs.len(),
        InvalidArgument,
        "operator {op}: X and Out@GRAD must have {} and {} variables, as in the forward call, got {} and {}",
        ran.xs.len(),
        ran.outs.len(),
        xs.len(),
        douts.len()
    );
    let block =
        ran.program.block(ran.block).ok_or_else(|| err!(NotFound, "operator {op}: the Program no longer exists"))?;
    let written = names_of(&block, ran.ops.clone(), true);
    let mut wanted: Vec<(OutSlot, usize, String)> = Vec::new();
    for (slot, of) in [(grad::DX, &ran.xs), (grad::DPARAMS, &ran.params)] {
        let all = of.iter().enumerate().map(|(i, n)| (slot, i, grad_name(n)));
        wanted.extend(all.filter(|(_, i, n)| cx.wants_nth(slot, *i) && written.contains(n)));
    }
    let mut feeds = ran.saved.clone();
    feeds.extend(ran.xs.iter().cloned().zip(xs.iter().cloned()));
    feeds.extend(ran.outs.iter().map(|n| grad_name(n)).zip(douts.iter().cloned()));
    let fetches: Vec<String> = wanted.iter().map(|(_, _, n)| n.clone()).collect();
    let range = OpRange { program: ran.program.clone(), block: ran.block, ops: ran.ops.clone() };
    for ((slot, i, _), value) in wanted.into_iter().zip(run_part(op, &range, &ran.scope, feeds, &fetches)?) {
        cx.set_nth(slot, i, value);
    }
    Ok(())
}

pub static RUN_PROGRAM: Op = Op {
    name: "run_program",
    inputs: fwd::INS,
    outputs: fwd::OUTS,
    attrs: RunAttrs::FIELDS,
    // Results have their metas where the block declares them.
    infer: |cx| {
        cx.set_meta(fwd::SCOPE, 0, Meta { kind: VarKind::Other, ..Meta::default() });
        Ok(())
    },
    cpu: Kernel::Control(forward),
    sparse_kernel: SparseKernel::Same,
    grad: Grad::By(&RUN_PROGRAM_GRAD),
    ..OP
};

pub static RUN_PROGRAM_GRAD: Op = Op {
    name: "run_program_grad",
    inputs: grad::INS,
    outputs: grad::OUTS,
    attrs: RunAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Control(backward),
    sparse_kernel: SparseKernel::Same,
    ..OP
};

pub static TABLE: &[&Op] = &[&RUN_PROGRAM, &RUN_PROGRAM_GRAD];
