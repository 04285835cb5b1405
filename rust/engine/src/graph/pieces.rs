//! The pieces of a run: launches that graphs repeat, and tasks that run by themselves between them (operators of the
//! host, launches through Python, writes of variables of the scope that are not in place).
//!
//! At the borders of pieces the state of a run holds what a plain run would hold: a graph sets the temporaries that later
//! tasks read, and what a task leaves for later graphs is copied to where they expect it.

use super::known::{Kept, Piece, Place};
use super::plan::{ExecutionPlan, Step, Storage, Task, Var, ABSENT};
use super::state::State;
use oar_core::base::Result;
use oar_core::op::backend::{self, Backend, Graph};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Runs tasks, and calls a function after each.
pub type Plain<'a> = dyn FnMut(Range<usize>, &mut dyn FnMut(usize) -> Result<()>) -> Result<()> + 'a;

/// Tasks of one kind, one after the other.
enum Part {
    /// The launches, and the temporaries that are read after them.
    Graph { launches: Range<usize>, tasks: Range<usize>, left: BTreeMap<Var, Value> },
    /// Temporaries on the device that the tasks leave.
    Tasks { tasks: Range<usize>, made: Vec<(usize, Var, Tensor)> },
}

/// Divides the tasks of a run that is kept.
pub struct Division<'a> {
    plan: &'a ExecutionPlan,
    backend: &'a dyn Backend,
    state: &'a State,
    /// By variable, the last task that reads it; that of a fetched one is past the end.
    last: Vec<usize>,
    /// What no graph finds again: variables of the scope that a task by itself has written, and values of such tasks
    /// that are not in device memory.
    unsteady: HashSet<Var>,
    /// The variables of the scope, as the run found them.
    outer: &'a [Place],
    parts: Vec<Part>,
    launched: u64,
    kept: usize,
}

/// What graphs do to a variable, and the end of the tasks of the last of them.
#[derive(Default)]
pub struct Touched {
    pub is_written: bool,
    pub until: usize,
}

/// The parts of a run, and the launches of those that are graphs.
pub struct Parts {
    pub launches: Vec<Range<usize>>,
    parts: Vec<Part>,
    /// By part: the temporaries that end in it and that the state holds.
    ends: Vec<Vec<Var>>,
}

impl<'a> Division<'a> {
    pub fn new(
        plan: &'a ExecutionPlan,
        backend: &'a dyn Backend,
        state: &'a State,
        outer: &'a [Place],
    ) -> Division<'a> {
        let mut last = vec![0; plan.vars.len()];
        for (i, task) in plan.tasks.iter().enumerate() {
            let Task::Step(step) = *task else { continue };
            let step = &plan.steps[step];
            for &v in step.ins.flat.iter().chain(step.keeps.iter().map(|&o| &step.outs.flat[o as usize])) {
                if v != ABSENT {
                    last[v as usize] = i;
                }
            }
        }
        for &v in plan.fetches.iter().filter(|&&v| (v as usize) < plan.vars.len()) {
            last[v as usize] = usize::MAX;
        }
        let (parts, unsteady) = (Vec::new(), HashSet::new());
        Division { plan, backend, state, last, unsteady, outer, parts, launched: backend::launched(), kept: 0 }
    }

    fn is_temporary(&self, v: Var) -> bool {
        self.plan.vars[v as usize].place == Storage::Temporary
    }

    /// True if the step touches only temporaries, and variables of the scope that it reads or writes in place.
    fn may_repeat(&self, step: &Step) -> bool {
        let is_steady = |v: Var| self.plan.vars[v as usize].place != Storage::Local && !self.unsteady.contains(&v);
        let in_place = |o: usize| {
            step.in_place.iter().any(|&(i, to)| to as usize == o && step.ins.flat[i as usize] == step.outs.flat[o])
        };
        !step.reaches_scope()
            && step.keeps.is_empty()
            && step.ins.flat.iter().all(|&v| v == ABSENT || is_steady(v))
            && step.outs.flat.iter().enumerate().all(|(o, &v)| v == ABSENT || self.is_temporary(v) || in_place(o))
    }

    /// True if no input of the step is a variable of the scope in host memory, whose value another run may not find.
    fn reads_no_host(&self, step: &Step) -> bool {
        step.ins
            .flat
            .iter()
            .filter(|&&v| v != ABSENT && !self.is_temporary(v))
            .all(|&v| self.state.lock(v).elements().is_some_and(|t| t.on_device().is_some()))
    }

    /// Adds a task that has run.
    pub fn add(&mut self, task: usize) -> Result<()> {
        let Task::Step(number) = self.plan.tasks[task] else { return Ok(()) };
        let step = &self.plan.steps[number];
        let whole = self.backend.kept();
        let (now, launched) = (whole.or_else(|| self.backend.kept()).unwrap_or(self.kept), backend::launched());
        let has_run = launched > self.launched && self.backend.has(step.op.name);
        let passes = backend::passes_on(step.op) && self.reads_no_host(step);
        let is_repeated =
            whole.is_some() && self.may_repeat(step) && (has_run || passes) && self.leaves_tensors(step, has_run);
        let launches = self.kept..now;
        (self.kept, self.launched) = (now, launched);
        if is_repeated {
            self.add_repeated(task, step, launches)
        } else {
            self.add_single(task, step)
        }
    }

    /// True if the results that are temporaries are tensors, of a launch on the device.
    fn leaves_tensors(&self, step: &Step, on_device: bool) -> bool {
        let fits = |value: &Value| match value {
            Value::None => true,
            Value::Dense(t) => !on_device || t.on_device().is_some() || !t.has_bytes(),
            _ => false,
        };
        step.outs.flat.iter().all(|&v| v == ABSENT || !self.is_temporary(v) || fits(&self.state.lock(v)))
    }

    fn add_repeated(&mut self, task: usize, step: &Step, launches: Range<usize>) -> Result<()> {
        if !matches!(self.parts.last(), Some(Part::Graph { .. })) {
            let left = BTreeMap::new();
            self.parts.push(Part::Graph { launches: launches.start..launches.start, tasks: task..task, left });
        }
        let (state, backend) = (self.state, self.backend);
        let (last, plan) = (&self.last, self.plan);
        let Some(Part::Graph { launches: all, tasks, left }) = self.parts.last_mut() else { return Ok(()) };
        (all.end, tasks.end) = (launches.end, task + 1);
        for &v in step.outs.flat.iter().filter(|&&v| v != ABSENT) {
            if plan.vars[v as usize].place == Storage::Temporary && last[v as usize] > task {
                left.insert(v, lent(backend, &state.get(v))?);
                self.unsteady.remove(&v);
            }
        }
        Ok(())
    }

    fn add_single(&mut self, task: usize, step: &Step) -> Result<()> {
        if !matches!(self.parts.last(), Some(Part::Tasks { .. })) {
            self.parts.push(Part::Tasks { tasks: task..task, made: Vec::new() });
        }
        own(step.outs.flat.iter().copied(), self.plan, self.backend, self.state)?;
        let Some(Part::Tasks { tasks, made }) = self.parts.last_mut() else { return Ok(()) };
        tasks.end = task + 1;
        for &v in step.outs.flat.iter().filter(|&&v| v != ABSENT) {
            let value = match self.plan.vars[v as usize].place {
                Storage::Temporary if self.last[v as usize] > task => self.state.get(v),
                Storage::Temporary => continue,
                _ => Value::None,
            };
            match value {
                Value::Dense(t) if t.on_device().is_some() => {
                    self.unsteady.remove(&v);
                    // Memory of its own: the value may be a variable's, or be fetched.
                    let own = copied(self.backend, &t)?;
                    self.state.set(v, lent(self.backend, &Value::Dense(own.clone()))?);
                    made.push((task, v, own));
                }
                _ => {
                    self.unsteady.insert(v);
                }
            }
        }
        if step.reaches_scope() {
            let state = self.state;
            self.unsteady.extend(self.outer.iter().filter(|p| !p.is_found(state)).map(|p| p.var));
        }
        Ok(())
    }

    /// The parts, and the variables that graphs touch.
    pub fn end(mut self) -> (Parts, HashMap<Var, Touched>) {
        let (mut read, mut touched) = (HashSet::new(), HashMap::<Var, Touched>::new());
        for part in &self.parts {
            let Part::Graph { tasks, .. } = part else { continue };
            for step in steps(self.plan, tasks.clone()) {
                read.extend(step.ins.flat.iter().copied());
                for &v in step.ins.flat.iter().chain(&step.outs.flat) {
                    touched.entry(v).or_default().until = tasks.end;
                }
                for &v in &step.outs.flat {
                    touched.entry(v).or_default().is_written = true;
                }
            }
        }
        // What the state of a run by pieces holds: feeds, what tasks made, what graphs left.
        let mut held: HashSet<Var> = self.plan.feeds.iter().flatten().copied().collect();
        let mut ends = Vec::new();
        for part in &mut self.parts {
            let mut ended = Vec::new();
            match part {
                Part::Graph { tasks, left, .. } => {
                    left.retain(|&v, _| self.last[v as usize] >= tasks.end);
                    let dead = steps(self.plan, tasks.clone()).flat_map(|s| s.dead.iter().copied());
                    ended.extend(dead.filter(|v| held.remove(v)));
                    held.extend(left.keys().copied());
                }
                Part::Tasks { tasks, made } => {
                    made.retain(|(_, v, _)| read.contains(v));
                    held.extend(steps(self.plan, tasks.clone()).flat_map(|s| s.outs.flat.iter().copied()));
                }
            }
            ends.push(ended);
        }
        let launches = |part: &Part| match part {
            Part::Graph { launches, .. } if !launches.is_empty() => Some(launches.clone()),
            _ => None,
        };
        (Parts { launches: self.parts.iter().filter_map(launches).collect(), parts: self.parts, ends }, touched)
    }
}

fn steps(plan: &ExecutionPlan, tasks: Range<usize>) -> impl Iterator<Item = &Step> {
    plan.tasks[tasks].iter().filter_map(|task| match *task {
        Task::Step(i) => Some(&plan.steps[i]),
        Task::Group(_) => None,
    })
}

impl Parts {
    /// The pieces, with the graphs of `launches`; `None` if there are no graphs.
    pub fn with(self, graphs: Vec<Arc<dyn Graph>>) -> Option<Vec<Piece>> {
        if graphs.is_empty() || graphs.len() != self.launches.len() {
            return None;
        }
        let mut graphs = graphs.into_iter();
        let piece = |(part, ends): (Part, Vec<Var>)| match part {
            Part::Graph { launches, left, .. } => {
                let graph = if launches.is_empty() { None } else { graphs.next() };
                Piece::Graph { graph, left: left.into_iter().collect(), ends }
            }
            Part::Tasks { tasks, made } => Piece::Tasks { tasks, made },
        };
        Some(self.parts.into_iter().zip(self.ends).map(piece).collect())
    }
}

fn lent(backend: &dyn Backend, value: &Value) -> Result<Value> {
    match value {
        Value::Dense(t) if t.on_device().is_some() => Ok(Value::Dense(backend.lent(t)?.with_lod(t.lod.clone()))),
        other => Ok(other.clone()),
    }
}

fn copied(backend: &dyn Backend, t: &Tensor) -> Result<Tensor> {
    Ok(backend.duplicate(t, None)?.with_lod(t.lod.clone()))
}

/// The value, copied where it lies in memory that graphs write again.
pub fn owned(backend: &dyn Backend, value: &Value) -> Result<Value> {
    let is_of_graph = |t: &Tensor| t.on_device().is_some_and(|(memory, _)| memory.is_of_graph());
    Ok(match value {
        Value::Dense(t) if is_of_graph(t) => Value::Dense(copied(backend, t)?),
        Value::Rows(r) if is_of_graph(&r.value) => {
            SelectedRows { rows: r.rows.clone(), height: r.height, value: copied(backend, &r.value)? }.into()
        }
        Value::Array(items) => {
            Value::Array(Arc::new(items.iter().map(|v| owned(backend, v)).collect::<Result<Vec<_>>>()?))
        }
        other => other.clone(),
    })
}

/// Copies variables of scopes that lie in memory of the graphs.
fn own(vars: impl Iterator<Item = Var>, plan: &ExecutionPlan, backend: &dyn Backend, state: &State) -> Result<()> {
    for v in vars.filter(|&v| v != ABSENT && plan.vars[v as usize].place != Storage::Temporary) {
        let is_shared = match &*state.lock(v) {
            Value::Dense(t) => t.on_device().is_some_and(|(memory, _)| memory.is_of_graph()),
            Value::Rows(_) | Value::Array(_) => true,
            _ => false,
        };
        if is_shared {
            let value = owned(backend, &state.get(v))?;
            state.set(v, value);
        }
    }
    Ok(())
}

/// Copies all variables of scopes that lie in memory of the graphs.
pub fn own_scope(plan: &ExecutionPlan, backend: &dyn Backend, state: &State) -> Result<()> {
    own(0..plan.vars.len() as Var, plan, backend, state)
}

/// The fetched values, copied where the next run writes: variables of the scope, and memory of the graphs. `None`: one
/// has no value; then the state holds the others as they may be fetched.
pub fn fetch(plan: &ExecutionPlan, backend: &dyn Backend, state: &State) -> Result<Option<Vec<Value>>> {
    let value = |v: Var| match plan.vars[v as usize].place {
        Storage::Temporary => owned(backend, &state.get(v)),
        _ => match state.read(v) {
            Value::Dense(t) if t.on_device().is_some() => copied(backend, &t).map(Value::Dense),
            other => Ok(other),
        },
    };
    let found = plan.fetches.iter().filter(|&&v| (v as usize) < plan.vars.len()).map(|&v| Ok((v, value(v)?)));
    let found: Vec<(Var, Value)> = found.collect::<Result<_>>()?;
    if found.len() == plan.fetches.len() && found.iter().all(|(_, value)| !value.is_none()) {
        return Ok(Some(found.into_iter().map(|(_, value)| value).collect()));
    }
    for (v, value) in found {
        if plan.vars[v as usize].place == Storage::Temporary {
            state.set(v, value);
        }
    }
    Ok(None)
}

/// Copies the results of a task to where later graphs expect them; false if one is not as it was.
fn put(made: &[(usize, Var, Tensor)], task: usize, backend: &dyn Backend, state: &State) -> Result<bool> {
    for (_, v, own) in made.iter().filter(|(of, ..)| *of == task) {
        let value = state.get(*v);
        let Value::Dense(t) = &value else { return Ok(false) };
        if (t.dtype(), t.dims(), &t.lod) != (own.dtype(), own.dims(), &own.lod) {
            return Ok(false);
        }
        let device = |t: &Tensor| t.on_device().map(|(memory, _)| memory.device());
        if device(t) != device(own) {
            return Ok(false);
        }
        backend.duplicate(t, Some(own))?;
    }
    Ok(true)
}

impl Kept {
    /// A run by pieces. Returns the fetched values, and false if a task left values of other sizes than the graphs
    /// expect: what came after it ran plainly.
    pub fn start(
        &mut self,
        plan: &ExecutionPlan,
        device: i32,
        state: &State,
        fed: &[Value],
        plain: &mut Plain,
    ) -> Result<(Option<Vec<Value>>, bool)> {
        let backend = &*self.backend;
        for (own, new) in self.feeds.iter().zip(fed.iter().filter_map(Value::elements)) {
            own.as_ref().map_or(Ok(()), |own| backend.duplicate(new, Some(own)).map(drop))?;
        }
        self.started += 1;
        let mut fits = true;
        for piece in &self.pieces {
            match piece {
                Piece::Graph { graph, left, ends } => {
                    graph.as_ref().map_or(Ok(()), |g| g.launch())?;
                    for (v, value) in left {
                        // A new reference each time: what a reader copies to the host belongs to this run.
                        state.set(*v, lent(backend, value)?);
                    }
                    state.end(ends, &[]);
                }
                Piece::Tasks { tasks, made } => {
                    let after = &mut |task: usize, fits: &mut bool| {
                        let Task::Step(step) = plan.tasks[task] else { return Ok(()) };
                        own(plan.steps[step].outs.flat.iter().copied(), plan, backend, state)?;
                        *fits &= put(made, task, backend, state)?;
                        Ok(())
                    };
                    plain(tasks.clone(), &mut |task| after(task, &mut fits))?;
                    if steps(plan, tasks.clone()).any(Step::reaches_scope) {
                        fits &= self.moves(tasks.end, device, state)?;
                    }
                    if !fits {
                        plain(tasks.end..plan.tasks.len(), &mut |task| after(task, &mut true))?;
                        break;
                    }
                }
            }
        }
        Ok((fetch(plan, backend, state)?, fits))
    }
}
