//! Groups of variables that share memory, held by weak references.

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

struct Family<T> {
    /// Held while bytes are propagated, so that all members end with the bytes of the last writer.
    members: Mutex<Vec<Weak<T>>>,
    /// Held by the thread that copies the bytes in order to write them.
    moving: Mutex<()>,
}

/// A variable's link to its alias group; empty for most variables.
pub(super) struct AliasGroup<T> {
    all: OnceLock<Arc<Family<T>>>,
    stale: AtomicBool,
}

impl<T> Default for AliasGroup<T> {
    fn default() -> AliasGroup<T> {
        AliasGroup { all: OnceLock::new(), stale: AtomicBool::new(false) }
    }
}

impl<T> AliasGroup<T> {
    /// True if the variable has, or had, aliases.
    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.all.get().is_some()
    }

    /// True if the variable was changed through an alias by a recorded operator, so that its own history is
    /// incomplete.
    #[inline]
    pub(super) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    pub(super) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Adds `new` (whose link is `of_new`) to the group of `base` (whose link is `self`), if `share` gives it the
    /// bytes.
    pub(super) fn add_alias(&self, base: &Arc<T>, new: &Arc<T>, of_new: &AliasGroup<T>, share: impl FnOnce() -> bool) {
        let all = self.all.get_or_init(|| {
            Arc::new(Family { members: Mutex::new(vec![Arc::downgrade(base)]), moving: Mutex::new(()) })
        });
        let mut members = all.members.lock();
        if !share() {
            return;
        }
        if members.len() == members.capacity() {
            members.retain(|member| member.strong_count() > 0);
        }
        members.push(Arc::downgrade(new));
        let _ = of_new.all.set(all.clone());
    }

    /// Locks the group against other threads that copy its bytes.
    pub(super) fn moving(&self) -> Option<MutexGuard<'_, ()>> {
        self.all.get().map(|all| all.moving.lock())
    }

    /// Calls `each` for every other living member, one thread at a time.
    #[cold]
    pub(super) fn for_others(&self, than: &T, each: impl Fn(&T)) {
        let Some(all) = self.all.get() else { return };
        // Dropped after the lock is released: a value may own Python objects.
        let mut others: SmallVec<[Arc<T>; 4]> = SmallVec::new();
        let members = all.members.lock();
        others.extend(members.iter().filter_map(Weak::upgrade).filter(|member| !std::ptr::eq(&**member, than)));
        others.iter().for_each(|other| each(other));
        drop(members);
    }
}
