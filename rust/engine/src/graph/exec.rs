//! Runs plans. An `Executor` caches compiled plans by Program, version, feeds, fetches and passes.

use super::compile::compile;
use super::passes::{self, Passes};
use super::plan::{at_line, ExecutionPlan, Read, Step, Storage, Task, ABSENT};
use super::schedule::RunMode;
use super::state::State;
use super::window::Window;
use super::{captured, fused, pieces, plan};
use oar_core::bail;
use oar_core::base::fork;
use oar_core::base::interrupt::{check_interrupt, check_interrupt_now_and_then};
use oar_core::base::Result;
use oar_core::ir::{Attr, Program};
use oar_core::op::backend::{self, Backend};
use oar_core::op::call::call_checked;
use oar_core::op::profile;
use oar_core::op::run::{Env, Frame, Out};
use oar_core::op::Args;
use oar_core::tensor::{Scope, Tensor, Value, VarStorage};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Bound of the cached plans.
const KEPT: usize = 256;

/// Options of a run.
#[derive(Clone, Copy)]
pub struct How {
    pub passes: Passes,
    /// Number of tasks that may run in parallel, even where a kernel uses fewer threads; 0: as many as kernels.
    pub threads: usize,
}

impl How {
    pub fn with_passes(passes: Passes) -> How {
        How { passes, threads: 0 }
    }
}

/// Program, revision, block, passes.
type Key = (u64, u64, i32, Passes);

/// The plans of one key, by feeds and fetches.
type Plans = Vec<(Vec<String>, Vec<String>, Arc<ExecutionPlan>)>;

#[derive(Default)]
pub struct Executor {
    plans: Mutex<HashMap<Key, Plans>>,
}

/// Block 0 of a Program with fixed feeds and fetches. It keeps its plans, so that a run looks up no name.
pub struct Prepared {
    program: Arc<Program>,
    feeds: Vec<String>,
    fetches: Vec<String>,
    /// Fetches of which only the shape is needed: their bytes are freed after the last operator that reads them.
    shapes: HashSet<String>,
    plans: Mutex<SmallVec<[(Passes, Arc<ExecutionPlan>); 2]>>,
}

impl Prepared {
    pub fn new(program: Arc<Program>, feeds: Vec<String>, fetches: Vec<String>, shapes: HashSet<String>) -> Prepared {
        Prepared { program, feeds, fetches, shapes, plans: Mutex::default() }
    }

    fn plan(&self, passes: Passes) -> Result<Arc<ExecutionPlan>> {
        if let Some((_, plan)) = self.plans.lock().iter().find(|(p, _)| *p == passes) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(compile(&self.program, 0, &self.feeds, &self.fetches, &self.shapes, passes)?);
        self.plans.lock().push((passes, plan.clone()));
        Ok(plan)
    }
}

impl Executor {
    pub fn new() -> Executor {
        Executor::default()
    }

    pub fn plan(
        &self,
        program: &Program,
        block: i32,
        feeds: &[String],
        fetches: &[String],
        passes: Passes,
    ) -> Result<Arc<ExecutionPlan>> {
        let key = (program.uid(), program.revision(), block, passes);
        if let Some(plans) = self.plans.lock().get(&key) {
            if let Some((_, _, plan)) = plans.iter().find(|(fed, fetched, _)| fed == feeds && fetched == fetches) {
                return Ok(plan.clone());
            }
        }
        let plan = Arc::new(compile(program, block, feeds, fetches, &HashSet::new(), passes)?);
        let mut all = self.plans.lock();
        if all.len() >= KEPT || all.get(&key).is_some_and(|plans| plans.len() >= KEPT) {
            all.clear();
        }
        all.entry(key).or_default().push((feeds.to_vec(), fetches.to_vec(), plan.clone()));
        Ok(plan)
    }

    /// Runs block 0: feeds, steps, fetches. Variables that are not persistable live in a scope of the run. `how` may
    /// disable passes of the process's set.
    pub fn run(
        &self,
        program: &Arc<Program>,
        scope: &Arc<Scope>,
        feeds: &[String],
        values: Vec<Value>,
        fetches: &[String],
        how: How,
    ) -> Result<Vec<Value>> {
        let device = RunDevice::among(&values);
        // On a device operators run one by one: the passes assume operands on the host.
        let passes = if device.is_some() { Passes::NONE } else { passes::current()?.within(how.passes) };
        let mut plan = self.plan(program, 0, feeds, fetches, passes)?;
        let _region = fork::compute();
        let run = |plan: &ExecutionPlan, values| {
            let local = if plan.vars.iter().any(|v| v.place == Storage::Local) { Some(scope.child()) } else { None };
            let how = How { passes, ..how };
            let result = self.run_plan(program, plan, scope, local.as_ref(), values, how, device.as_ref());
            if let Some(local) = local {
                local.drop_kids();
                scope.drop_kid(&local);
            }
            result
        };
        if !plan.needs.is_empty() && !as_declared(&plan, scope, &values) {
            plan = self.plan(program, 0, feeds, fetches, passes.without(Passes::DEAD))?;
        }
        run(&plan, values)
    }

    /// Runs a block on named values; variables that sub-blocks read stay in `scope`.
    pub fn run_in(
        &self,
        program: &Arc<Program>,
        block: i32,
        scope: &Arc<Scope>,
        feeds: &[String],
        values: Vec<Value>,
        fetches: &[String],
    ) -> Result<Vec<Value>> {
        let device = RunDevice::among(&values);
        let passes = if device.is_some() { Passes::NONE } else { passes::current()?.without(Passes::DEAD) };
        let plan = self.plan(program, block, feeds, fetches, passes)?;
        let run =
            || self.run_plan(program, &plan, scope, Some(scope), values, How::with_passes(passes), device.as_ref());
        RunDevice::within(device.as_ref(), run)
    }

    /// Runs a prepared Program; variables that sub-blocks read stay in `scope`.
    pub fn run_prepared(&self, prepared: &Prepared, scope: &Arc<Scope>, values: Vec<Value>) -> Result<Vec<Value>> {
        let device = RunDevice::among(&values);
        let passes = if device.is_some() { Passes::NONE } else { passes::current()? };
        let mut plan = prepared.plan(passes)?;
        if !plan.needs.is_empty() && !as_declared(&plan, scope, &values) {
            plan = prepared.plan(passes.without(Passes::DEAD))?;
        }
        let how = How::with_passes(passes);
        let run = || self.run_plan(&prepared.program, &plan, scope, Some(scope), values, how, device.as_ref());
        RunDevice::within(device.as_ref(), run)
    }

    /// Runs a sub-block once in `scope` (a step scope, whose parents hold what the block does not declare).
    fn run_block(
        &self,
        program: &Arc<Program>,
        block: i32,
        scope: &Arc<Scope>,
        passes: Passes,
        device: Option<&RunDevice>,
    ) -> Result<()> {
        let plan = self.plan(program, block, &[], &[], passes)?;
        self.run_plan(program, &plan, scope, Some(scope), Vec::new(), How::with_passes(passes), device).map(drop)
    }

    #[allow(clippy::too_many_arguments)] // the state of one run
    fn run_plan(
        &self,
        program: &Arc<Program>,
        plan: &ExecutionPlan,
        scope: &Arc<Scope>,
        local: Option<&Arc<Scope>>,
        values: Vec<Value>,
        how: How,
        device: Option<&RunDevice>,
    ) -> Result<Vec<Value>> {
        let fed = || values.iter().filter_map(Value::elements).map(Tensor::nbytes).sum();
        let mode = plan.schedule.mode(fed, how.threads);
        let state = State::new(plan, scope, local);
        let is_watched = device.is_some() && plan.captured.is_watched();
        let mut fed = Vec::new();
        for (var, value) in plan.feeds.iter().zip(values) {
            let value = device.map_or(Ok(value.clone()), |device| device.fed(&value))?;
            if is_watched {
                fed.push(value.clone());
            }
            if let Some(var) = var {
                state.set(*var, value);
            }
        }
        let scope = local.unwrap_or(scope);
        let run = Running { executor: self, program, plan, scope, state, passes: how.passes, device };
        match (device, mode) {
            (Some(device), _) if is_watched => {
                let plain = &mut |tasks: Range<usize>, after: &mut dyn FnMut(usize) -> Result<()>| {
                    run_segments(&*device.backend, plan, tasks, &mut |u| run.unit_checked(u).and_then(|()| after(u)))
                };
                let found = captured::run(plan, &device.backend, device.number, &run.state, &fed, plain)?;
                if let Some(fetched) = found {
                    return Ok(fetched);
                }
            }
            (Some(device), _) => {
                run_segments(&*device.backend, plan, 0..plan.tasks.len(), &mut |u| run.unit_checked(u))?
            }
            (None, RunMode::Plain) => (0..plan.tasks.len()).try_for_each(|u| run.unit_checked(u))?,
            (None, RunMode::Timed) => {
                (0..plan.tasks.len()).try_for_each(|u| plan.schedule.timed(u, || run.unit_checked(u)))?
            }
            (None, RunMode::Windows(windows, threads, trial)) => {
                let start = trial.map(|_| Instant::now());
                run.windows(windows, threads)?;
                if let (Some(way), Some(start)) = (trial, start) {
                    plan.schedule.record(way, start.elapsed());
                }
            }
        }
        plan.fetches
            .iter()
            .map(|&v| match run.state.get(v) {
                // A declared variable that was never written is fetched as it is.
                Value::None if !plan.vars.get(v as usize).is_some_and(|v| v.declared) => {
                    let name = plan.vars.get(v as usize).map_or("@EMPTY@", |v| v.name.as_str());
                    bail!(
                        NotFound,
                        "fetch: variable '{name}' has no value: no operator of the Program has written it; is that the \
                         name that is meant?"
                    )
                }
                value => Ok(value),
            })
            .collect()
    }
}

/// The device of a run. It is determined once: registering a backend meanwhile changes neither the plan nor the way in
/// which it runs.
struct RunDevice {
    backend: Arc<dyn Backend>,
    number: i32,
}

impl RunDevice {
    /// The current device, else the one that holds a fed value; `None`: a run on the CPU.
    fn among(values: &[Value]) -> Option<RunDevice> {
        if !backend::is_active() {
            return None;
        }
        let number = backend::current().or_else(|| backend::device_of(values.iter()))?;
        Some(RunDevice { backend: backend::registered()?, number })
    }

    /// Calls `run` with the device, if there is one, as the current one of this thread.
    fn within<R>(device: Option<&RunDevice>, run: impl FnOnce() -> R) -> R {
        match device {
            Some(device) => backend::on(Some(device.number), run),
            None => run(),
        }
    }

    /// Operands of a step that may keep them: those in memory that graphs write again are copied.
    fn own_operands(&self, ins: &mut Args) -> Result<()> {
        ins.flat.iter_mut().try_for_each(|value| pieces::owned(&*self.backend, value).map(|own| *value = own))
    }

    /// A fed value in the device's memory: it is copied there once, not by every operator that reads it.
    fn fed(&self, value: &Value) -> Result<Value> {
        backend::to_device(&*self.backend, value, self.number)
    }

    /// Moves floating-point operands of a step that are on the host, next to operands on the device, and their
    /// variables with them: later steps, and for variables of the scope later runs, find them there.
    fn move_operands(&self, step: &Step, state: &State, ins: &mut Args) -> Result<()> {
        if step.reaches_scope() {
            return self.own_operands(ins);
        }
        if backend::passes_on(step.op) || !self.backend.has(step.op.name) {
            return Ok(());
        }
        if backend::device_of(ins.flat.iter()).is_none() {
            return Ok(());
        }
        for (&v, value) in step.ins.flat.iter().zip(ins.flat.iter_mut()) {
            let on_host =
                |t: &Tensor| t.on_device().is_none() && t.has_bytes() && t.numel() > 0 && t.dtype().is_float();
            if v != ABSENT && value.as_dense().is_some_and(on_host) {
                *value = self.fed(value)?;
                state.set(v, value.clone());
            }
        }
        Ok(())
    }
}

/// True if the outside variables that removed operators would read are as the Program declares them.
fn as_declared(plan: &ExecutionPlan, scope: &Arc<Scope>, values: &[Value]) -> bool {
    plan.needs.iter().all(|need| {
        let fed = plan.feeds.iter().rposition(|f| *f == Some(need.var)).and_then(|i| values.get(i));
        let fits = |held: &Value| {
            held.as_dense().is_some_and(|t| {
                t.dtype() == need.dtype
                    && t.rank() == need.dims.len()
                    && t.dims().iter().zip(&need.dims).all(|(&d, &want)| d > 0 && (want < 0 || d == want))
            })
        };
        match fed {
            Some(value) => fits(value),
            None => scope.find(&plan.vars[need.var as usize].name).is_some_and(|cell| fits(&cell.lock())),
        }
    })
}

/// One run of a plan.
struct Running<'a> {
    executor: &'a Executor,
    program: &'a Arc<Program>,
    plan: &'a ExecutionPlan,
    scope: &'a Arc<Scope>,
    state: State,
    passes: Passes,
    device: Option<&'a RunDevice>,
}

impl Running<'_> {
    /// Runs a task, and drops what ends with it.
    #[inline]
    fn unit_checked(&self, u: usize) -> Result<()> {
        fork::pause();
        if u & 3 == 3 {
            check_interrupt_now_and_then()?;
        }
        match self.plan.tasks[u] {
            Task::Step(i) => {
                self.step(i)?;
                let step = &self.plan.steps[i];
                self.state.end(&step.dead, &step.release);
            }
            Task::Group(g) => {
                self.group(&self.plan.groups[g], true)?;
            }
        }
        Ok(())
    }

    fn step(&self, i: usize) -> Result<()> {
        let step = &self.plan.steps[i];
        let env = PlanEnv {
            executor: self.executor,
            program: self.program,
            scope: self.scope,
            step,
            passes: self.passes,
            device: self.device,
        };
        let run = &mut || run_step(step, &self.state, &env);
        let result = match self.device.filter(|_| step.reaches_scope()) {
            Some(device) => device.backend.unkept(run),
            None => run(),
        };
        result.map_err(|e| at_line(e, &step.desc))
    }

    fn group(&self, group: &plan::Group, ends: bool) -> Result<()> {
        // Observers of every output need those inside the group as well.
        let alone = profile::is_checked();
        let span = profile::span(|| {
            let names: Vec<_> = group.steps.clone().map(|i| self.plan.steps[i].op.name).collect();
            names.join("+").into()
        });
        if !alone && fused::run(group, self.plan, &self.state, self.passes.has(Passes::ALWAYS)) {
            drop(span);
            if ends {
                self.state.end(&group.dead, &group.release);
            }
            return Ok(());
        }
        if let Some(span) = span {
            span.cancel();
        }
        for i in group.steps.clone() {
            self.step(i)?;
            if ends {
                self.state.end(&self.plan.steps[i].dead, &self.plan.steps[i].release);
            }
        }
        Ok(())
    }

    /// Runs the tasks in order, and windows in parallel. A temporary that ends in a window is dropped by the last task
    /// that uses it.
    fn windows(&self, windows: &[Window], threads: usize) -> Result<()> {
        let mut at = 0;
        for window in windows {
            (at..window.tasks.start).try_for_each(|u| self.unit_checked(u))?;
            let task = |u: usize| match self.plan.tasks[u] {
                Task::Step(i) => self.step(i),
                Task::Group(g) => self.group(&self.plan.groups[g], false),
            };
            window.run(threads, &task, &|var, shape_stays| match shape_stays {
                true => self.state.end(&[], &[var]),
                false => self.state.end(&[var], &[]),
            })?;
            check_interrupt()?;
            at = window.tasks.end;
        }
        (at..self.plan.tasks.len()).try_for_each(|u| self.unit_checked(u))
    }
}

/// Runs tasks. Consecutive steps that a device has kernels for are entered together (in Python: the GIL once).
fn run_segments(
    device: &dyn Backend,
    plan: &ExecutionPlan,
    tasks: Range<usize>,
    run: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let is_launched = |task: &Task| match *task {
        Task::Step(i) => backend::passes_on(plan.steps[i].op) || device.has(plan.steps[i].op.name),
        Task::Group(_) => false,
    };
    let mut i = tasks.start;
    while i < tasks.end {
        let launched = plan.tasks[i..tasks.end].iter().take_while(|task| is_launched(task)).count();
        if launched > 1 {
            device.enter(&mut || (i..i + launched).try_for_each(&mut *run))?;
        } else {
            run(i)?;
        }
        i += launched.max(1);
    }
    Ok(())
}

fn run_step(step: &Step, state: &State, env: &PlanEnv) -> Result<()> {
    if !step.in_place.is_empty() || !step.keeps.is_empty() {
        return run_changing(step, state, env);
    }
    let mut ins = step.ins.map(|&v| state.read(v));
    if let Some(device) = env.device {
        device.move_operands(step, state, &mut ins)?;
    }
    let mut outs = step.outs.map(|&v| Out::wanted(v != ABSENT));
    call_checked(step.op, &step.attrs, &mut ins, &mut outs, false, env)?;
    drop(ins);
    for (&v, out) in step.outs.flat.iter().zip(outs.flat.iter_mut()) {
        if v != ABSENT && !out.value.is_none() {
            state.set(v, std::mem::take(&mut out.value));
        }
    }
    Ok(())
}

/// A step that changes variables in place. If it fails, they hold their old values, or what was written by then.
fn run_changing(step: &Step, state: &State, env: &PlanEnv) -> Result<()> {
    let mut reads = step.reads.iter();
    let mut ins = step.ins.map(|&v| match reads.next() {
        Some(Read::No) => Value::None,
        Some(Read::Value) => state.get(v),
        Some(Read::Storage) | None => state.read(v),
    });
    if let Some(device) = env.device {
        device.move_operands(step, state, &mut ins)?;
    }
    let mut outs = step.outs.map(|&v| Out::wanted(v != ABSENT));
    for &(i, o) in &step.in_place {
        ins.flat[i as usize] = state.write(step.ins.flat[i as usize])?;
        outs.flat[o as usize].in_place = true;
    }
    if !step.keeps.is_empty() {
        return run_keeping(step, state, env, ins, outs);
    }
    call_checked(step.op, &step.attrs, &mut ins, &mut outs, false, env)?;
    drop(ins);
    for (&v, out) in step.outs.flat.iter().zip(outs.flat.iter_mut()) {
        match std::mem::take(&mut out.value) {
            Value::None => {}
            value if out.in_place => state.finish(v, value),
            value => state.set(v, value),
        }
    }
    Ok(())
}

/// A step with outputs that start from their variables' values. It extends a list, which therefore moves into the step
/// and back; readers of the variable wait meanwhile. On a device they do not: a kernel takes the GIL, which a reader may
/// hold. The step then works on a copy-on-write reference.
fn run_keeping(step: &Step, state: &State, env: &PlanEnv, mut ins: Args, mut outs: Args<Out>) -> Result<()> {
    if env.device.is_some() || backend::device_of(ins.flat.iter()).is_some() {
        for &o in &step.keeps {
            outs.flat[o as usize].value = state.get(step.outs.flat[o as usize]);
        }
        call_checked(step.op, &step.attrs, &mut ins, &mut outs, false, env)?;
        return set_outputs(step, state, &mut outs);
    }
    let mut held: SmallVec<[_; 1]> = step.keeps.iter().map(|&o| state.lock(step.outs.flat[o as usize])).collect();
    for (&o, held) in step.keeps.iter().zip(&mut held) {
        outs.flat[o as usize].value = std::mem::take(&mut **held);
    }
    let result = call_checked(step.op, &step.attrs, &mut ins, &mut outs, false, env);
    for (&o, held) in step.keeps.iter().zip(&mut held) {
        **held = std::mem::take(&mut outs.flat[o as usize].value);
    }
    drop(held);
    result?;
    set_outputs(step, state, &mut outs)
}

fn set_outputs(step: &Step, state: &State, outs: &mut Args<Out>) -> Result<()> {
    for (&v, out) in step.outs.flat.iter().zip(outs.flat.iter_mut()) {
        if !out.value.is_none() {
            state.set(v, std::mem::take(&mut out.value));
        }
    }
    Ok(())
}

/// The environment of a plan's Host and Control operators.
pub struct PlanEnv<'a> {
    pub executor: &'a Executor,
    pub program: &'a Arc<Program>,
    /// The scope of this run or step: it holds the block's own variables, its parents the rest.
    pub scope: &'a Arc<Scope>,
    pub step: &'a Step,
    pub passes: Passes,
    device: Option<&'a RunDevice>,
}

impl Env for PlanEnv<'_> {
    fn frame(&self) -> Option<Frame> {
        Some(Frame { program: self.program.clone(), scope: self.scope.clone() })
    }

    fn run_block(&self, block: i32, scope: &Arc<Scope>) -> Result<()> {
        self.executor.run_block(self.program, block, scope, self.passes, self.device)
    }

    fn desc_attr(&self, name: &str) -> Option<Attr> {
        self.step.desc.attrs.get(name).cloned()
    }

    fn names(&self, slot: &str) -> Vec<String> {
        let desc = &self.step.desc;
        desc.input(slot).or_else(|| desc.output(slot)).map(<[String]>::to_vec).unwrap_or_default()
    }

    fn cell(&self, slot: &str, i: usize) -> Option<Arc<VarStorage>> {
        self.scope.find(self.step.desc.input(slot)?.get(i)?)
    }

    fn check_interrupt(&self) -> Result<()> {
        check_interrupt()
    }
}
