//! The storage of a plan's variables, kept between runs.

use oar_core::tensor::{Scope, VarStorage};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The storage that a plan's variables had in the scope of its last run: looking names up takes longer than a small
/// operator.
#[derive(Default)]
pub struct Found(Mutex<Option<FoundIn>>);

struct FoundIn {
    scope: Weak<Scope>,
    /// `Scope::changes` before the lookups.
    changes: u64,
    cells: Vec<Option<Weak<VarStorage>>>,
}

impl Found {
    /// `None`: the last run had another scope, or names have changed.
    pub fn get(&self, scope: &Arc<Scope>, changes: u64) -> Option<Vec<Option<Arc<VarStorage>>>> {
        let found = self.0.try_lock()?;
        let found = found.as_ref().filter(|f| f.changes == changes && Weak::as_ptr(&f.scope) == Arc::as_ptr(scope))?;
        found.cells.iter().map(|cell| cell.as_ref().map_or(Some(None), |cell| cell.upgrade().map(Some))).collect()
    }

    pub fn set(&self, scope: &Arc<Scope>, changes: u64, cells: &[Option<Arc<VarStorage>>]) {
        let cells = cells.iter().map(|cell| cell.as_ref().map(Arc::downgrade)).collect();
        *self.0.lock() = Some(FoundIn { scope: Arc::downgrade(scope), changes, cells });
    }
}
