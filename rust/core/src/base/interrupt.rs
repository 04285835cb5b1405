//! Interruption by the user (Ctrl-C): long loops poll it.

use super::{Error, ErrorKind, Result};
use std::sync::OnceLock;

/// Polls the embedding (Python) for a pending interrupt; set once.
pub static INTERRUPT: OnceLock<fn() -> Result<()>> = OnceLock::new();

pub fn check_interrupt() -> Result<()> {
    INTERRUPT.get().map_or(Ok(()), |f| f())
}

/// [`check_interrupt`] at most every 50 ms, for loops whose steps take between a microsecond and a kernel's time. A
/// call costs one read of the coarse clock.
pub fn check_interrupt_now_and_then() -> Result<()> {
    thread_local! {
        static ASKED: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that this call may write.
    unsafe { libc::clock_gettime(COARSE, &mut now) };
    let now = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    if now - ASKED.get() < 50 {
        return Ok(());
    }
    ASKED.set(now);
    check_interrupt()
}

#[cfg(target_os = "linux")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
#[cfg(not(target_os = "linux"))]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// The error of an interrupted call.
pub fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted")
}
