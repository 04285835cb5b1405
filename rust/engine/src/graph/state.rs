//! The state of a run: temporaries by number, and variables that live in scopes. Parallel tasks of a plan share it.

use super::plan::{ExecutionPlan, PlanVar, Storage, Var, ABSENT};
use oar_core::base::Result;
use oar_core::tensor::{Scope, Tensor, Value, VarStorage};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

pub struct State {
    temporaries: Vec<Mutex<Value>>,
    cells: Vec<Option<Arc<VarStorage>>>,
}

impl State {
    pub fn new(plan: &ExecutionPlan, scope: &Arc<Scope>, local: Option<&Arc<Scope>>) -> State {
        let temporaries = plan.vars.iter().map(|_| Mutex::new(Value::None)).collect();
        let changes = scope.changes();
        // Local variables may be in a scope of this run.
        if let Some(cells) = local.is_none().then(|| plan.found.get(scope, changes)).flatten() {
            return State { temporaries, cells };
        }
        let find = |v: &PlanVar| match v.place {
            Storage::Temporary => None,
            Storage::Outer => Some(scope.find(&v.name).unwrap_or_else(|| scope.var(&v.name))),
            Storage::Local => Some(local.unwrap_or(scope).var(&v.name)),
        };
        let cells: Vec<_> = plan.vars.iter().map(find).collect();
        if local.is_none() {
            plan.found.set(scope, changes, &cells);
        }
        State { temporaries, cells }
    }

    /// A snapshot of a value, to be fetched.
    #[inline]
    pub fn get(&self, v: Var) -> Value {
        if v == ABSENT {
            return Value::None;
        }
        match &self.cells[v as usize] {
            Some(cell) => cell.get(),
            None => self.temporaries[v as usize].lock().clone(),
        }
    }

    /// A value for an operator that reads it now.
    #[inline]
    pub fn read(&self, v: Var) -> Value {
        if v == ABSENT {
            return Value::None;
        }
        match &self.cells[v as usize] {
            Some(cell) => cell.read(),
            None => self.temporaries[v as usize].lock().clone(),
        }
    }

    /// A value for an operator that writes it in place; a variable in a scope keeps it meanwhile.
    #[inline]
    pub fn write(&self, v: Var) -> Result<Value> {
        match &self.cells[v as usize] {
            Some(cell) => cell.write(),
            None => Ok(self.take(v)),
        }
    }

    /// Completes a `write`.
    #[inline]
    pub fn finish(&self, v: Var, value: Value) {
        match &self.cells[v as usize] {
            Some(cell) => cell.finish(value),
            None => *self.temporaries[v as usize].lock() = value,
        }
    }

    /// The value itself.
    pub fn lock(&self, v: Var) -> MutexGuard<'_, Value> {
        match &self.cells[v as usize] {
            Some(cell) => cell.lock(),
            None => self.temporaries[v as usize].lock(),
        }
    }

    /// Takes the value of a temporary.
    #[inline]
    pub fn take(&self, v: Var) -> Value {
        std::mem::take(&mut *self.temporaries[v as usize].lock())
    }

    #[inline]
    pub fn set(&self, v: Var, value: Value) {
        if v == ABSENT {
            return;
        }
        match &self.cells[v as usize] {
            Some(cell) => cell.set(value),
            None => *self.temporaries[v as usize].lock() = value,
        }
    }

    /// Drops values that are not read any more, and the bytes of those of which only the shape is.
    #[inline]
    pub fn end(&self, dead: &[Var], release: &[Var]) {
        for &v in dead {
            *self.temporaries[v as usize].lock() = Value::None;
        }
        for &v in release {
            let mut held = self.temporaries[v as usize].lock();
            if let Value::Dense(t) = &mut *held {
                if let Ok(shape) = Tensor::shape_only(t.dtype(), t.dims()) {
                    *t = shape.with_lod(t.lod.take());
                }
            }
        }
    }
}
