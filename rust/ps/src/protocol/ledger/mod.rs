//! A server's books: what each trainer has pushed, which step all are in, and who is missing.

mod durable;
mod steps;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::journal::Journal;
use super::log_record::LogRecord;
use super::Incoming;

pub use durable::Recovery;

/// How trainers keep step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// All push, the server takes one step, all get the result.
    Sync,
    /// Every push is applied when it comes.
    Async,
}

/// What happens once a trainer has been lost for longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostTrainer {
    /// The job ends, naming it.
    End,
    /// The others wait for its restart.
    Wait,
    /// The others go on without it.
    Continue,
}

#[derive(Default)]
struct Trainer {
    incarnation: u64,
    /// The last sequence number that was taken; it may still be in its step.
    seq: u64,
    /// The step that ends the last push with a barrier.
    target: u64,
    arrived: bool,
    at_barrier: bool,
    complete: bool,
    connections: usize,
    /// Since when it has had no connection.
    gone: Option<Instant>,
    gathered: Vec<Incoming>,
    /// A push of it is being applied.
    busy: bool,
    /// Why the last one could not be.
    refused: Option<String>,
    /// How many parts of steps it has ended in all its lives; where trainers are free, its pushes.
    parts: u64,
    /// Parts that a former process sent, and that come again.
    skip: u64,
    /// The next push may come after others that nobody knows any more: they were answered, and not written down.
    jumps: bool,
}

impl Trainer {
    /// A process that is not the one before.
    fn begin(&mut self, incarnation: u64) {
        // What the former process has pushed of an unfinished step goes with it.
        // Connections of it that are still open say nothing about this one.
        (self.incarnation, self.seq, self.connections) = (incarnation, 0, 0);
        (self.parts, self.skip) = (self.parts + self.skip, 0);
        if !self.arrived {
            self.gathered.clear();
        }
        self.complete = false;
    }

    /// Note a push; `true` for one that a former process sent.
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

    /// Take a push of a step; `next` is its number.
    fn take(&mut self, seq: u64, barrier: bool, next: u64, vars: Vec<Incoming>) {
        let apply = self.skip > 0;
        match barrier {
            true => drop(self.passes(seq)),
            false => (self.seq, self.jumps) = (seq, false),
        }
        // The former process's part stands, in its step.
        if !apply {
            self.gathered.extend(vars);
            if barrier {
                (self.arrived, self.target) = (true, next);
            }
        }
    }

    /// It begins after so many parts.
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

    /// Whether a push with that number may come now: how many are lost before it.
    fn follows(&self, trainer: u32, seq: u64) -> Answer<u64> {
        let missing = seq.saturating_sub(self.seq + 1);
        match missing == 0 || self.jumps {
            true => Ok(missing),
            false => Err(format!("trainer {trainer}: push {seq} came after push {}: some are missing", self.seq)),
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
    /// When trainers could come.
    begun: Instant,
    /// All was over when the server was started again: who has not heard it yet hears it now.
    lingers: Option<Instant>,
}

impl State {
    /// What all have pushed for a step.
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

/// What to do with a push.
#[derive(Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// It is new.
    Applied,
    /// It came before: only the answer is due.
    Duplicate,
}

pub struct Ledger {
    mode: SyncMode,
    state: Mutex<State>,
    changed: Condvar,
    /// What outlives the server. Locked after `turn` and `state`.
    journal: Option<Mutex<Journal>>,
    turn: Mutex<()>,
}

type Answer<T> = std::result::Result<T, String>;
/// How long a wait lasts before its waiter looks around.
const TURN: Duration = Duration::from_millis(200);

impl Ledger {
    /// For trainers `0..trainers`, all of which are expected.
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

    /// A trainer has connected: the last sequence number that is known of this incarnation.
    pub fn open(&self, trainer: u32, incarnation: u64) -> Answer<u64> {
        let mut guard = self.state.lock();
        // What the former process has pushed is applied before this one asks how far that came.
        while guard.failed.is_none()
            && guard.trainers.get(&trainer).is_some_and(|t| t.busy && t.incarnation < incarnation)
        {
            self.changed.wait_for(&mut guard, TURN);
        }
        let s = &mut *guard;
        let n = s.trainers.len();
        let known = s.trainers.get(&trainer).ok_or_else(|| format!("there is no trainer {trainer} among {n}"))?;
        if incarnation < known.incarnation {
            return Err(format!("trainer {trainer} has been restarted: this is its former process"));
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

    /// Its connection has ended.
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
            // What it had sent of an unfinished step is gone.
            Some(t) if t.incarnation == incarnation && t.complete => {
                Err(format!("trainer {trainer} has been given up, and the others go on without it: start it again"))
            }
            Some(t) if t.incarnation == incarnation => Ok(t),
            _ => Err(format!("trainer {trainer} has been restarted: this is its former process")),
        }
    }

    /// Wait until `ready`; `tell` hears now and then what the wait is for, and ends it by an error.
    fn wait<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        who: (u32, u64),
        on_wait: &mut dyn FnMut(String) -> Answer<()>,
        ready: impl Fn(&State) -> bool,
    ) -> Answer<MutexGuard<'a, State>> {
        let mut told = Instant::now();
        loop {
            self.live(&mut s, who.0, who.1)?;
            if ready(&s) {
                return Ok(s);
            }
            self.changed.wait_for(&mut s, TURN);
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                let what = missing(&s);
                // The others go on while the trainer hears of it.
                let result = MutexGuard::unlocked(&mut s, || on_wait(what));
                result?;
            }
        }
    }

    /// Ends all waits.
    pub fn end(&self, why: &str) {
        let mut s = self.state.lock();
        s.failed.get_or_insert_with(|| why.to_string());
        self.changed.notify_all();
    }

    /// Steps taken so far, and whom the next one waits for.
    pub fn report(&self) -> String {
        let s = self.state.lock();
        format!("{} steps; {}", s.step, missing(&s))
    }

    /// The same without the time, and since when.
    pub fn waits(&self) -> (String, Instant) {
        let s = self.state.lock();
        (format!("{} steps; {}", s.step, awaited(&s)), s.since)
    }
}

/// Whom the others wait for, and for how long.
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
