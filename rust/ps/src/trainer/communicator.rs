//! The communicator: sends gradients and receives parameters concurrently with a trainer's steps. At most one per
//! process runs.

pub use super::base::{CommContext, CommunicatorMode, CommunicatorSettings};

use super::base::Base;
use super::geo::Geo;
use super::queues::Queued;
use oar_comm::Signals;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::tensor::{Scope, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

enum Work {
    Queued(Queued),
    Geo(Geo),
}

pub struct Communicator {
    base: Arc<Base>,
    work: Work,
}

static CURRENT: Mutex<Option<Arc<Communicator>>> = Mutex::new(None);

/// The running communicator.
pub fn current() -> Option<Arc<Communicator>> {
    CURRENT.lock().clone()
}

/// Waits until the running async communicator has sent all queued values: a request to the servers must see them.
pub fn all_sent() -> Result<()> {
    match current().as_deref() {
        Some(Communicator { base, work: Work::Queued(q) }) if base.mode == CommunicatorMode::Async => {
            base.check()?;
            q.sent(&Signals::watch())
        }
        _ => Ok(()),
    }
}

/// Stops the running communicator, if any, after sending all queued values.
pub fn stop_current() -> Result<()> {
    current().map_or(Ok(()), |c| c.stop())
}

/// Indexes the checked contexts by name.
fn by_name(list: Vec<CommContext>) -> Result<BTreeMap<String, CommContext>> {
    list.iter().try_for_each(|c| c.check().map(drop))?;
    Ok(list.into_iter().map(|c| (c.name.clone(), c)).collect())
}

impl Communicator {
    pub fn new(
        mode: CommunicatorMode,
        send: Vec<CommContext>,
        recv: Vec<CommContext>,
        scope: Arc<Scope>,
        settings: CommunicatorSettings,
    ) -> Result<Communicator> {
        let s = &settings;
        ensure!(
            s.max_merge_var_num > 0 && s.send_queue_size > 0 && s.trainers > 0 && s.push_nums > 0,
            InvalidArgument,
            "a communicator needs max_merge_var_num, send_queue_size, trainers and push_nums above 0, got {}, {}, {} and {}",
            s.max_merge_var_num,
            s.send_queue_size,
            s.trainers,
            s.push_nums
        );
        let (send, recv) = (by_name(send)?, by_name(recv)?);
        let base = Arc::new(Base { mode, send, recv, scope, settings, failed: Mutex::default() });
        let work = match mode {
            CommunicatorMode::Geo => Work::Geo(Geo::new(base.clone())?),
            _ => Work::Queued(Queued::new(base.clone())),
        };
        Ok(Communicator { base, work })
    }

    pub fn start(self: &Arc<Communicator>) -> Result<()> {
        {
            let mut now = CURRENT.lock();
            ensure!(
                now.as_ref().is_none_or(|c| Arc::ptr_eq(c, self)),
                PreconditionNotMet,
                "another communicator of this process is running; stop it first"
            );
            if now.is_some() {
                return Ok(());
            }
            *now = Some(self.clone());
        }
        let started = match &self.work {
            Work::Queued(q) => q.start(),
            Work::Geo(g) => g.start(),
        };
        if started.is_err() {
            *CURRENT.lock() = None;
        }
        started
    }

    /// Sends all queued values, and stops.
    pub fn stop(self: &Arc<Communicator>) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        let ended = match &self.work {
            Work::Queued(q) => q.stop(),
            Work::Geo(g) => g.stop(&Signals::watch()),
        };
        *CURRENT.lock() = None;
        ended.and_then(|()| self.base.check())
    }

    pub fn is_running(self: &Arc<Communicator>) -> bool {
        CURRENT.lock().as_ref().is_some_and(|c| Arc::ptr_eq(c, self))
    }

    /// Receives all parameters from the servers now.
    pub fn receive(&self) -> Result<()> {
        match &self.work {
            Work::Queued(q) => q.receive(),
            Work::Geo(g) => g.receive(&Signals::watch()),
        }
    }

    /// Takes over the values of a send operator. False if none of these variables belongs to the communicator.
    pub fn take(
        &self,
        op: &str,
        tables: &[String],
        names: &[String],
        values: &[Value],
        signals: &Signals,
    ) -> Result<bool> {
        self.base.check()?;
        match &self.work {
            Work::Geo(g) => g.step(op, tables, values, signals).map(|()| true),
            Work::Queued(q) => {
                let known = |n: &String| self.base.send.contains_key(n);
                let (Some(name), Some(value)) = (tables.iter().take(1).chain(names).find(|n| known(n)), values.first())
                else {
                    return Ok(false);
                };
                // A value that was not computed is not sent.
                if !value.is_none() {
                    q.put(name, value.clone(), signals)?;
                }
                Ok(true)
            }
        }
    }

    /// Ends a step: returns when everything sent before is reflected in the local parameters.
    pub fn barrier(&self, signals: &Signals) -> Result<()> {
        self.base.check()?;
        match &self.work {
            Work::Queued(q) => q.barrier(signals),
            Work::Geo(_) => Ok(()),
        }
    }

    pub fn mode(&self) -> CommunicatorMode {
        self.base.mode
    }
}
