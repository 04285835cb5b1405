//! Handles of operations in the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::call::Region;
use crate::error::{Error, Result};
use crate::fork::ForkGeneration;
use crate::socket::SLICE;

#[derive(Default)]
pub(crate) struct Outcome {
    pub result: Mutex<Option<Result<()>>>,
    pub output: Mutex<Region>,
    pub ended: Condvar,
}

impl Outcome {
    pub fn end(&self, result: Result<()>, output: Region) {
        *self.output.lock() = output;
        *self.result.lock() = Some(result);
        self.ended.notify_all();
    }
}

/// An operation in progress. Dropping the handle does not stop it.
#[derive(Clone)]
pub struct Work {
    pub(crate) outcome: Arc<Outcome>,
    pub(crate) name: &'static str,
    pub(crate) generation: ForkGeneration,
}

impl Work {
    pub fn is_done(&self) -> bool {
        !self.generation.is_forked() && self.outcome.result.lock().is_some()
    }

    /// Waits for the end, at most `limit`. After `Error::Timeout` the operation continues and can be waited for again;
    /// its own limit ends it in any case.
    pub fn wait(&self, limit: Option<Duration>) -> Result<()> {
        self.wait_with(limit, &|| false)
    }

    /// As `wait`; `tick` is called at least every 50 ms, and `true` from it ends the wait (not the operation).
    pub fn wait_with(&self, limit: Option<Duration>, tick: &dyn Fn() -> bool) -> Result<()> {
        self.generation.check("an operation")?;
        let start = Instant::now();
        let mut result = self.outcome.result.lock();
        loop {
            if let Some(r) = &*result {
                return r.clone();
            }
            let waited = start.elapsed();
            if limit.is_some_and(|l| waited >= l) {
                let during = format!("waiting for an {} in the background", self.name);
                return Err(Error::Timeout { waited, during, waiting_for: "its end".into() });
            }
            let slice = limit.map_or(SLICE, |l| (l - waited).min(SLICE));
            self.outcome.ended.wait_for(&mut result, slice);
            if result.is_none() {
                // The check may take long or call back: it runs without the lock.
                let stop = parking_lot::MutexGuard::unlocked(&mut result, tick);
                if stop {
                    return Err(Error::Interrupted { during: format!("waiting for an {}", self.name) });
                }
            }
        }
    }

    /// The output region, once the operation has ended; owned regions return their result this way.
    pub fn take(&self) -> Region {
        if self.is_done() {
            std::mem::take(&mut *self.outcome.output.lock())
        } else {
            Region::Absent
        }
    }
}
