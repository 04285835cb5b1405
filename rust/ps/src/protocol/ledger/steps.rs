//! Pushes, steps, barriers, and trainers that leave.

use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::{Answer, Ledger, LostTrainer, PushOutcome, State, Trainer};
use crate::protocol::log_record::LogRecord;
use crate::protocol::{Incoming, Meta, Service};

fn metas(vars: &[Incoming]) -> Vec<Meta> {
    vars.iter().map(|v| v.meta.clone()).collect()
}

fn warn_lost(trainer: u32, missing: u64) {
    if missing > 0 {
        eprintln!("oar: the server continues from a snapshot: {missing} updates of trainer {trainer} are lost");
    }
}

impl Ledger {
    /// Sync mode: records a push; with `barrier` the trainer's part of the step is complete. The push that completes
    /// the step runs it.
    pub fn push(
        &self,
        client: (u32, u64),
        seq: u64,
        barrier: bool,
        vars: Vec<Incoming>,
        on_wait: &mut dyn FnMut(String) -> Answer<()>,
        service: &dyn Service,
    ) -> Answer<PushOutcome> {
        let s = self.state.lock();
        // The part of an earlier incarnation is kept: this one's belongs to the next step.
        let free = |s: &State, t: &Trainer| seq <= t.seq || t.skip > 0 || !t.arrived && !s.stepping;
        let mut s = self.wait(s, client, on_wait, |s| s.trainers.get(&client.0).is_some_and(|t| free(s, t)))?;
        let next = s.step + 1;
        let t = self.live(&mut s, client.0, client.1)?;
        let taken = if seq <= t.seq { PushOutcome::Duplicate } else { PushOutcome::Applied };
        if taken == PushOutcome::Applied {
            warn_lost(client.0, t.follows(client.0, seq)?);
            let (trainer, incarnation) = client;
            let record = || LogRecord::Pushed { trainer, incarnation, seq, barrier, vars: metas(&vars) };
            if self.journal.is_some() {
                self.record(&mut s, &record(), &vars, !barrier)?;
            }
            self.live(&mut s, client.0, client.1)?.take(seq, barrier, next, vars);
        }
        if barrier {
            let target = self.live(&mut s, client.0, client.1)?.target;
            s = self.take_step(s, service)?;
            let s = self.wait(s, client, on_wait, |s| s.step >= target)?;
            drop(s);
        }
        Ok(taken)
    }

    fn take_step<'a>(&'a self, mut s: MutexGuard<'a, State>, service: &dyn Service) -> Answer<MutexGuard<'a, State>> {
        let whole = |s: &State| {
            let mut active = s.trainers.values().filter(|t| !t.complete).peekable();
            active.peek().is_some() && active.all(|t| t.arrived)
        };
        if s.stepping || s.failed.is_some() || !whole(&s) {
            return Ok(s);
        }
        s.stepping = true;
        let (result, _turn) = MutexGuard::unlocked(&mut s, || {
            // Recorded lookups run before this step or after its snapshot, in the order of their records.
            let turn = self.turn();
            let begun = {
                let mut s = self.state.lock();
                let trainers = s.trainers.iter().filter(|(_, t)| t.arrived).map(|(&n, _)| n).collect();
                let record = LogRecord::Step { number: s.step + 1, trainers };
                self.record(&mut s, &record, &[], true).map(|()| s.parts())
            };
            (begun.and_then(|pushed| service.step(pushed)), turn)
        });
        s.stepping = false;
        let result = result.and_then(|()| {
            s.stepped();
            self.snapshot(&s, service)
        });
        if let Err(why) = result {
            s.failed.get_or_insert(why);
        }
        self.changed.notify_all();
        Ok(s)
    }

    /// Async mode: applies a push unless it is a resend.
    pub fn apply(
        &self,
        client: (u32, u64),
        seq: u64,
        vars: Vec<Incoming>,
        on_wait: &mut dyn FnMut(String) -> Answer<()>,
        service: &dyn Service,
    ) -> Answer<PushOutcome> {
        let s = self.state.lock();
        // A resend may arrive while the first is still being applied.
        let mut s = self.wait(s, client, on_wait, |s| s.trainers.get(&client.0).is_some_and(|t| !t.busy))?;
        let t = self.live(&mut s, client.0, client.1)?;
        if seq <= t.seq {
            return t.refused.clone().map_or(Ok(PushOutcome::Duplicate), Err);
        }
        warn_lost(client.0, t.follows(client.0, seq)?);
        t.busy = true;
        let skips = t.skip > 0;
        let (result, _turn) = MutexGuard::unlocked(&mut s, || {
            let turn = self.turn();
            if turn.is_some() {
                let (trainer, incarnation) = client;
                let record = LogRecord::Pushed { trainer, incarnation, seq, barrier: false, vars: metas(&vars) };
                if let Err(why) = self.record(&mut self.state.lock(), &record, &vars, true) {
                    return (Err(why), turn);
                }
            }
            (if skips { Ok(()) } else { service.apply(client.0, vars) }, turn)
        });
        if let Some(t) = s.trainers.get_mut(&client.0) {
            t.busy = false;
            // A resend of a failed push is not partially applied again, but refused with the same error.
            if t.incarnation == client.1 {
                t.passes(seq);
                t.refused = result.clone().err();
            }
        }
        if let Err(why) = self.snapshot(&s, service) {
            s.failed = Some(why);
        }
        self.changed.notify_all();
        result.map(|()| PushOutcome::Applied)
    }

    /// Waits for all trainers that are not complete.
    pub fn barrier(&self, client: (u32, u64), seq: u64, on_wait: &mut dyn FnMut(String) -> Answer<()>) -> Answer<()> {
        let mut s = self.state.lock();
        let round = s.round;
        let t = self.live(&mut s, client.0, client.1)?;
        if seq <= t.seq && !t.at_barrier {
            return Ok(());
        }
        if seq > t.seq {
            self.record(&mut s, &LogRecord::Barrier { trainer: client.0, seq }, &[], true)?;
        }
        let t = self.live(&mut s, client.0, client.1)?;
        (t.at_barrier, t.seq) = (true, seq.max(t.seq));
        self.open_barrier(&mut s);
        self.wait(s, client, on_wait, |s| s.round > round).map(drop)
    }

    pub(super) fn open_barrier(&self, s: &mut State) {
        let all = s.trainers.values().all(|t| t.complete || t.at_barrier);
        if all && s.trainers.values().any(|t| t.at_barrier) {
            s.trainers.values_mut().for_each(|t| t.at_barrier = false);
            s.round += 1;
            self.changed.notify_all();
        }
    }

    /// A trainer is finished; others may wait for it only.
    pub fn complete(&self, client: (u32, u64), service: &dyn Service) -> Answer<()> {
        let s = self.state.lock();
        // A resend, after its reply was lost.
        if s.trainers.get(&client.0).is_some_and(|t| t.complete && t.incarnation == client.1) {
            return Ok(());
        }
        self.leave(s, client, service).map(drop)
    }

    fn leave<'a>(
        &'a self,
        mut s: MutexGuard<'a, State>,
        client: (u32, u64),
        service: &dyn Service,
    ) -> Answer<MutexGuard<'a, State>> {
        self.live(&mut s, client.0, client.1)?;
        self.record(&mut s, &LogRecord::Left { trainer: client.0 }, &[], true)?;
        self.live(&mut s, client.0, client.1)?.leave();
        s.ended = s.trainers.values().all(|t| t.complete);
        self.open_barrier(&mut s);
        let s = self.take_step(s, service)?;
        self.changed.notify_all();
        Ok(s)
    }

    /// Completed parts of a trainer, over all its incarnations.
    pub fn progress(&self, trainer: u32) -> Answer<u64> {
        let s = self.state.lock();
        s.trainers.get(&trainer).map(|t| t.parts).ok_or_else(|| format!("there is no trainer {trainer}"))
    }

    /// A restarted trainer continues after `parts` parts: those that this server has already are skipped.
    pub fn resume(&self, client: (u32, u64), parts: u64) -> Answer<()> {
        let mut s = self.state.lock();
        let t = self.live(&mut s, client.0, client.1)?;
        if t.seq > 0 {
            return Err(format!("trainer {} has sent requests already: it cannot resume now", client.0));
        }
        if parts > t.parts {
            return Err(format!("trainer {} resumes after {parts} steps, but has sent {}", client.0, t.parts));
        }
        self.record(&mut s, &LogRecord::Resumed { trainer: client.0, parts }, &[], true)?;
        self.live(&mut s, client.0, client.1)?.resume(parts);
        Ok(())
    }

    /// Trainers that have not connected within `limit`. With [`LostTrainer::Continue`] the job continues without them;
    /// otherwise they are returned.
    pub fn absent(&self, limit: Duration, lost: LostTrainer, service: &dyn Service) -> Option<Answer<Vec<u32>>> {
        let mut s = self.state.lock();
        if s.begun.elapsed() <= limit || s.failed.is_some() || s.ended {
            return None;
        }
        let absent = s.trainers.iter().filter(|(_, t)| t.incarnation == 0 && !t.complete);
        let absent: Vec<u32> = absent.map(|(&n, _)| n).collect();
        if absent.is_empty() || lost != LostTrainer::Continue {
            return (!absent.is_empty()).then_some(Ok(absent));
        }
        for trainer in absent {
            eprintln!("oar: trainer {trainer} has never connected: the others continue without it");
            match self.leave(s, (trainer, 0), service) {
                Ok(still) => s = still,
                Err(why) => return Some(Err(why)),
            }
        }
        None
    }

    /// Periodic check by the server's thread: `Some` once the job is over.
    pub fn check(&self, limit: Duration, lost: LostTrainer, service: &dyn Service) -> Option<Answer<()>> {
        let mut s = self.state.lock();
        if let Some(why) = &s.failed {
            return Some(Err(why.clone()));
        }
        if s.ended {
            return s.lingers.is_none_or(|since: Instant| since.elapsed() > limit).then_some(Ok(()));
        }
        let gone = s.trainers.iter().find(|(_, t)| t.gone.is_some_and(|g| g.elapsed() > limit));
        let (gone, incarnation) = gone.map(|(&n, t)| (n, t.incarnation))?;
        match lost {
            LostTrainer::Wait => None,
            LostTrainer::Continue => {
                eprintln!("oar: trainer {gone} died: the others continue without it");
                match self.leave(s, (gone, incarnation), service) {
                    Ok(s) => s.ended.then_some(Ok(())),
                    Err(why) => Some(Err(why)),
                }
            }
            LostTrainer::End => {
                let why = format!("trainer {gone} died, and has not come back within {:.1} s", limit.as_secs_f64());
                s.failed = Some(why.clone());
                self.changed.notify_all();
                Some(Err(why))
            }
        }
    }
}
