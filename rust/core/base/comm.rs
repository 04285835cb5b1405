//! Between the engine and the processes it works with: signals while it waits for them, their failures as its errors.

use super::{Error, Kind, Result};
use oar_dist::{Call, Group, Region};
use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Asks the embedding (Python) whether the user wants to stop; set once.
pub static INTERRUPT: OnceLock<fn() -> Result<()>> = OnceLock::new();

pub fn check_interrupt() -> Result<()> {
    INTERRUPT.get().map_or(Ok(()), |f| f())
}

/// [`check_interrupt`], at most every 50 ms: for loops whose steps may be as short as a microsecond or as long as a
/// kernel is. It costs a look at the clock that the system keeps by its ticks.
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

/// An error that stands for "asked to stop".
pub fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted")
}

impl From<oar_dist::Error> for Error {
    fn from(e: oar_dist::Error) -> Error {
        use oar_dist::Error as E;
        let kind = match &e {
            E::Invalid(_) | E::Mismatch { .. } => Kind::InvalidArgument,
            E::Timeout { .. } => Kind::Timeout,
            E::Interrupted { .. } => Kind::Interrupted,
            E::Io { .. } => Kind::External,
            _ => Kind::Unavailable,
        };
        Error::new(kind, e.to_string())
    }
}

/// What a wait asks between its slices. Keeps the answer (a pending Python exception), which is the error then.
pub struct Signals {
    asked: RefCell<Instant>,
    answer: RefCell<Option<Error>>,
}

impl Signals {
    pub fn watch() -> Signals {
        Signals { asked: RefCell::new(Instant::now()), answer: RefCell::new(None) }
    }

    /// Should the wait end? Asking may take the GIL, so not at every turn of a spinning wait.
    pub fn stop(&self) -> bool {
        if self.answer.borrow().is_some() {
            return true;
        }
        let now = Instant::now();
        if now.duration_since(*self.asked.borrow()) < Duration::from_millis(20) {
            return false;
        }
        self.asked.replace(now);
        match check_interrupt() {
            Ok(()) => false,
            Err(e) => {
                self.answer.replace(Some(e));
                true
            }
        }
    }

    /// The end of the wait as the engine's result.
    pub fn explain<T>(self, result: oar_dist::Result<T>) -> Result<T> {
        result.map_err(|e| match self.answer.into_inner() {
            Some(signal) if matches!(e, oar_dist::Error::Interrupted { .. }) => signal,
            _ => e.into(),
        })
    }
}

/// Runs a collective to its end, obeying signals.
pub fn run(group: &Group, call: Call) -> Result<Region> {
    let signals = Signals::watch();
    let result = group.run_with(call, &|| signals.stop());
    signals.explain(result)
}
