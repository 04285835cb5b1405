//! A Program as one call on the tape: forward operators, and the gradient operators that follow them, over the storage
//! of eager variables. Functions that `paddle.jit.to_static` translated run through it.

use crate::autograd::eager::is_recording;
use crate::autograd::tape::{next_number, GradEdge, OutInfo, Saved, SavedVar};
use crate::autograd::{EagerVar, Node};
use crate::graph::{Executor, Prepared};
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::ir::names::grad_name;
use oar_core::ir::Program;
use oar_core::op::table::lookup;
use oar_core::op::{Args, Op, SlotFlag, OP};
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
#[derive(Default)]
struct Uses {
    reads: HashSet<String>,
    /// Those of `reads` whose elements are read, not only their shape.
    elements: HashSet<String>,
    writes: HashSet<String>,
}

impl Uses {
    fn in_program(program: &Program) -> Uses {
        let mut uses = Uses::default();
        for op in program.block(0).iter().flat_map(|block| block.all_ops()) {
            let op = op.read();
            let row = lookup(&op.op_type);
            for (slot, names) in &op.inputs {
                let found = row.and_then(|row| row.inputs.iter().find(|s| s.name == slot));
                uses.reads.extend(names.iter().cloned());
                if !found.is_some_and(|s| s.has(SlotFlag::MetaOnly)) {
                    uses.elements.extend(names.iter().cloned());
                }
            }
            uses.writes.extend(op.outputs.iter().flat_map(|(_, v)| v).cloned());
        }
        uses
    }
}

/// The gradient operators.
struct Gradient {
    program: Arc<Program>,
    uses: Uses,
    /// The runs for sets of wanted gradients.
    pulls: Mutex<Vec<Arc<Pull>>>,
}

/// A run of the gradient operators.
struct Pull {
    /// For each input and parameter whether its gradient is wanted.
    wanted: Vec<bool>,
    /// The inputs and parameters of the fetches.
    at: Vec<usize>,
    run: Prepared,
}

/// Bound of the runs kept for sets of wanted gradients.
const KEPT: usize = 16;

/// The names of a Program's variables in a call.
pub struct Names {
    pub xs: Vec<String>,
    pub params: Vec<String>,
    pub outs: Vec<String>,
    /// For each output whether a gradient flows from it.
    pub flows: Vec<bool>,
}

pub struct StaticCall {
    /// The forward operators for a call without gradient, and for one that is recorded.
    alone: Prepared,
    recorded: Prepared,
    gradient: Option<Gradient>,
    names: Names,
    /// Names that are fetched for the gradient.
    saved: Vec<String>,
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
        let written = Uses::in_program(&first).writes;
        let state: Vec<bool> = names.params.iter().map(|n| written.contains(n)).collect();
        let gradient = match gradient {
            None => None,
            Some(start) => {
                let program = cut(program, start..all)?;
                let uses = Uses::in_program(&program);
                Some(Gradient { program, uses, pulls: Mutex::default() })
            }
        };
        let (mut saved, mut shapes) = (Vec::new(), HashSet::new());
        if let Some(Gradient { uses, .. }) = &gradient {
            let unchanged = names.xs.iter().filter(|n| !written.contains(*n));
            let known: HashSet<&String> = names.params.iter().chain(&names.outs).chain(unchanged).collect();
            saved.extend(written.iter().filter(|n| uses.reads.contains(*n) && !known.contains(n)).cloned());
            saved.sort();
            shapes.extend(saved.iter().filter(|n| !uses.elements.contains(*n)).cloned());
        }
        let fetches = names.outs.clone();
        let both = fetches.iter().chain(&saved).cloned().collect();
        let alone = Prepared::new(first.clone(), names.xs.clone(), fetches, HashSet::new());
        let recorded = Prepared::new(first, names.xs.clone(), both, shapes);
        Ok(StaticCall { alone, recorded, gradient, names, saved, state })
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
        let run = if gradient.is_some() { &self.recorded } else { &self.alone };
        let mut values = EXECUTOR.run_prepared(run, &scope, values)?;
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
        let read = |n: &String| gradient.uses.reads.contains(n) && !self.saved.contains(n);
        saved.ins.extend(names.xs.iter().zip(xs).map(|(n, v)| hold(v, read(n))));
        let reads = |(n, state): (&String, &bool)| gradient.uses.reads.contains(n) && !state;
        saved.ins.extend(names.params.iter().zip(&self.state).zip(params).map(|(at, v)| hold(v, reads(at))));
        saved.outs.extend(names.outs.iter().zip(outs.iter()).map(|(n, v)| hold(v, gradient.uses.reads.contains(n))));
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
            feeds.push(name);
            values.push(match Arc::try_unwrap(cell) {
                Ok(cell) => std::mem::take(&mut *cell.lock()),
                Err(cell) => cell.get(),
            });
        }
        for (i, _) in names.outs.iter().enumerate().filter(|(i, _)| names.flows[*i]) {
            values.push(match &grads[i] {
                Some(grad) => grad.cell.get(),
                None => infos[i].zeros()?,
            });
        }
        let pull = self.pull(gradient, &feeds, wanted);
        let found = EXECUTOR.run_prepared(&pull.run, scope, values)?;
        let mut made: Vec<Option<EagerVar>> = wanted.iter().map(|_| None).collect();
        for (&i, value) in pull.at.iter().zip(found) {
            if !value.is_none() {
                made[i] = Some(EagerVar::new(value, true));
            }
        }
        Ok(made)
    }

    /// The run for the wanted gradients. `held`: the saved variables that are fed, the same ones in every run.
    fn pull(&self, gradient: &Gradient, held: &[&String], wanted: &[Option<Arc<GradEdge>>]) -> Arc<Pull> {
        let same = |pull: &&Arc<Pull>| pull.wanted.iter().zip(wanted).all(|(&a, b)| a == b.is_some());
        let mut pulls = gradient.pulls.lock();
        if let Some(pull) = pulls.iter().find(same) {
            return pull.clone();
        }
        let names = &self.names;
        let flowing = names.outs.iter().zip(&names.flows).filter(|(_, &flows)| flows);
        let feeds = held.iter().map(|n| n.to_string()).chain(flowing.map(|(n, _)| grad_name(n))).collect();
        let (at, fetches) = names
            .xs
            .iter()
            .chain(&names.params)
            .map(|n| grad_name(n))
            .enumerate()
            .filter(|(i, name)| wanted[*i].is_some() && gradient.uses.writes.contains(name))
            .unzip();
        let run = Prepared::new(gradient.program.clone(), feeds, fetches, HashSet::new());
        let pull = Arc::new(Pull { wanted: wanted.iter().map(Option::is_some).collect(), at, run });
        if pulls.len() >= KEPT {
            pulls.clear();
        }
        pulls.push(pull.clone());
        pull
    }
}
