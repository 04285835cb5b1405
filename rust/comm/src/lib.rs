//! Waits for other processes in the engine's terms: a wait ends on a signal, and errors of `oar-net` become the
//! engine's.

pub mod rows;

use oar_core::base::interrupt::check_interrupt;
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::err;
use oar_net::{rings, CollectiveCall, Group, Region};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Converts an error of `oar-net` to an error of the engine.
pub fn error(e: oar_net::Error) -> Error {
    use oar_net::Error as E;
    let kind = match &e {
        E::Invalid(_) | E::Mismatch { .. } => ErrorKind::InvalidArgument,
        E::Timeout { .. } => ErrorKind::Timeout,
        E::Interrupted { .. } => ErrorKind::Interrupted,
        E::Io { .. } => ErrorKind::External,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, e.to_string())
}

/// Checks for pending signals during a wait, and keeps the signal's error (a pending Python exception).
pub struct Signals {
    asked: RefCell<Instant>,
    answer: RefCell<Option<Error>>,
}

impl Signals {
    pub fn watch() -> Signals {
        Signals { asked: RefCell::new(Instant::now()), answer: RefCell::new(None) }
    }

    /// Whether the wait must end. At most one check per 20 ms: it may take the GIL, and spinning waits call this often.
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

    /// The signal's error, after [`Signals::stop`] returned true.
    pub fn pending(&self) -> Error {
        self.answer.take().unwrap_or_else(|| Error::new(ErrorKind::Interrupted, "the wait was interrupted"))
    }

    /// Converts the wait's result; an interruption by a signal becomes the signal's error.
    pub fn explain<T>(self, result: oar_net::Result<T>) -> Result<T> {
        result.map_err(|e| match self.answer.into_inner() {
            Some(signal) if matches!(e, oar_net::Error::Interrupted { .. }) => signal,
            _ => error(e),
        })
    }
}

/// Runs a collective to its end; a signal interrupts it.
pub fn run(group: &Group, call: CollectiveCall) -> Result<Region> {
    let signals = Signals::watch();
    let result = group.run_with(call, &|| signals.stop());
    signals.explain(result)
}

/// The group of a ring; the error names the operator.
pub fn group(op: &str, ring: i32) -> Result<Arc<Group>> {
    rings::get(ring).map_err(|e| err!(PreconditionNotMet, "operator {op}: ring {ring} has no communicator: {e}"))
}
