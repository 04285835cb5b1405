//! Runs of a plan on a device as one graph: a run keeps what its steps start, and later runs with feeds of the same
//! sizes start all of it at once.
//!
//! A graph reads and writes fixed memory. Feeds are copied into memory of its own, temporaries lie there, and fetches are
//! copies. Variables of the scope must lie where they lay, and those that steps write in place must be referred to by
//! nothing else; otherwise the graph is dropped, and the run is a plain one. A plan has a graph only if each of its
//! steps runs on the device or passes an operand on.

use super::known::{Fetched, Kept, Known, Place, Sizes};
use super::plan::{ExecutionPlan, Storage, Task, Var, ABSENT};
use super::state::State;
use oar_core::base::Result;
use oar_core::op::backend::{self, Backend, Graph};
use oar_core::op::{profile, Kernel};
use oar_core::tensor::{Tensor, Value};
use parking_lot::MutexGuard;
use std::sync::Arc;

fn place(state: &State, var: Var, is_written: bool) -> Place {
    let at = match &*state.lock(var) {
        Value::Dense(t) => t.on_device().map(|(m, offset)| (m.address() + offset, t.dtype(), t.sizes().clone())),
        _ => None,
    };
    Place { var, at, is_written }
}

impl Place {
    fn holds(&self, state: &State) -> bool {
        let held = state.lock(self.var);
        let on_device = match &*held {
            Value::Dense(t) => t.on_device().map(|at| (t, at)),
            _ => None,
        };
        match (&self.at, on_device) {
            (None, None) => true,
            (Some((address, dtype, dims)), Some((t, (memory, offset)))) => {
                memory.address() + offset == *address
                    && t.dtype() == *dtype
                    && t.dims() == &dims[..]
                    && (!self.is_written || t.device_may_write())
            }
            _ => false,
        }
    }
}

/// Shapes and data types of the fed tensors; `None` if one has a LoD or is not on a device.
fn sizes_of(fed: &[Value]) -> Option<Sizes> {
    let size = |v: &Value| match v {
        Value::Dense(t) if t.on_device().is_some() && t.lod.is_none() => Some((t.sizes().clone(), t.dtype())),
        _ => None,
    };
    fed.iter().map(size).collect()
}

/// True if the steps may be repeated by a graph: they touch temporaries, and variables of the scope only to read them
/// or to write them in place.
fn is_able(plan: &ExecutionPlan) -> bool {
    let is_temporary = |v: Var| v == ABSENT || plan.vars[v as usize].place == Storage::Temporary;
    let steps = plan.tasks.iter().all(|task| match *task {
        Task::Group(_) => false,
        Task::Step(i) => {
            let step = &plan.steps[i];
            let in_place = |o: usize| {
                step.in_place.iter().any(|&(i, to)| to as usize == o && step.ins.flat[i as usize] == step.outs.flat[o])
            };
            !matches!(step.op.cpu, Kernel::Control(_))
                && step.keeps.is_empty()
                && step.outs.flat.iter().enumerate().all(|(o, &v)| is_temporary(v) || in_place(o))
        }
    });
    let feeds = plan.feeds.iter().flatten().all(|&v| is_temporary(v));
    steps && feeds && plan.vars.iter().all(|v| v.place != Storage::Local)
}

/// The variables of the scope, and whether a step writes them.
fn outer(plan: &ExecutionPlan, state: &State) -> Vec<Place> {
    let is_outer = |v: &Var| plan.vars[*v as usize].place == Storage::Outer;
    let is_written = |v: Var| plan.steps.iter().any(|s| s.outs.flat.contains(&v));
    (0..plan.vars.len() as Var).filter(is_outer).map(|v| place(state, v, is_written(v))).collect()
}

/// True if no input of a step is a variable of the scope in host memory, whose value another run may not find.
fn reads_no_host(plan: &ExecutionPlan, step: usize, state: &State) -> bool {
    plan.steps[step].ins.flat.iter().filter(|&&v| v != ABSENT).all(|&v| {
        plan.vars[v as usize].place == Storage::Temporary
            || state.lock(v).elements().is_some_and(|t| t.on_device().is_some())
    })
}

/// Ends `keep_started` where the run fails.
struct Keeping<'a>(Option<&'a Arc<dyn Backend>>);

impl Keeping<'_> {
    fn end(mut self) -> Result<Option<Arc<dyn Graph>>> {
        self.0.take().map_or(Ok(None), |backend| backend.captured())
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        if let Some(backend) = self.0.take() {
            drop(backend.captured());
        }
    }
}

/// Runs the steps of a plan whose feeds `state` holds by its graph, or by `plain`, which calls its argument after each
/// task. Returns the fetched values of the graph; `None`: the state holds them.
pub fn run(
    plan: &ExecutionPlan,
    backend: &Arc<dyn Backend>,
    device: i32,
    state: &State,
    fed: &[Value],
    plain: &mut dyn FnMut(&mut dyn FnMut(usize)) -> Result<()>,
) -> Result<Option<Vec<Value>>> {
    let nothing = &mut |_| {};
    let Some(mut known) = plan.captured.0.try_lock().filter(|k| !k.never && !profile::watched()) else {
        return plain(nothing).map(|()| None);
    };
    let Some(sizes) = sizes_of(fed) else { return plain(nothing).map(|()| None) };
    let is_same = known.sizes == sizes;
    if let Some(kept) = known.kept.as_mut().filter(|_| is_same) {
        if Arc::ptr_eq(&kept.backend, backend) && kept.outer.iter().all(|p| p.holds(state)) {
            return kept.start(state, fed).map(Some);
        }
        known.drop_graph();
    }
    if known.kept.is_some() || !known.counts(sizes) {
        return plain(nothing).map(|()| None);
    }
    keep(plan, backend, device, state, fed, plain, known)
}

/// A run whose launches are kept.
fn keep(
    plan: &ExecutionPlan,
    backend: &Arc<dyn Backend>,
    device: i32,
    state: &State,
    fed: &[Value],
    plain: &mut dyn FnMut(&mut dyn FnMut(usize)) -> Result<()>,
    mut known: MutexGuard<Known>,
) -> Result<Option<Vec<Value>>> {
    if !is_able(plan) {
        known.never = true;
        return plain(&mut |_| {}).map(|()| None);
    }
    let outer = outer(plan, state);
    let given: Vec<&Tensor> = fed.iter().filter_map(Value::elements).collect();
    let feeds: Vec<Tensor> = given.iter().map(|t| backend.duplicate(t, None)).collect::<Result<_>>()?;
    for (var, own) in plan.feeds.iter().zip(&feeds) {
        if let Some(var) = var {
            state.set(*var, own.clone().into());
        }
    }
    if !backend.keep_started(device)? {
        known.never = true;
        return plain(&mut |_| {}).map(|()| None);
    }
    known.fails(); // unless all goes well
    let keeping = Keeping(Some(backend));
    let (mut before, mut only_launches) = (backend::launched(), true);
    plain(&mut |task| {
        let now = backend::launched();
        only_launches &= match plan.tasks[task] {
            Task::Step(i) => now > before || backend::passes_on(plan.steps[i].op) && reads_no_host(plan, i, state),
            Task::Group(_) => false,
        };
        before = now;
    })?;
    let graph = keeping.end()?.filter(|_| only_launches);
    let fetched = |&v: &Var| match plan.vars.get(v as usize)?.place {
        Storage::Temporary => match state.get(v) {
            Value::Dense(t) if t.on_device().is_some() => Some(Fetched::Temporary(t)),
            _ => None,
        },
        _ => Some(Fetched::Outer(v)),
    };
    let fetches: Option<Vec<Fetched>> = plan.fetches.iter().map(fetched).collect();
    let (Some(graph), Some(fetches)) = (graph, fetches) else { return Ok(None) };
    let kept = Kept { graph, backend: backend.clone(), feeds, outer, fetches, started: 0 };
    let values = kept.fetch(state)?;
    (known.kept, known.never) = (Some(kept), false);
    known.in_vain -= 1;
    Ok(Some(values))
}

impl Kept {
    fn start(&mut self, state: &State, fed: &[Value]) -> Result<Vec<Value>> {
        for (own, new) in self.feeds.iter().zip(fed.iter().filter_map(Value::elements)) {
            self.backend.duplicate(new, Some(own))?;
        }
        self.graph.launch()?;
        self.started += 1;
        self.fetch(state)
    }

    /// Copies of the fetched values: the next run writes where they lie.
    fn fetch(&self, state: &State) -> Result<Vec<Value>> {
        let copy = |t: &Tensor| Ok(Value::Dense(self.backend.duplicate(t, None)?.with_lod(t.lod.clone())));
        let value = |f: &Fetched| match f {
            Fetched::Temporary(t) => copy(t),
            Fetched::Outer(v) => match state.read(*v) {
                Value::Dense(t) if t.on_device().is_some() => copy(&t),
                other => Ok(other),
            },
        };
        self.fetches.iter().map(value).collect()
    }
}
