//! Who shares memory with whom: lists of variables, that do not keep each other alive.

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

struct Family<T> {
    /// Held while bytes are handed on: whoever hands last, all have the same ones.
    members: Mutex<Vec<Weak<T>>>,
    /// Held by the thread that copies the bytes to write them.
    moving: Mutex<()>,
}

/// What one of them knows of the others; nothing for most.
pub(super) struct Kin<T> {
    all: OnceLock<Arc<Family<T>>>,
    overtaken: AtomicBool,
}

impl<T> Default for Kin<T> {
    fn default() -> Kin<T> {
        Kin { all: OnceLock::new(), overtaken: AtomicBool::new(false) }
    }
}

impl<T> Kin<T> {
    /// Are there others, or were there?
    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.all.get().is_some()
    }

    /// Was it changed in a way that its own history does not know?
    #[inline]
    pub(super) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    pub(super) fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Makes `new`, whose `Kin` is `of_new`, one of those of `base`, whose own this is, if `share` gave it its bytes.
    pub(super) fn admit(&self, base: &Arc<T>, new: &Arc<T>, of_new: &Kin<T>, share: impl FnOnce() -> bool) {
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

    /// The lock of who copies the bytes of all.
    pub(super) fn moving(&self) -> Option<MutexGuard<'_, ()>> {
        self.all.get().map(|all| all.moving.lock())
    }

    /// Does it for the others that live, one thread at a time.
    #[cold]
    pub(super) fn for_others(&self, than: &T, each: impl Fn(&T)) {
        let Some(all) = self.all.get() else { return };
        // Dropped after the lock is gone: a value may own Python objects.
        let mut others: SmallVec<[Arc<T>; 4]> = SmallVec::new();
        let members = all.members.lock();
        others.extend(members.iter().filter_map(Weak::upgrade).filter(|member| !std::ptr::eq(&**member, than)));
        others.iter().for_each(|other| each(other));
        drop(members);
    }
}
