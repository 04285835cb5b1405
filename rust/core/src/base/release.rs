//! The release of Paddle whose arithmetic operators follow: 2.0, or 1.8 where `FLAGS_compat=1.8` is set. A setting of
//! the process.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_18: AtomicBool = AtomicBool::new(false);

/// True if operators that changed between 1.8 and 2.0 compute as in 1.8.
pub fn is_18() -> bool {
    IS_18.load(Ordering::Relaxed)
}

pub fn set_18(on: bool) {
    IS_18.store(on, Ordering::Relaxed);
}
