//! A Program as one call on the tape: forward operators, and the gradient operators that follow them, over the storage
//! of eager variables. Functions that `paddle.jit.to_static` translated run through it.

use crate::autograd::eager::is_recording;
use crate::autograd::tape::{next_number, GradEdge, OutInfo, Saved, SavedVar};
use crate::autograd::{EagerVar, Node};
use crate::graph::Executor;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::ir::names::grad_name;
use oar_core::ir::Program;
use oar_core::op::{Args, Op, OP};
use oar_core::tensor::{Scope, Value, VarStorage};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// In no table: it is never called.
static STATIC_CALL: Op = Op { name: "run_program", ..OP };

static EXECUTOR: std::sync::LazyLock<Executor> = std::sync::LazyLock::new(Executor::new);

/// A Program with these operators only in block 0.
fn cut(program: &Program, ops: Range<usize>) -> Result<Arc<Program>> {
    let mut desc = program.to_desc();
    if let Some(block) = desc.blocks.first_mut() {
        block.ops = block.ops.get(ops).unwrap_or_default().to_vec();
    }
    Program::from_desc(desc)
}

/// The names that operators of block 0 read and write.
fn names_of(program: &Program) -> (HashSet<String>, HashSet<String>) {
    let (mut read, mut written) = (HashSet::new(), HashSet::new());
    if let Some(block) = program.block(0) {
        for op in block.all_ops() {
            let op = op.read();
            read.extend(op.inputs.iter().flat_map(|(_, v)| v).cloned());
            written.extend(op.outputs.iter().flat_map(|(_, v)| v).cloned());
        }
    }
    (read, written)
}

/// The gradient operators.
struct Gradient {
    program: Arc<Program>,
    /// Names that the gradient operators read: of inputs, parameters, and forward variables.
    reads: HashSet<String>,
    writes: HashSet<String>,
}

/// The names of a Program's variables in a call.
pub struct Names {
    pub xs: Vec<String>,
    pub params: Vec<String>,
    pub outs: Vec<String>,
    /// For each output whether a gradient flows from it.
    pub flows: Vec<bool>,
}

pub struct StaticCall {
    forward: Arc<Program>,
    gradient: Option<Gradient>,
    names: Names,
    /// Names that are fetched for the gradient.
    saved: Vec<String>,
    fetches: Vec<String>,
    /// For each parameter whether a forward operator writes it.
    state: Vec<bool>,
}

impl StaticCall {
    /// `gradient`: the operators of block 0 from this one on are gradients.
    pub fn new(program: &Program, forward: usize, gradient: Option<usize>, names: Names) -> Result<StaticCall> {
        let all = program.block(0).map_or(0, |b| b.all_ops().len());
        ensure!(
            forward <= all && gradient.is_none_or(|g| forward <= g && g <= all),
            OutOfRange,
            "StaticCall: operators {forward} and {gradient:?} must be among {all}"
        );
        ensure!(
            names.flows.len() == names.outs.len(),
            InvalidArgument,
            "StaticCall: flows has {} entries for {} outputs",
            names.flows.len(),
            names.outs.len()
        );
        let first = cut(program, 0..forward)?;
        let (_, written) = names_of(&first);
        let state: Vec<bool> = names.params.iter().map(|n| written.contains(n)).collect();
        let gradient = match gradient {
            None => None,
            Some(start) => {
                let program = cut(program, start..all)?;
                let (reads, writes) = names_of(&program);
                Some(Gradient { program, reads, writes })
            }
        };
        let mut saved = Vec::new();
        if let Some(gradient) = &gradient {
            let unchanged = names.xs.iter().filter(|n| !written.contains(*n));
            let known: HashSet<&String> = names.params.iter().chain(&names.outs).chain(unchanged).collect();
            saved.extend(written.iter().filter(|n| gradient.reads.contains(*n) && !known.contains(n)).cloned());
            saved.sort();
        }
        let fetches = names.outs.clone();
        Ok(StaticCall { forward: first, gradient, names, saved, fetches, state })
    }

    /// Runs the forward operators; the results are recorded as one call if a gradient is needed.
    pub fn call(self: &Arc<Self>, xs: &[&EagerVar], params: &[&EagerVar]) -> Result<Vec<EagerVar>> {
        let names = &self.names;
        ensure!(
            xs.len() == names.xs.len() && params.len() == names.params.len(),
            InvalidArgument,
            "StaticCall: expected {} inputs and {} parameters, got {} and {}",
            names.xs.len(),
            names.params.len(),
            xs.len(),
            params.len()
        );
        let scope = Scope::new();
        for (name, param) in names.params.iter().zip(params) {
            scope.bind(name, param.cell.clone());
        }
        let needs = xs.iter().chain(params).any(|v| !v.stop_gradient());
        let gradient = self.gradient.as_ref().filter(|_| needs && is_recording());
        let values = xs.iter().map(|v| v.cell.get()).collect();
        let both: Vec<String>;
        let fetches = match gradient {
            Some(_) if !self.saved.is_empty() => {
                both = self.fetches.iter().chain(&self.saved).cloned().collect();
                &both
            }
            _ => &self.fetches,
        };
        let mut values = EXECUTOR.run_in(&self.forward, 0, &scope, &names.xs, values, fetches)?;
        let kept = values.split_off(names.outs.len());
        let flows = |i: usize| gradient.is_some() && names.flows[i];
        let mut outs: Vec<EagerVar> =
            values.into_iter().enumerate().map(|(i, value)| EagerVar::new(value, !flows(i))).collect();
        if let Some(gradient) = gradient {
            self.record(gradient, scope, xs, params, &mut outs, kept)?;
        }
        Ok(outs)
    }

    fn record(
        self: &Arc<Self>,
        gradient: &Gradient,
        scope: Arc<Scope>,
        xs: &[&EagerVar],
        params: &[&EagerVar],
        outs: &mut [EagerVar],
        kept: Vec<Value>,
    ) -> Result<()> {
        let names = &self.names;
        let hold = |v: &EagerVar, read: bool| match read {
            true => SavedVar::VarStorage { cell: v.cell.clone(), version: v.cell.version() },
            false => SavedVar::Absent,
        };
        let mut saved = Saved::default();
        let read = |n: &String| gradient.reads.contains(n) && !self.saved.contains(n);
        saved.ins.extend(names.xs.iter().zip(xs).map(|(n, v)| hold(v, read(n))));
        let reads = |(n, state): (&String, &bool)| gradient.reads.contains(n) && !state;
        saved.ins.extend(names.params.iter().zip(&self.state).zip(params).map(|(at, v)| hold(v, reads(at))));
        saved.outs.extend(names.outs.iter().zip(outs.iter()).map(|(n, v)| hold(v, gradient.reads.contains(n))));
        saved.outs.extend(kept.into_iter().map(|value| {
            let cell = Arc::new(VarStorage::new(value));
            let version = cell.version();
            SavedVar::VarStorage { cell, version }
        }));
        let mut edges = Args::new();
        edges.push_slot(xs.iter().chain(params).map(|v| (!v.stop_gradient()).then(|| v.track())));
        let mut infos = Args::new();
        infos.push_slot(
            outs.iter()
                .zip(&names.flows)
                .map(|(v, &flows)| match flows {
                    true => v.tensor().map(|t| OutInfo::from_tensor(&t)),
                    false => Ok(OutInfo { dims: Default::default(), dtype: oar_core::base::DType::F32 }),
                })
                .collect::<Result<Vec<_>>>()?,
        );
        let held: Vec<OutInfo> = infos.flat.iter().cloned().collect();
        let this = self.clone();
        let call = move |saved: Saved, wanted: &[Option<Arc<GradEdge>>], grads: &[Option<EagerVar>]| {
            this.backward(&scope, saved, &held, wanted, grads)
        };
        let node = Arc::new(Node {
            op: &STATIC_CALL,
            attrs: (STATIC_CALL.attrs.new)(),
            number: next_number(),
            edges,
            outs: infos,
            saved: Mutex::new(Some(saved)),
            ops: None,
            call: Some(Arc::new(call)),
            ran: AtomicBool::new(false),
        });
        for (i, out) in outs.iter_mut().enumerate().filter(|(i, _)| names.flows[*i]) {
            out.set_track(Some(Arc::new(GradEdge::from_output(node.clone(), i as u32))));
        }
        Ok(())
    }

    fn backward(
        &self,
        scope: &Arc<Scope>,
        saved: Saved,
        infos: &[OutInfo],
        wanted: &[Option<Arc<GradEdge>>],
        grads: &[Option<EagerVar>],
    ) -> Result<Vec<Option<EagerVar>>> {
        let names = &self.names;
        let Some(gradient) = &self.gradient else { return Ok(Vec::new()) };
        let (mut feeds, mut values) = (Vec::new(), Vec::new());
        let held = names.xs.iter().map(Some).chain(names.params.iter().map(|_| None)).zip(saved.ins);
        let outs = names.outs.iter().chain(&self.saved).map(Some).zip(saved.outs);
        for (name, var) in held.chain(outs) {
            // Checks the version. Parameters are read from the scope.
            let var = var.load(&STATIC_CALL, None, true)?;
            let (Some(name), Some(EagerVar { cell, .. })) = (name, var) else { continue };
            feeds.push(name.clone());
            values.push(match Arc::try_unwrap(cell) {
                Ok(cell) => std::mem::take(&mut *cell.lock()),
                Err(cell) => cell.get(),
            });
        }
        for (i, name) in names.outs.iter().enumerate().filter(|(i, _)| names.flows[*i]) {
            feeds.push(grad_name(name));
            values.push(match &grads[i] {
                Some(grad) => grad.cell.get(),
                None => infos[i].zeros()?,
            });
        }
        let mut at = Vec::new();
        let mut fetches = Vec::new();
        for (i, (name, edge)) in names.xs.iter().chain(&names.params).zip(wanted).enumerate() {
            let name = grad_name(name);
            if edge.is_some() && gradient.writes.contains(&name) {
                at.push(i);
                fetches.push(name);
            }
        }
        let found = EXECUTOR.run_in(&gradient.program, 0, scope, &feeds, values, &fetches)?;
        let mut made: Vec<Option<EagerVar>> = wanted.iter().map(|_| None).collect();
        for (i, value) in at.into_iter().zip(found) {
            if !value.is_none() {
                made[i] = Some(EagerVar::new(value, true));
            }
        }
        Ok(made)
    }
}
