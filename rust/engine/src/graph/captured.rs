//! Runs of a plan on a device as graphs: a run keeps what its steps start, and later runs with feeds of the same sizes
//! start it piece by piece, between the tasks that no graph repeats (`pieces`).
//!
//! A graph reads and writes fixed memory. Feeds are copied into memory of its own, temporaries lie there, and fetches are
//! copies. Variables of the scope must lie where they lay, and those that steps write in place must be referred to by
//! nothing else; otherwise the graphs are dropped, and the run is a plain one. A variable that steps only read and that
//! was found elsewhere (a learning rate that the host sets) is copied like a feed from then on.

use super::known::{Captured, Kept, Known, Place, Sizes};
use super::pieces::{fetch, own_scope, Division, Plain};
use super::plan::{ExecutionPlan, Storage, Task, Var};
use super::state::State;
use oar_core::base::Result;
use oar_core::op::backend::{Backend, Graph};
use oar_core::op::profile;
use oar_core::tensor::{Tensor, Value};
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// The plans that have graphs.
static HOLDERS: Mutex<Vec<Weak<Mutex<Known>>>> = Mutex::new(Vec::new());

/// Drops the graphs of all plans that are not running, and the memory that they hold; returns their number.
pub fn release() -> usize {
    let holders = std::mem::take(&mut *HOLDERS.lock());
    let drops = |holder: &&Weak<Mutex<Known>>| {
        let Some(held) = holder.upgrade() else { return false };
        let Some(mut known) = held.try_lock() else { return false };
        let has_graphs = known.kept.is_some();
        known.drop_graph();
        has_graphs
    };
    let dropped = holders.iter().filter(drops).count();
    // Those that run keep their graphs.
    HOLDERS.lock().extend(holders.into_iter().filter(|h| h.upgrade().is_some_and(|k| k.is_locked())));
    dropped
}

/// What a graph reads of a variable of the scope.
enum Moved {
    /// The variable itself.
    Not,
    /// The value, copied into memory of the graph.
    From(Tensor, Tensor),
}

fn device_address(t: &Tensor) -> Option<usize> {
    t.on_device().map(|(memory, offset)| memory.address() + offset)
}

impl Place {
    fn new(state: &State, var: Var) -> Place {
        let at = match &*state.lock(var) {
            Value::Dense(t) => device_address(t).map(|at| (at, t.dtype(), t.sizes().clone())),
            _ => None,
        };
        Place { var, at, is_written: false, until: 0, own: None }
    }

    /// True if the variable lies where it lay, and may be written there if steps write it.
    fn holds(&self, state: &State) -> bool {
        let held = state.lock(self.var);
        let on_device = match &*held {
            Value::Dense(t) => device_address(t).map(|at| (t, at)),
            _ => None,
        };
        match (&self.at, on_device) {
            (None, None) => true,
            (Some((address, dtype, dims)), Some((t, at))) => {
                at == *address
                    && t.dtype() == *dtype
                    && t.dims() == &dims[..]
                    && (!self.is_written || t.device_may_write())
            }
            _ => false,
        }
    }

    /// True if a graph that is captured now reads what the variable holds.
    pub fn is_found(&self, state: &State) -> bool {
        match &self.own {
            Some(own) => state.lock(self.var).as_dense().is_some_and(|t| device_address(t) == device_address(own)),
            None => self.holds(state),
        }
    }

    /// True if the variable lies elsewhere, and may be copied at each run.
    fn may_move(&self, state: &State) -> bool {
        self.own.is_none() && !self.is_written && !self.holds(state)
    }

    /// The value to be copied into memory of the graphs before they start. `None`: the variable is not as it was.
    fn moved(&self, state: &State) -> Option<Moved> {
        let Some(own) = &self.own else { return self.holds(state).then_some(Moved::Not) };
        let held = state.lock(self.var);
        let t = held.as_dense()?;
        if device_address(t).is_some() && device_address(t) == device_address(own) {
            return Some(Moved::Not);
        }
        let is_alike = (t.dtype(), t.dims()) == (own.dtype(), own.dims()) && t.lod.is_none() && t.has_bytes();
        (is_alike && own.buffer().is_writable()).then(|| Moved::From(t.clone(), own.clone()))
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

/// True if tasks of the plan may be repeated by graphs.
fn is_able(plan: &ExecutionPlan) -> bool {
    let is_step = |task: &Task| matches!(task, Task::Step(_));
    let is_outer = |&v: &Var| plan.vars[v as usize].place == Storage::Outer;
    plan.block == 0 && plan.tasks.iter().all(is_step) && !plan.feeds.iter().flatten().any(is_outer)
}

/// The variables of the scope.
fn outer(plan: &ExecutionPlan, state: &State) -> Vec<Place> {
    let is_outer = |v: &Var| plan.vars[*v as usize].place == Storage::Outer;
    (0..plan.vars.len() as Var).filter(is_outer).map(|v| Place::new(state, v)).collect()
}

/// Ends `keep_started` where the run fails.
struct Keeping<'a>(Option<&'a Arc<dyn Backend>>);

impl Keeping<'_> {
    fn end(mut self, parts: &[Range<usize>]) -> Result<Vec<Arc<dyn Graph>>> {
        self.0.take().map_or(Ok(Vec::new()), |backend| backend.captured(parts))
    }
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        if let Some(backend) = self.0.take() {
            drop(backend.captured(&[]));
        }
    }
}

/// Runs the steps of a plan whose feeds `state` holds by its graphs, or by `plain`, which runs a range of tasks and
/// calls its argument after each. Returns the fetched values of graphs; `None`: the state holds them.
pub fn run(
    plan: &ExecutionPlan,
    backend: &Arc<dyn Backend>,
    device: i32,
    state: &State,
    fed: &[Value],
    plain: &mut Plain,
) -> Result<Option<Vec<Value>>> {
    let all = 0..plan.tasks.len();
    let run_plainly = |plain: &mut Plain| plain(all.clone(), &mut |_| Ok(())).map(|()| None);
    let Some(mut known) = plan.captured.0.try_lock().filter(|k| !k.never && !profile::watched()) else {
        return run_plainly(plain);
    };
    let Some(sizes) = sizes_of(fed) else { return run_plainly(plain) };
    let is_same = known.sizes == sizes;
    if let Some(kept) = known.kept.as_mut().filter(|_| is_same) {
        if Arc::ptr_eq(&kept.backend, backend) && kept.moves(0, device, state)? {
            let (values, fits) = kept.start(plan, device, state, fed, plain)?;
            if !fits {
                known.give_up(state);
            }
            return Ok(values);
        }
        known.give_up(state);
    }
    if known.kept.is_some() || !known.counts(sizes) {
        return run_plainly(plain);
    }
    if !is_able(plan) {
        known.never = true;
        return run_plainly(plain);
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
    plain: &mut Plain,
    mut known: MutexGuard<Known>,
) -> Result<Option<Vec<Value>>> {
    let mut owned = Vec::new();
    for &var in &known.moving {
        let held = state.get(var);
        let Value::Dense(t) = &held else { continue };
        let own = match t.on_device() {
            Some(_) => backend.duplicate(t, None)?,
            None => backend.copy(t, Some(device))?,
        };
        state.set(var, own.clone().into());
        owned.push((var, own));
    }
    known.fails(); // unless all goes well
    if !backend.keep_started(device)? {
        return plain(0..plan.tasks.len(), &mut |_| Ok(())).map(|()| None);
    }
    let keeping = Keeping(Some(backend));
    let given: Vec<&Tensor> = fed.iter().filter_map(Value::elements).collect();
    // What sub-blocks read no graph does.
    let is_temporary = |v: Var| plan.vars[v as usize].place == Storage::Temporary;
    let mut feeds = Vec::new();
    for (var, t) in plan.feeds.iter().zip(given) {
        let var = var.filter(|&v| is_temporary(v));
        let own = var.map(|_| backend.duplicate(t, None)).transpose()?;
        if let (Some(var), Some(own)) = (var, &own) {
            state.set(var, backend.lent(own)?.into());
        }
        feeds.push(own);
    }
    let mut outer = outer(plan, state);
    for (var, own) in owned {
        if let Some(place) = outer.iter_mut().find(|p| p.var == var) {
            place.own = Some(own);
        }
    }
    let mut division = Division::new(plan, &**backend, state, &outer);
    plain(0..plan.tasks.len(), &mut |task| division.add(task))?;
    own_scope(plan, &**backend, state)?;
    let values = fetch(plan, &**backend, state)?;
    let (parts, touched) = division.end();
    let graphs = keeping.end(&parts.launches)?;
    outer.retain(|p| touched.contains_key(&p.var));
    outer.iter_mut().for_each(|p| (p.is_written, p.until) = (touched[&p.var].is_written, touched[&p.var].until));
    known.moving.retain(|v| !touched.get(v).is_some_and(|t| t.is_written));
    // A task by itself may have written what the graphs copy at the start of a run.
    let is_steady = |p: &Place| if p.own.is_some() { !p.is_written } else { p.holds(state) };
    if !outer.iter().all(is_steady) {
        let moves = outer.iter().filter(|p| p.may_move(state)).map(|p| p.var).collect();
        known.expect_moves(moves);
        return Ok(values);
    }
    let Some(pieces) = parts.with(graphs) else { return Ok(values) };
    known.kept = Some(Kept { pieces, backend: backend.clone(), feeds, outer, started: 0 });
    known.never = false;
    known.in_vain -= 1;
    let mut holders = HOLDERS.lock();
    holders.retain(|h| h.strong_count() > 0);
    holders.push(Arc::downgrade(&plan.captured.0));
    Ok(values)
}

impl Kept {
    /// Copies variables that graphs of tasks from `from` on read from memory of their own; false if one is not as it was.
    pub fn moves(&self, from: usize, device: i32, state: &State) -> Result<bool> {
        let touched = self.outer.iter().filter(|p| p.until >= from);
        let found: Option<Vec<Moved>> = touched.map(|p| p.moved(state)).collect();
        let Some(found) = found else { return Ok(false) };
        for moved in found {
            if let Moved::From(t, own) = moved {
                let t = if t.on_device().is_some() { t } else { self.backend.copy(&t, Some(device))? };
                self.backend.duplicate(&t, Some(&own))?;
            }
        }
        Ok(true)
    }
}

impl Known {
    /// Drops the graphs of a run that found variables elsewhere.
    fn give_up(&mut self, state: &State) {
        let outer = self.kept.iter().flat_map(|kept| &kept.outer);
        let elsewhere = outer.filter(|p| p.may_move(state)).map(|p| p.var).collect();
        self.drop_graph();
        self.expect_moves(elsewhere);
    }
}

impl Captured {
    /// True if a run's feeds are to be given to `run`.
    pub fn is_watched(&self) -> bool {
        self.0.try_lock().is_some_and(|known| !known.never)
    }
}
