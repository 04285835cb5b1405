//! State shared by all modes of the communicator: variables and their placement, settings, the first failure.

use super::remote::{distinct, open};
use crate::parts::split_by_sections;
use crate::protocol::{Outgoing, Session};
use crate::values::outgoing;
use oar_comm::Signals;
use oar_core::base::{Error, ErrorKind, Result};
use oar_core::tensor::{Scope, Value};
use oar_core::{bail, ensure, err};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Modes of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorMode {
    /// Servers take a step when all trainers have sent their gradients.
    Sync,
    /// Sends and receives run concurrently with the trainer's steps.
    Async,
    /// A step ends when all gradients are sent and parameters were received.
    HalfAsync,
    /// Trainers update their own parameters; differences are exchanged every few steps.
    Geo,
}

impl CommunicatorMode {
    pub fn parse(name: &str) -> Result<CommunicatorMode> {
        Ok(match name {
            "SYNC" => CommunicatorMode::Sync,
            "ASYNC" => CommunicatorMode::Async,
            "HALF_ASYNC" => CommunicatorMode::HalfAsync,
            "GEO" => CommunicatorMode::Geo,
            other => bail!(InvalidArgument, "a communicator's mode is SYNC, ASYNC, HALF_ASYNC or GEO, got {other:?}"),
        })
    }
}

/// Placement of a variable on servers.
#[derive(Clone, Debug)]
pub struct CommContext {
    pub name: String,
    /// Names of its parts on the servers; `endpoints` are their servers.
    pub parts: Vec<String>,
    pub endpoints: Vec<String>,
    /// Rows of each part.
    pub sections: Vec<i64>,
    pub trainer: u32,
    /// Values of several steps are summed, not averaged.
    pub sum: bool,
    pub sparse: bool,
    /// The whole variable is sent to every server.
    pub everywhere: bool,
}

impl CommContext {
    /// Checks the lengths of the lists.
    pub fn check(&self) -> Result<&CommContext> {
        let n = self.parts.len();
        ensure!(
            n > 0 && self.endpoints.len() == n,
            InvalidArgument,
            "the variable '{}': expected as many parts as endpoints, got {:?} and {:?}",
            self.name,
            self.parts,
            self.endpoints
        );
        Ok(self)
    }

    /// Splits a value into the messages for its parts.
    pub fn split(&self, value: Value) -> Result<Vec<Outgoing>> {
        if self.parts.len() == 1 || self.everywhere {
            return self.parts.iter().map(|part| outgoing(part, value.clone())).collect();
        }
        ensure!(
            self.sections.len() == self.parts.len(),
            InvalidArgument,
            "the sections {:?} of '{}' do not match its parts {:?}",
            self.sections,
            self.name,
            self.parts
        );
        let pieces: Vec<Value> = match &value {
            Value::Rows(r) => split_by_sections("send", r, &self.sections)?.into_iter().map(Value::from).collect(),
            _ => {
                let t = value.dense()?;
                let rows = t.dims().first().copied().unwrap_or(0);
                ensure!(
                    self.sections.iter().all(|&s| s >= 0) && self.sections.iter().sum::<i64>() == rows,
                    InvalidArgument,
                    "the sections {:?} of '{}' do not add up to its {rows} rows",
                    self.sections,
                    self.name
                );
                let mut from = 0;
                let split = self.sections.iter().map(|&s| {
                    let to = from + s as usize;
                    let piece = t.rows(from, to).with_lod(None);
                    from = to;
                    Value::Dense(piece)
                });
                split.collect()
            }
        };
        self.parts.iter().zip(pieces).map(|(part, piece)| outgoing(part, piece)).collect()
    }

    /// (server, part) for each part.
    pub(super) fn shards(&self) -> Vec<(String, String)> {
        self.endpoints.iter().cloned().zip(self.parts.iter().cloned()).collect()
    }
}

/// Settings, named as `FLAGS_communicator_*`.
#[derive(Clone, Debug)]
pub struct CommunicatorSettings {
    pub max_merge_var_num: usize,
    pub send_queue_size: usize,
    /// Gradients are sent once this many steps are queued and no exchange is in progress; 0: once `max_merge_var_num`
    /// are.
    pub send_from: usize,
    /// Checks of a queue, 10 ms apart, before an incomplete batch is sent.
    pub send_wait_times: u32,
    pub min_send_grad_num_before_recv: u64,
    pub independent_recv_thread: bool,
    pub merge_sparse_grad: bool,
    /// Limit of steps whose updates have not been received back; 0: no limit.
    pub max_staleness: u64,
    pub trainers: u32,
    /// Steps between two exchanges of [`CommunicatorMode::Geo`].
    pub push_nums: u64,
}

impl CommunicatorSettings {
    pub const LOOK: Duration = Duration::from_millis(10);
}

/// State shared by all modes.
pub(super) struct Base {
    pub mode: CommunicatorMode,
    pub send: BTreeMap<String, CommContext>,
    pub recv: BTreeMap<String, CommContext>,
    pub scope: Arc<Scope>,
    pub settings: CommunicatorSettings,
    /// The error that ended a background thread.
    pub(super) failed: Mutex<Option<(ErrorKind, String)>>,
}

impl Base {
    pub fn fail(&self, e: &Error) {
        self.failed.lock().get_or_insert_with(|| (e.kind(), e.message().to_string()));
    }

    pub fn check(&self) -> Result<()> {
        match &*self.failed.lock() {
            Some((kind, why)) => Err(Error::new(*kind, format!("the communicator has failed: {why}"))),
            None => Ok(()),
        }
    }

    /// The servers of these variables, and this trainer's sessions with them.
    pub fn sessions(&self, of: &BTreeMap<String, CommContext>) -> Result<(Vec<String>, Vec<Arc<Session>>)> {
        let shards: Vec<String> = of.values().flat_map(|c| c.endpoints.iter().cloned()).collect();
        let (shards, me) = (distinct(&shards), self.trainer());
        let open = shards.iter().map(|e| open(e, me)).collect::<Result<_>>()?;
        Ok((shards, open))
    }

    pub fn trainer(&self) -> u32 {
        self.send.values().chain(self.recv.values()).next().map_or(0, |c| c.trainer)
    }
}

/// The signal's error if a wait for the communicator's thread was interrupted.
pub(super) fn check_signals(signals: &Signals) -> Result<()> {
    match signals.stop() {
        true => Err(signals.pending()),
        false => Ok(()),
    }
}

/// Starts a thread of the communicator.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>> {
    let made = std::thread::Builder::new().name(format!("oar-{name}")).spawn(run);
    made.map_err(|e| err!(ResourceExhausted, "no thread for the communicator: {e}"))
}
