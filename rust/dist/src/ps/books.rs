//! A server's books: what each trainer has pushed, which step all are in, and who is missing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Incoming;

/// How trainers keep step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All push, the server takes one step, all get the result.
    Steps,
    /// Every push is applied when it comes.
    Free,
}

/// What happens once a trainer has been lost for longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The job ends, naming it.
    End,
    /// The others wait for its restart.
    Wait,
    /// The others go on without it.
    GoOn,
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
}

struct State {
    trainers: BTreeMap<u32, Trainer>,
    step: u64,
    round: u64,
    stepping: bool,
    failed: Option<String>,
    ended: bool,
    since: Instant,
}

/// What to do with a push.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is new.
    New,
    /// It came before: only the answer is due.
    Again,
}

pub struct Books {
    mode: Mode,
    state: Mutex<State>,
    changed: Condvar,
}

type Answer<T> = std::result::Result<T, String>;
/// How long a wait lasts before its waiter looks around.
const TURN: Duration = Duration::from_millis(200);

impl Books {
    /// For trainers `0..trainers`, all of which are expected.
    pub fn new(mode: Mode, trainers: u32) -> Books {
        let trainers = (0..trainers).map(|t| (t, Trainer::default())).collect();
        let (step, round, since) = (0, 0, Instant::now());
        let state = State { trainers, step, round, stepping: false, failed: None, ended: false, since };
        Books { mode, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// A trainer has connected: the last sequence number that is known of this incarnation.
    pub fn open(&self, trainer: u32, incarnation: u64) -> Answer<u64> {
        let mut s = self.state.lock();
        let n = s.trainers.len();
        let t = s.trainers.get_mut(&trainer).ok_or_else(|| format!("there is no trainer {trainer} among {n}"))?;
        if incarnation < t.incarnation {
            return Err(format!("trainer {trainer} has been restarted: this is its former process"));
        }
        if incarnation > t.incarnation {
            // What the former process has pushed of an unfinished step goes with it.
            (t.incarnation, t.seq) = (incarnation, 0);
            if !t.arrived {
                t.gathered.clear();
            }
            t.complete = false;
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
        if let Some(t) = s.trainers.get_mut(&trainer) {
            t.connections = t.connections.saturating_sub(1);
            if t.connections == 0 && t.incarnation == incarnation && !t.complete {
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
            Some(t) if t.incarnation == incarnation => Ok(t),
            _ => Err(format!("trainer {trainer} has been restarted: this is its former process")),
        }
    }

    /// Wait until `ready`; `tell` hears now and then what the wait is for, and ends it by an error.
    fn wait<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        who: (u32, u64),
        tell: &mut dyn FnMut(String) -> Answer<()>,
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
                let result = MutexGuard::unlocked(&mut s, || tell(what));
                result?;
            }
        }
    }

    /// Where trainers take steps: note what one has pushed; with `barrier` its part of the step is whole.
    /// Whoever makes the step whole takes it, by `step`.
    pub fn push(
        &self,
        who: (u32, u64),
        seq: u64,
        barrier: bool,
        vars: Vec<Incoming>,
        tell: &mut dyn FnMut(String) -> Answer<()>,
        step: &dyn Fn(Vec<(u32, Vec<Incoming>)>) -> Answer<()>,
    ) -> Answer<Taken> {
        let s = self.state.lock();
        // The part of a former process stands: this one's belongs to the next step.
        let free = |s: &State, t: &Trainer| seq <= t.seq || !t.arrived && !s.stepping;
        let mut s = self.wait(s, who, tell, |s| s.trainers.get(&who.0).is_some_and(|t| free(s, t)))?;
        let next = s.step + 1;
        let t = self.live(&mut s, who.0, who.1)?;
        let taken = if seq <= t.seq { Taken::Again } else { Taken::New };
        if taken == Taken::New {
            if seq != t.seq + 1 {
                return Err(format!("trainer {}: push {seq} came after push {}: some are missing", who.0, t.seq));
            }
            t.seq = seq;
            t.gathered.extend(vars);
            if barrier {
                (t.arrived, t.target) = (true, next);
            }
        }
        let target = t.target;
        if barrier {
            s = self.take_step(s, step)?;
            let s = self.wait(s, who, tell, |s| s.step >= target)?;
            drop(s);
        }
        Ok(taken)
    }

    fn take_step<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        step: &dyn Fn(Vec<(u32, Vec<Incoming>)>) -> Answer<()>,
    ) -> Answer<MutexGuard<'a, State>> {
        let whole = |s: &State| {
            let mut active = s.trainers.values().filter(|t| !t.complete).peekable();
            active.peek().is_some() && active.all(|t| t.arrived)
        };
        if s.stepping || s.failed.is_some() || !whole(&s) {
            return Ok(s);
        }
        s.stepping = true;
        let pushed: Vec<_> = s
            .trainers
            .iter_mut()
            .filter(|(_, t)| t.arrived)
            .map(|(&n, t)| (n, std::mem::take(&mut t.gathered)))
            .collect();
        let result = MutexGuard::unlocked(&mut s, || step(pushed));
        s.stepping = false;
        match result {
            Ok(()) => {
                s.step += 1;
                s.since = Instant::now();
                s.trainers.values_mut().for_each(|t| t.arrived = false);
            }
            Err(why) => s.failed = Some(why),
        }
        self.changed.notify_all();
        Ok(s)
    }

    /// Where trainers are free: apply a push unless it came before.
    pub fn apply(
        &self,
        who: (u32, u64),
        seq: u64,
        tell: &mut dyn FnMut(String) -> Answer<()>,
        apply: impl FnOnce() -> Answer<()>,
    ) -> Answer<Taken> {
        let s = self.state.lock();
        // A resend may come while the first is still being applied.
        let mut s = self.wait(s, who, tell, |s| s.trainers.get(&who.0).is_some_and(|t| !t.busy))?;
        let t = self.live(&mut s, who.0, who.1)?;
        if seq <= t.seq {
            return t.refused.clone().map_or(Ok(Taken::Again), Err);
        }
        if seq != t.seq + 1 {
            return Err(format!("trainer {}: push {seq} came after push {}: some are missing", who.0, t.seq));
        }
        t.busy = true;
        let result = MutexGuard::unlocked(&mut s, apply);
        if let Some(t) = s.trainers.get_mut(&who.0) {
            t.busy = false;
            // A resend of what failed is not applied in part again, but refused in the same words.
            if t.incarnation == who.1 {
                (t.seq, t.refused) = (seq, result.clone().err());
            }
        }
        self.changed.notify_all();
        result.map(|()| Taken::New)
    }

    /// Wait for all trainers that are not complete.
    pub fn barrier(&self, who: (u32, u64), seq: u64, tell: &mut dyn FnMut(String) -> Answer<()>) -> Answer<()> {
        let mut s = self.state.lock();
        let round = s.round;
        let t = self.live(&mut s, who.0, who.1)?;
        if seq <= t.seq && !t.at_barrier {
            return Ok(());
        }
        (t.at_barrier, t.seq) = (true, seq.max(t.seq));
        self.open_barrier(&mut s);
        self.wait(s, who, tell, |s| s.round > round).map(drop)
    }

    fn open_barrier(&self, s: &mut State) {
        let all = s.trainers.values().all(|t| t.complete || t.at_barrier);
        if all && s.trainers.values().any(|t| t.at_barrier) {
            s.trainers.values_mut().for_each(|t| t.at_barrier = false);
            s.round += 1;
            self.changed.notify_all();
        }
    }

    /// A trainer needs nothing any more. The others may have waited for it only.
    pub fn complete(&self, who: (u32, u64), step: &dyn Fn(Vec<(u32, Vec<Incoming>)>) -> Answer<()>) -> Answer<()> {
        let mut s = self.state.lock();
        let t = self.live(&mut s, who.0, who.1)?;
        self.leave(t);
        drop(self.after_leaving(s, step)?);
        Ok(())
    }

    fn leave(&self, t: &mut Trainer) {
        t.complete = true;
        t.gone = None;
        if !t.arrived {
            t.gathered.clear();
        }
    }

    fn after_leaving<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        step: &dyn Fn(Vec<(u32, Vec<Incoming>)>) -> Answer<()>,
    ) -> Answer<MutexGuard<'a, State>> {
        if s.trainers.values().all(|t| t.complete) {
            s.ended = true;
        }
        self.open_barrier(&mut s);
        let s = self.take_step(s, step)?;
        self.changed.notify_all();
        Ok(s)
    }

    /// One look at everything, by the server's own thread: whether it is over, and why.
    pub fn look(
        &self,
        limit: Duration,
        lost: Lost,
        step: &dyn Fn(Vec<(u32, Vec<Incoming>)>) -> Answer<()>,
    ) -> Option<Answer<()>> {
        let mut s = self.state.lock();
        if let Some(why) = &s.failed {
            return Some(Err(why.clone()));
        }
        if s.ended {
            return Some(Ok(()));
        }
        let gone = s.trainers.iter().find(|(_, t)| t.gone.is_some_and(|g| g.elapsed() > limit)).map(|(&n, _)| n)?;
        match lost {
            Lost::Wait => None,
            Lost::GoOn => {
                if let Some(t) = s.trainers.get_mut(&gone) {
                    self.leave(t);
                }
                match self.after_leaving(s, step) {
                    Ok(s) => s.ended.then_some(Ok(())),
                    Err(why) => Some(Err(why)),
                }
            }
            Lost::End => {
                let why = format!("trainer {gone} died, and has not come back within {:.1} s", limit.as_secs_f64());
                s.failed = Some(why.clone());
                self.changed.notify_all();
                Some(Err(why))
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
}

/// Whom the others wait for.
fn missing(s: &State) -> String {
    let names: Vec<String> = s
        .trainers
        .iter()
        .filter(|(_, t)| !t.complete && !t.arrived && !t.at_barrier)
        .map(|(n, t)| format!("trainer {n}{}", if t.gone.is_some() { " (lost)" } else { "" }))
        .collect();
    let since = s.since.elapsed().as_secs_f64();
    match names.is_empty() {
        true => format!("computing step {} for {since:.1} s", s.step + 1),
        false => format!("waiting for {} for {since:.1} s", names.join(", ")),
    }
}
