//! Scopes: named variables, looked up through parents.

use super::VarStorage;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A fast hash of names: each run looks up every variable that it keeps. Names are trusted: collisions only cost time.
#[derive(Default)]
struct NameHash(u64);

impl Hasher for NameHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        let mut take = |word: u64| self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for word in &mut words {
            take(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        take(u64::from_le_bytes(last));
    }
}

type Vars = HashMap<String, Arc<VarStorage>, BuildHasherDefault<NameHash>>;

#[derive(Default)]
pub struct Scope {
    vars: Mutex<Vars>,
    parent: Option<Weak<Scope>>,
    kids: Mutex<Vec<Arc<Scope>>>,
    /// Counts names that were bound or erased.
    changes: AtomicU64,
}

impl Scope {
    pub fn new() -> Arc<Scope> {
        Arc::new(Scope::default())
    }

    /// A new scope whose lookups continue in this one; it lives until `drop_kids`.
    pub fn child(self: &Arc<Scope>) -> Arc<Scope> {
        let kid = Arc::new(Scope { parent: Some(Arc::downgrade(self)), ..Scope::default() });
        self.kids.lock().push(kid.clone());
        kid
    }

    /// The variable of this scope with that name, created if absent.
    pub fn var(&self, name: &str) -> Arc<VarStorage> {
        let mut vars = self.vars.lock();
        match vars.get(name) {
            Some(cell) => cell.clone(),
            None => {
                self.changed();
                vars.entry(name.to_string()).or_default().clone()
            }
        }
    }

    /// Binds a name to existing storage.
    pub fn bind(&self, name: &str, cell: Arc<VarStorage>) {
        let mut vars = self.vars.lock();
        self.changed();
        vars.insert(name.to_string(), cell);
    }

    /// Called with `vars` locked, before a change.
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// A number that grows with each change of what a name finds from this scope.
    pub fn changes(&self) -> u64 {
        let own = self.changes.load(Ordering::Acquire);
        own.wrapping_add(match &self.parent {
            None => 0,
            Some(parent) => parent.upgrade().map_or(1 << 63, |parent| parent.changes()),
        })
    }

    pub fn find_local(&self, name: &str) -> Option<Arc<VarStorage>> {
        self.vars.lock().get(name).cloned()
    }

    /// The variable with that name here or in the nearest parent that has it.
    pub fn find(&self, name: &str) -> Option<Arc<VarStorage>> {
        if let Some(cell) = self.find_local(name) {
            return Some(cell);
        }
        let mut scope = self.parent()?;
        loop {
            if let Some(cell) = scope.find_local(name) {
                return Some(cell);
            }
            scope = scope.parent()?;
        }
    }

    pub fn parent(&self) -> Option<Arc<Scope>> {
        self.parent.as_ref().and_then(Weak::upgrade)
    }

    pub fn erase(&self, names: &[String]) {
        let mut vars = self.vars.lock();
        self.changed();
        names.iter().for_each(|n| drop(vars.remove(n)));
    }

    /// Empties every variable of this scope.
    pub fn clear(&self) {
        let cells: Vec<_> = self.vars.lock().values().cloned().collect();
        cells.iter().for_each(|c| c.clear());
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.vars.lock().keys().cloned().collect();
        names.sort();
        names
    }

    pub fn drop_kids(&self) {
        let kids = std::mem::take(&mut *self.kids.lock());
        drop(kids);
    }

    /// Drops one child.
    pub fn drop_kid(&self, kid: &Arc<Scope>) {
        self.kids.lock().retain(|k| !Arc::ptr_eq(k, kid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_count_what_a_name_finds() {
        let outer = Scope::new();
        let inner = outer.child();
        let mut last = inner.changes();
        let mut changed = |scope: &Scope| {
            let now = scope.changes();
            std::mem::replace(&mut last, now) != now
        };
        outer.var("w");
        assert!(changed(&inner) && !changed(&inner));
        inner.find("w");
        outer.var("w");
        outer.clear();
        outer.child().var("v");
        assert!(!changed(&inner));
        inner.var("w");
        assert!(changed(&inner));
        inner.erase(&["w".to_string()]);
        assert!(changed(&inner));
        outer.bind("w", Arc::default());
        assert!(changed(&inner));
        outer.drop_kids();
        drop(outer);
        assert!(changed(&inner));
    }
}
