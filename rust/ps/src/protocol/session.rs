//! A trainer's session with one server, which batches variables into few messages.
//!
//! Variables to send are queued until the step ends or a value is received; then all are sent in one message. Its reply
//! also carries the variables that were received after the previous message. A step with many small variables is one
//! exchange.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::{Allocate, Client, ClientSettings, Incoming, Outgoing};
use oar_net::error::Result;
use oar_net::fork::PerProcess;
use oar_net::rings::{options_from_env, resolve, JobEnvironment};

#[derive(Default)]
struct Pending {
    queue: Vec<Outgoing>,
    /// Variables that came with the last message and were not taken yet.
    received: HashMap<String, Incoming>,
    /// Variables received since the last message: the next one requests them.
    requested: Vec<String>,
}

pub struct Session {
    client: Client,
    pending: Mutex<Pending>,
}

type Stop<'a> = &'a dyn Fn() -> Result<()>;

impl Session {
    /// Queues a variable for the next message.
    pub fn send(&self, var: Outgoing) {
        self.pending.lock().queue.push(var);
    }

    fn message(&self, pending: &mut Pending, barrier: bool, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<()> {
        let want = std::mem::take(&mut pending.requested);
        let queue = std::mem::take(&mut pending.queue);
        pending.received.clear();
        let received = self.client.push(&queue, barrier, want, allocate, stop)?;
        pending.received = received.into_iter().map(|v| (v.meta.name.clone(), v)).collect();
        Ok(())
    }

    /// Completes this trainer's part of a step; returns after the server has taken the step.
    pub fn end_step(&self, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<()> {
        self.message(&mut self.pending.lock(), true, allocate, stop)
    }

    /// Sends the queued variables.
    pub fn flush(&self, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<()> {
        let mut pending = self.pending.lock();
        match pending.queue.is_empty() {
            true => Ok(()),
            false => self.message(&mut pending, false, allocate, stop),
        }
    }

    /// Variables by name, in that order, as they are after all that this trainer has sent.
    pub fn receive(&self, names: &[String], allocate: Allocate<'_>, stop: Stop<'_>) -> Result<Vec<Incoming>> {
        let mut pending = self.pending.lock();
        if !pending.queue.is_empty() {
            for name in names {
                if !pending.requested.contains(name) {
                    pending.requested.push(name.clone());
                }
            }
            self.message(&mut pending, false, allocate, stop)?;
        }
        let missing: Vec<String> = names.iter().filter(|n| !pending.received.contains_key(*n)).cloned().collect();
        if !missing.is_empty() {
            for var in self.client.get(missing, allocate, stop)? {
                pending.received.insert(var.meta.name.clone(), var);
            }
        }
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let var = pending.received.remove(name);
            found.push(var.ok_or_else(|| oar_net::Error::invalid(format!("the server did not send {name}")))?);
            if !pending.requested.contains(name) {
                pending.requested.push(name.clone());
            }
        }
        Ok(found)
    }

    /// Sends `vars` and returns `want` in one exchange, without effect on later messages.
    pub fn exchange(
        &self,
        vars: Vec<Outgoing>,
        want: Vec<String>,
        allocate: Allocate<'_>,
        stop: Stop<'_>,
    ) -> Result<Vec<Incoming>> {
        self.flush(allocate, stop)?;
        self.client.push(&vars, false, want, allocate, stop)
    }

    pub fn lookup(&self, name: &str, ids: Outgoing, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<Incoming> {
        self.flush(allocate, stop)?;
        self.client.lookup(name, ids, allocate, stop)
    }

    pub fn barrier(&self, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<()> {
        self.flush(allocate, stop)?;
        self.client.barrier(stop)
    }

    pub fn notify(&self, words: Vec<String>, allocate: Allocate<'_>, stop: Stop<'_>) -> Result<Vec<String>> {
        self.flush(allocate, stop)?;
        self.client.notify(words, stop)
    }

    fn complete(&self, stop: Stop<'_>) -> Result<()> {
        let mut pending = self.pending.lock();
        if !pending.queue.is_empty() {
            pending.requested.clear();
            self.message(&mut pending, false, &|m| Err(format!("{} was not requested", m.name)), stop)?;
        }
        self.client.complete(stop)
    }
}

#[derive(Default)]
struct Sessions {
    /// The incarnation of this process.
    incarnation: u64,
    by_place: HashMap<(String, u32), Arc<Session>>,
}

static SESSIONS: PerProcess<Mutex<Sessions>> = PerProcess::new();

/// A number that increases with every start.
fn incarnation() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64)
}

/// The trainer that this process is for the server at `endpoint`, if it has a session with it.
pub fn trainer_of(endpoint: &str) -> Option<u32> {
    SESSIONS.get().lock().by_place.keys().find(|(place, _)| place == endpoint).map(|(_, trainer)| *trainer)
}

/// The session of this process, as that trainer, with the server at `endpoint`.
pub fn session(endpoint: &str, trainer: u32) -> Result<Arc<Session>> {
    let mut all = SESSIONS.get().lock();
    if all.incarnation == 0 {
        all.incarnation = incarnation();
    }
    let key = (endpoint.to_string(), trainer);
    if let Some(known) = all.by_place.get(&key) {
        return Ok(known.clone());
    }
    let o = options_from_env()?;
    let settings = ClientSettings {
        trainer,
        incarnation: all.incarnation,
        job: JobEnvironment::from_env()?.job,
        timeout: o.timeout,
        reconnect: o.init_timeout,
        silence: o.heartbeat_limit.max(Duration::from_secs(5)),
        shared_memory: o.shared_memory,
    };
    let made = Arc::new(Session { client: Client::new(resolve(endpoint)?, settings), pending: Mutex::default() });
    all.by_place.insert(key, made.clone());
    Ok(made)
}

/// Completes and drops all sessions. Every server is notified; the first error is returned.
pub fn complete_all(stop: Stop<'_>) -> Result<()> {
    let all: Vec<_> = {
        let mut sessions = SESSIONS.get().lock();
        // A process that connects again after completion is a new incarnation.
        sessions.incarnation = 0;
        sessions.by_place.drain().collect()
    };
    let mut result = Ok(());
    for (_, session) in all {
        let completed = session.complete(stop);
        result = result.and(completed);
    }
    result
}

/// Whether this process has a session with any server.
pub fn any() -> bool {
    !SESSIONS.get().lock().by_place.is_empty()
}
