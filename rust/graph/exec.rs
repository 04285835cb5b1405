//! Running plans. An `Executor` keeps the plans it has compiled, by Program and its version, feeds and fetches.

use super::plan::{at_line, compile, Place, Plan, Step, Var, ABSENT};
use crate::bail;
use crate::base::comm::check_interrupt;
use crate::base::Result;
use crate::ir::{Attr, Program};
use crate::op::backend::{self, Backend};
use crate::op::run::{call_checked, Env, Frame, Out};
use crate::tensor::{Cell, Scope, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How many plans an executor keeps.
const KEPT: usize = 256;

type Key = (u64, u64, i32, Vec<String>, Vec<String>);

#[derive(Default)]
pub struct Executor {
    plans: Mutex<HashMap<Key, Arc<Plan>>>,
}

/// The state of a run: temporaries by number, and the cells of variables that live in scopes.
struct State {
    temporaries: Vec<Value>,
    cells: Vec<Option<Arc<Cell>>>,
}

impl Executor {
    pub fn new() -> Executor {
        Executor::default()
    }

    pub fn plan(&self, program: &Program, block: i32, feeds: &[String], fetches: &[String]) -> Result<Arc<Plan>> {
        let key = (program.uid(), program.revision(), block, feeds.to_vec(), fetches.to_vec());
        if let Some(plan) = self.plans.lock().get(&key) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(compile(program, block, feeds, fetches)?);
        let mut plans = self.plans.lock();
        if plans.len() >= KEPT {
            plans.clear();
        }
        plans.insert(key, plan.clone());
        Ok(plan)
    }

    /// Runs block 0: feeds, steps, fetches. Variables that are not persistable live in a scope of the run.
    pub fn run(
        &self,
        program: &Arc<Program>,
        scope: &Arc<Scope>,
        feeds: &[String],
        values: Vec<Value>,
        fetches: &[String],
    ) -> Result<Vec<Value>> {
        let plan = self.plan(program, 0, feeds, fetches)?;
        let local = if plan.vars.iter().any(|v| v.place == Place::Local) { Some(scope.child()) } else { None };
        let result = self.run_plan(program, &plan, scope, local.as_ref(), values);
        if let Some(local) = local {
            local.drop_kids();
            scope.drop_kid(&local);
        }
        result
    }

    /// Runs a sub-block once in `scope` (a step scope, whose parents hold what the block does not declare).
    pub fn run_block(&self, program: &Arc<Program>, block: i32, scope: &Arc<Scope>) -> Result<()> {
        let plan = self.plan(program, block, &[], &[])?;
        self.run_plan(program, &plan, scope, Some(scope), Vec::new()).map(drop)
    }

    fn run_plan(
        &self,
        program: &Arc<Program>,
        plan: &Plan,
        scope: &Arc<Scope>,
        local: Option<&Arc<Scope>>,
        values: Vec<Value>,
    ) -> Result<Vec<Value>> {
        let mut state = State {
            temporaries: vec![Value::None; plan.vars.len()],
            cells: plan
                .vars
                .iter()
                .map(|v| match v.place {
                    Place::Temporary => None,
                    Place::Outer => Some(scope.find(&v.name).unwrap_or_else(|| scope.var(&v.name))),
                    Place::Local => Some(local.unwrap_or(scope).var(&v.name)),
                })
                .collect(),
        };
        for (var, value) in plan.feeds.iter().zip(values) {
            if let Some(var) = var {
                state.set(*var, value);
            }
        }
        let scope = local.unwrap_or(scope);
        let mut run = |i: usize| {
            if i & 63 == 63 {
                check_interrupt()?;
            }
            let step = &plan.steps[i];
            let env = PlanEnv { executor: self, program, scope, step };
            run_step(step, &mut state, &env).map_err(|e| at_line(e, &step.desc))
        };
        let device = if backend::is_active() { backend::registered() } else { None };
        match device {
            Some(device) => run_segments(&*device, plan, &mut run)?,
            _ => (0..plan.steps.len()).try_for_each(run)?,
        }
        plan.fetches
            .iter()
            .map(|&v| match state.get(v) {
                Value::None => {
                    let name = plan.vars.get(v as usize).map_or("@EMPTY@", |v| v.name.as_str());
                    bail!(
                        NotFound,
                        "Input variable({name}) cannot be found in scope for operator 'Fetch': no operator of the \
                         Program has written it; is '{name}' the name of the variable that is meant?"
                    )
                }
                value => Ok(value),
            })
            .collect()
    }
}

/// Runs the steps; those in a row that a device has twins of are entered together (for Python: one time the GIL).
fn run_segments(device: &dyn Backend, plan: &Plan, run: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
    let (mut i, n) = (0, plan.steps.len());
    while i < n {
        let twins = plan.steps[i..].iter().take_while(|s| device.has(s.op.name)).count();
        if twins > 1 {
            device.enter(&mut || (i..i + twins).try_for_each(&mut *run))?;
        } else {
            run(i)?;
        }
        i += twins.max(1);
    }
    Ok(())
}

impl State {
    #[inline]
    fn get(&self, v: Var) -> Value {
        if v == ABSENT {
            return Value::None;
        }
        match &self.cells[v as usize] {
            Some(cell) => cell.get(),
            None => self.temporaries[v as usize].clone(),
        }
    }

    #[inline]
    fn take(&mut self, v: Var) -> Value {
        match &self.cells[v as usize] {
            Some(cell) => cell.take(),
            None => std::mem::take(&mut self.temporaries[v as usize]),
        }
    }

    #[inline]
    fn set(&mut self, v: Var, value: Value) {
        if v == ABSENT {
            return;
        }
        match &self.cells[v as usize] {
            Some(cell) => cell.set(value),
            None => self.temporaries[v as usize] = value,
        }
    }
}

fn run_step(step: &Step, state: &mut State, env: &PlanEnv) -> Result<()> {
    let mut at = 0u16;
    let mut ins = step.ins.map(|&v| {
        let i = at;
        at += 1;
        if step.in_place.iter().any(|p| p.0 == i) {
            state.take(v)
        } else {
            state.get(v)
        }
    });
    let mut outs = step.outs.map(|&v| Out::wanted(v != ABSENT));
    for &(_, o) in &step.in_place {
        outs.flat[o as usize].in_place = true;
    }
    for &o in &step.keeps {
        outs.flat[o as usize].value = state.take(step.outs.flat[o as usize]);
    }
    let result = call_checked(step.op, &step.attrs, &mut ins, &mut outs, false, env);
    if result.is_err() {
        for &o in &step.keeps {
            state.set(step.outs.flat[o as usize], std::mem::take(&mut outs.flat[o as usize].value));
        }
        // What was moved out of a variable goes back to it.
        for &(i, o) in &step.in_place {
            let value = match std::mem::take(&mut ins.flat[i as usize]) {
                Value::None => std::mem::take(&mut outs.flat[o as usize].value),
                value => value,
            };
            state.set(step.ins.flat[i as usize], value);
        }
        return result;
    }
    drop(ins);
    for (&v, out) in step.outs.flat.iter().zip(outs.flat.iter_mut()) {
        if v != ABSENT && !out.value.is_none() {
            state.set(v, std::mem::take(&mut out.value));
        }
    }
    for &v in &step.dead {
        state.temporaries[v as usize] = Value::None;
    }
    Ok(())
}

/// What Host and Control operators of a plan can reach.
pub struct PlanEnv<'a> {
    pub executor: &'a Executor,
    pub program: &'a Arc<Program>,
    /// The scope of this run or step: what the block declares is here, the rest in its parents.
    pub scope: &'a Arc<Scope>,
    pub step: &'a Step,
}

impl Env for PlanEnv<'_> {
    fn frame(&self) -> Option<Frame> {
        Some(Frame { program: self.program.clone(), scope: self.scope.clone() })
    }

    fn run_block(&self, block: i32, scope: &Arc<Scope>) -> Result<()> {
        self.executor.run_block(self.program, block, scope)
    }

    fn desc_attr(&self, name: &str) -> Option<Attr> {
        self.step.desc.attrs.get(name).cloned()
    }

    fn names(&self, slot: &str) -> Vec<String> {
        let desc = &self.step.desc;
        desc.input(slot).or_else(|| desc.output(slot)).map(<[String]>::to_vec).unwrap_or_default()
    }

    fn check_interrupt(&self) -> Result<()> {
        check_interrupt()
    }
}
