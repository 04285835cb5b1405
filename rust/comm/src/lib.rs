//! Between the engine and the processes it works with: signals while it waits for them, their failures as its errors.

pub mod rows;

use oar_core::base::interrupt::check_interrupt;
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::err;
use oar_net::{rings, CollectiveCall, Group, Region};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A failure of the processes as an error of the engine.
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

    /// The signal that ended the wait, after [`Signals::stop`] said so.
    pub fn pending(&self) -> Error {
        self.answer.take().unwrap_or_else(|| Error::new(ErrorKind::Interrupted, "the wait was interrupted"))
    }

    /// The end of the wait as the engine's result.
    pub fn explain<T>(self, result: oar_net::Result<T>) -> Result<T> {
        result.map_err(|e| match self.answer.into_inner() {
            Some(signal) if matches!(e, oar_net::Error::Interrupted { .. }) => signal,
            _ => error(e),
        })
    }
}

/// Runs a collective to its end, obeying signals.
pub fn run(group: &Group, call: CollectiveCall) -> Result<Region> {
    let signals = Signals::watch();
    let result = group.run_with(call, &|| signals.stop());
    signals.explain(result)
}

/// The group of a ring, for the operator of that name.
pub fn group(op: &str, ring: i32) -> Result<Arc<Group>> {
    rings::get(ring).map_err(|e| err!(PreconditionNotMet, "operator {op}: ring {ring} has no communicator: {e}"))
}
