//! Durable ledger: applied updates survive a restart of the server.

use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use super::{Answer, Ledger, State, SyncMode, Trainer};
use crate::protocol::journal::{Durability, Journal};
use crate::protocol::log_record::{LedgerSnapshot, LogRecord, TrainerSnapshot};
use crate::protocol::{Incoming, Outgoing, Service};
use oar_net::error::{Error, Result};

/// What a server started from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The state of an earlier run was restored.
    pub restored: bool,
    /// Acknowledged updates may be missing from it.
    pub lossy: bool,
}

impl Ledger {
    /// The ledger of a server with durable state: restored, or new with a first snapshot.
    pub fn durable(
        mode: SyncMode,
        trainers: u32,
        how: Durability,
        service: &dyn Service,
    ) -> Result<(Ledger, Recovery)> {
        let folder = how.folder.display().to_string();
        let mut ledger = Ledger::new(mode, trainers);
        let (mut journal, found) = Journal::open(how, mode == SyncMode::Sync, service)?;
        let mut recovery = Recovery { restored: found.is_some(), lossy: journal.lossy() };
        let Some(found) = found else {
            recovery.lossy = false;
            if let Some(state) = journal.resharded(service)? {
                service.adopt(state, journal.layout()).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
                eprintln!("oar: the server starts with its part of the resharded state next to {folder}");
            }
            journal
                .snapshot(ledger.image(&ledger.state.lock()), service.capture().map_err(Error::Server)?)
                .map_err(Error::Server)?;
            journal.wait()?;
            ledger.journal = Some(Mutex::new(journal));
            return Ok((ledger, recovery));
        };
        ledger.restore(found.image, recovery.lossy).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
        service.restore(found.state).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
        let records = journal.replay(service, &mut |record, vars| ledger.replay_record(record, vars, service))?;
        let mut s = ledger.state.lock();
        for t in s.trainers.values_mut().filter(|t| t.incarnation > 0 && !t.complete) {
            t.gone = Some(Instant::now());
        }
        (s.begun, s.lingers) = (Instant::now(), s.ended.then(Instant::now));
        let after = if recovery.lossy {
            "; it keeps no log of later changes".to_string()
        } else {
            format!(" and {records} records after it")
        };
        eprintln!("oar: the server continues from its snapshot in {folder}{after}: {} steps are taken", s.step);
        drop(s);
        ledger.journal = Some(Mutex::new(journal));
        Ok((ledger, recovery))
    }

    fn image(&self, s: &State) -> LedgerSnapshot {
        let page = |t: &Trainer| TrainerSnapshot {
            incarnation: t.incarnation,
            seq: t.seq,
            target: t.target,
            at_barrier: t.at_barrier,
            complete: t.complete,
            parts: t.parts,
            skip: t.skip,
            refused: t.refused.clone(),
        };
        let trainers = s.trainers.values().map(page).collect();
        LedgerSnapshot { steps: self.mode == SyncMode::Sync, step: s.step, round: s.round, trainers }
    }

    fn restore(&mut self, image: LedgerSnapshot, lossy: bool) -> Answer<()> {
        let mut s = self.state.lock();
        let (there, here) = (image.trainers.len(), s.trainers.len());
        if there != here || image.steps != (self.mode == SyncMode::Sync) {
            let kind = |steps| if steps { "sync mode" } else { "async mode" };
            return Err(format!(
                "the state is of {there} trainers in {}, expected {here} in {}",
                kind(image.steps),
                kind(self.mode == SyncMode::Sync)
            ));
        }
        (s.step, s.round) = (image.step, image.round);
        for (t, p) in s.trainers.values_mut().zip(image.trainers) {
            *t = Trainer {
                incarnation: p.incarnation,
                seq: p.seq,
                target: p.target,
                at_barrier: p.at_barrier,
                complete: p.complete,
                parts: p.parts,
                skip: p.skip,
                refused: p.refused,
                jumps: lossy,
                ..Trainer::default()
            };
        }
        s.ended = s.trainers.values().all(|t| t.complete);
        Ok(())
    }

    /// Applies a record of the log.
    fn replay_record(&self, record: LogRecord, vars: Vec<Incoming>, service: &dyn Service) -> Answer<()> {
        let mut s = self.state.lock();
        let unknown = |trainer: u32| format!("a record of the unknown trainer {trainer}");
        match record {
            LogRecord::Opened { trainer, incarnation } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.begin(incarnation);
            }
            LogRecord::Pushed { trainer, seq, barrier, .. } => {
                let next = s.step + 1;
                let t = s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?;
                match self.mode {
                    SyncMode::Sync => t.take(seq, barrier, next, vars),
                    SyncMode::Async => {
                        let applied = if t.passes(seq) { Ok(()) } else { service.apply(trainer, vars) };
                        t.refused = applied.err();
                    }
                }
            }
            LogRecord::Step { number, .. } => {
                if number != s.step + 1 {
                    return Err(format!("step {number} follows step {}", s.step));
                }
                service.step(s.parts())?;
                s.stepped();
            }
            LogRecord::Barrier { trainer, seq } => {
                let t = s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?;
                (t.at_barrier, t.seq) = (true, seq.max(t.seq));
                self.open_barrier(&mut s);
            }
            LogRecord::Left { trainer } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.leave();
                s.ended = s.trainers.values().all(|t| t.complete);
                self.open_barrier(&mut s);
            }
            LogRecord::Resumed { trainer, parts } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.resume(parts);
            }
            // The outcome is the same as in the earlier run, errors included.
            LogRecord::Read { trainer, names } => drop(service.get(trainer, &names)),
            LogRecord::LookedUp { trainer, name, .. } => {
                if let Some(ids) = vars.into_iter().next() {
                    drop(service.lookup(trainer, &name, ids));
                }
            }
        }
        Ok(())
    }

    /// Writes a record. A server that cannot write ends.
    pub(super) fn record(&self, s: &mut State, record: &LogRecord, vars: &[Incoming], answered: bool) -> Answer<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let written = journal.lock().write(record, vars, answered);
        if let Err(why) = &written {
            s.failed = Some(why.clone());
            self.changed.notify_all();
        }
        written
    }

    /// Starts a snapshot if one is due. The caller ensures that no value changes meanwhile.
    pub(super) fn snapshot(&self, s: &State, service: &dyn Service) -> Answer<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut journal = journal.lock();
        match journal.due()? {
            true => journal.snapshot(self.image(s), service.capture()?),
            false => Ok(()),
        }
    }

    /// With a journal, serializes changes (async pushes, and reads that change state) in the order in which they are
    /// recorded.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.journal.as_ref().map(|_| self.turn.lock())
    }

    /// Records a read that changes the service's state, then performs it.
    pub fn record_get<T>(&self, trainer: u32, names: &[String], give: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let Some(_turn) = self.turn() else { return give() };
        self.record(&mut self.state.lock(), &LogRecord::Read { trainer, names: names.to_vec() }, &[], true)?;
        give()
    }

    /// Records a lookup that changes the service's state, then performs it.
    pub fn record_lookup(&self, trainer: u32, name: &str, ids: Incoming, service: &dyn Service) -> Answer<Outgoing> {
        let Some(_turn) = self.turn() else { return service.lookup(trainer, name, ids) };
        let record = LogRecord::LookedUp { trainer, name: name.to_string(), ids: ids.meta.clone() };
        let ids = [ids];
        self.record(&mut self.state.lock(), &record, &ids, true)?;
        let [ids] = ids;
        service.lookup(trainer, name, ids)
    }

    /// The job has completed.
    pub fn finish(&self, service: &dyn Service) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let s = self.state.lock();
        journal.lock().end(self.image(&s), service.capture().map_err(Error::Server)?)
    }
}
