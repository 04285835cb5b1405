//! A server's ledger: what each trainer has pushed, the current step, and which trainers are missing.

mod durable;
mod steps;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::journal::Journal;
use super::log_record::LogRecord;
use super::Incoming;

pub use durable::Recovery;

/// Synchronization of trainers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// All trainers push, the server takes one step, all receive the result.
    Sync,
    /// Every push is applied on arrival.
    Async,
}

/// What happens to the job once a trainer has been lost for longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostTrainer {
    /// The job ends; the error names the trainer.
    End,
    /// The other trainers wait for its restart.
    Wait,
    /// The other trainers continue without it.
    Continue,
}

#[derive(Default)]
struct Trainer {
    incarnation: u64,
    /// The last accepted sequence number; its push may belong to the current step.
    seq: u64,
    /// Number of the step that the last push with a barrier belongs to.
    target: u64,
    arrived: bool,
    at_barrier: bool,
    complete: bool,
    connections: usize,
    /// Time since when it has had no connection.
    gone: Option<Instant>,
    gathered: Vec<Incoming>,
    /// One of its pushes is being applied.
    busy: bool,
    /// Why its last push failed.
    refused: Option<String>,
    /// Completed parts of steps over all its incarnations; in async mode, pushes.
    parts: u64,
    /// Parts sent by an earlier incarnation that the current one will repeat.
    skip: u64,
    /// The next push may skip sequence numbers: earlier ones were acknowledged but not recorded.
    jumps: bool,
}

impl Trainer {
    /// A new process of this trainer connects.
    fn begin(&mut self, incarnation: u64) {
        // Pushes of the earlier process for an unfinished step are dropped. Its connections that are still open no
        // longer count.
        (self.incarnation, self.seq, self.connections) = (incarnation, 0, 0);
        (self.parts, self.skip) = (self.parts + self.skip, 0);
        if !self.arrived {
            self.gathered.clear();
        }
        self.complete = false;
    }

    /// Counts a push; `true` if an earlier incarnation sent it already.
    fn passes(&mut self, seq: u64) -> bool {
        (self.seq, self.jumps) = (seq, false);
        match self.skip.checked_sub(1) {
            Some(left) => self.skip = left,
            None => {
                self.parts += 1;
                return false;
            }
        }
        self.parts += 1;
        true
    }

    /// Accepts a push of step `next`.
    fn take(&mut self, seq: u64, barrier: bool, next: u64, vars: Vec<Incoming>) {
        let resent = self.skip > 0;
        match barrier {
            true => drop(self.passes(seq)),
            false => (self.seq, self.jumps) = (seq, false),
        }
        // The earlier incarnation's part is kept in its step.
        if !resent {
            self.gathered.extend(vars);
            if barrier {
                (self.arrived, self.target) = (true, next);
            }
        }
    }

    /// The trainer restarts after `parts` parts.
    fn resume(&mut self, parts: u64) {
        self.skip += self.parts.saturating_sub(parts);
        self.parts = self.parts.min(parts);
    }

    fn leave(&mut self) {
        self.complete = true;
        self.gone = None;
        if !self.arrived {
            self.gathered.clear();
        }
    }

    /// Checks the sequence number; returns how many pushes before it are lost.
    fn follows(&self, trainer: u32, seq: u64) -> Answer<u64> {
        let missing = seq.saturating_sub(self.seq + 1);
        match missing == 0 || self.jumps {
            true => Ok(missing),
            false => Err(format!("trainer {trainer}: received push {seq} after push {}: pushes are missing", self.seq)),
        }
    }
}

struct State {
    trainers: BTreeMap<u32, Trainer>,
    step: u64,
    round: u64,
    stepping: bool,
    failed: Option<String>,
    ended: bool,
    since: Instant,
    /// Time from which trainers could connect.
    begun: Instant,
    /// The job was complete when the server restarted: trainers that have not received the final reply get it now.
    lingers: Option<Instant>,
}

impl State {
    /// Takes what all trainers have pushed for the step.
    fn parts(&mut self) -> Vec<(u32, Vec<Incoming>)> {
        let arrived = self.trainers.iter_mut().filter(|(_, t)| t.arrived);
        arrived.map(|(&n, t)| (n, std::mem::take(&mut t.gathered))).collect()
    }

    fn stepped(&mut self) {
        self.step += 1;
        self.since = Instant::now();
        self.trainers.values_mut().for_each(|t| t.arrived = false);
    }
}

/// What happened to a push.
#[derive(Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The push is new.
    Applied,
    /// A resend: only the reply is due.
    Duplicate,
}

pub struct Ledger {
    mode: SyncMode,
    state: Mutex<State>,
    changed: Condvar,
    /// The durable log. Locked after `turn` and `state`.
    journal: Option<Mutex<Journal>>,
    turn: Mutex<()>,
}

type Answer<T> = std::result::Result<T, String>;
/// Interval at which a wait reports its progress.
const TURN: Duration = Duration::from_millis(200);

impl Ledger {
    /// A ledger for trainers `0..trainers`, all of which are expected.
    pub fn new(mode: SyncMode, trainers: u32) -> Ledger {
        let trainers = (0..trainers).map(|t| (t, Trainer::default())).collect();
        let (step, round, since) = (0, 0, Instant::now());
        let (stepping, failed, ended, begun, lingers) = (false, None, false, since, None);
        let state = State { trainers, step, round, stepping, failed, ended, since, begun, lingers };
        Ledger { mode, state: Mutex::new(state), changed: Condvar::new(), journal: None, turn: Mutex::new(()) }
    }

    pub fn mode(&self) -> SyncMode {
        self.mode
    }

    /// A trainer has connected; returns the last sequence number of this incarnation.
    pub fn open(&self, trainer: u32, incarnation: u64) -> Answer<u64> {
        let mut guard = self.state.lock();
        // A push of the earlier process must be applied before its progress is reported.
        while guard.failed.is_none()
            && guard.trainers.get(&trainer).is_some_and(|t| t.busy && t.incarnation < incarnation)
        {
            self.changed.wait_for(&mut guard, TURN);
        }
        let s = &mut *guard;
        let n = s.trainers.len();
        let known = s.trainers.get(&trainer).ok_or_else(|| format!("there is no trainer {trainer} among {n}"))?;
        if incarnation < known.incarnation {
            return Err(format!("trainer {trainer} has been restarted: this is its earlier process"));
        }
        let new = incarnation > known.incarnation;
        if new {
            self.record(s, &LogRecord::Opened { trainer, incarnation }, &[], false)?;
        }
        let Some(t) = s.trainers.get_mut(&trainer) else { return Err(format!("there is no trainer {trainer}")) };
        if new {
            t.begin(incarnation);
        }
        t.connections += 1;
        t.gone = None;
        let seq = t.seq;
        self.changed.notify_all();
        Ok(seq)
    }

    /// A connection of the trainer has ended.
    pub fn close(&self, trainer: u32, incarnation: u64) {
        let mut s = self.state.lock();
        if let Some(t) = s.trainers.get_mut(&trainer).filter(|t| t.incarnation == incarnation) {
            t.connections = t.connections.saturating_sub(1);
            if t.connections == 0 && !t.complete {
                t.gone = Some(Instant::now());
            }
        }
        self.changed.notify_all();
    }

    fn live<'a>(&self, s: &'a mut State, trainer: u32, incarnation: u64) -> Answer<&'a mut Trainer> {
        if let Some(why) = &s.failed {
            return Err(why.clone());
        }
        if s.ended {
            return Err("the server is ending".into());
        }
        match s.trainers.get_mut(&trainer) {
            // Its part of an unfinished step was dropped.
            Some(t) if t.incarnation == incarnation && t.complete => {
                Err(format!("trainer {trainer} was given up and the others continue without it: restart it"))
            }
            Some(t) if t.incarnation == incarnation => Ok(t),
            _ => Err(format!("trainer {trainer} has been restarted: this is its earlier process")),
        }
    }

    /// Waits until `ready`; `on_wait` is called at intervals with a description of the wait, and its error ends the
    /// wait.
    fn wait<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        client: (u32, u64),
        on_wait: &mut dyn FnMut(String) -> Answer<()>,
        ready: impl Fn(&State) -> bool,
    ) -> Answer<MutexGuard<'a, State>> {
        let mut last_report = Instant::now();
        loop {
            self.live(&mut s, client.0, client.1)?;
            if ready(&s) {
                return Ok(s);
            }
            self.changed.wait_for(&mut s, TURN);
            if last_report.elapsed() > Duration::from_secs(1) {
                last_report = Instant::now();
                let what = missing(&s);
                // The lock is released while the trainer is notified.
                let result = MutexGuard::unlocked(&mut s, || on_wait(what));
                result?;
            }
        }
    }

    /// Ends all waits with an error.
    pub fn end(&self, why: &str) {
        let mut s = self.state.lock();
        s.failed.get_or_insert_with(|| why.to_string());
        self.changed.notify_all();
    }

    /// Steps taken, and the trainers that the next one waits for.
    pub fn report(&self) -> String {
        let s = self.state.lock();
        format!("{} steps; {}", s.step, missing(&s))
    }

    /// As `report` without the duration, and the start of the wait.
    pub fn waits(&self) -> (String, Instant) {
        let s = self.state.lock();
        (format!("{} steps; {}", s.step, awaited(&s)), s.since)
    }
}

/// The trainers that others wait for, and for how long.
fn missing(s: &State) -> String {
    format!("{} for {:.1} s", awaited(s), s.since.elapsed().as_secs_f64())
}

fn awaited(s: &State) -> String {
    let names: Vec<String> = s
        .trainers
        .iter()
        .filter(|(_, t)| !t.complete && !t.arrived && !t.at_barrier)
        .map(|(n, t)| format!("trainer {n}{}", if t.gone.is_some() { " (lost)" } else { "" }))
        .collect();
    match names.is_empty() {
        true => format!("computing step {}", s.step + 1),
        false => format!("waiting for {}", names.join(", ")),
    }
}
