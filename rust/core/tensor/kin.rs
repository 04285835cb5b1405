//! Who shares memory with whom: lists of variables, that do not keep each other alive.

use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What one of them knows of the others; nothing for most.
pub(super) struct Kin<T> {
    all: OnceLock<Arc<Mutex<Vec<Weak<T>>>>>,
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

    /// Makes `new`, whose `Kin` is `of_new`, one of those of `base`, whose own this is.
    pub(super) fn admit(&self, base: &Arc<T>, new: &Arc<T>, of_new: &Kin<T>) {
        let all = self.all.get_or_init(|| Arc::new(Mutex::new(vec![Arc::downgrade(base)]))).clone();
        let mut members = all.lock();
        if members.len() == members.capacity() {
            members.retain(|member| member.strong_count() > 0);
        }
        members.push(Arc::downgrade(new));
        drop(members);
        let _ = of_new.all.set(all);
    }

    /// The others that live.
    #[cold]
    pub(super) fn others(&self, than: &T) -> SmallVec<[Arc<T>; 4]> {
        let Some(all) = self.all.get() else { return SmallVec::new() };
        let members = all.lock();
        members.iter().filter_map(Weak::upgrade).filter(|member| !std::ptr::eq(&**member, than)).collect()
    }
}
