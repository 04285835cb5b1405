//! Books that outlive their server: what is written down, and how it is done again.

use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use super::{Answer, Ledger, State, SyncMode, Trainer};
use crate::protocol::journal::{Durability, Journal};
use crate::protocol::log_record::{LedgerSnapshot, LogRecord, TrainerSnapshot};
use crate::protocol::{Incoming, Outgoing, Service};
use oar_net::error::{Error, Result};

/// What a server began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// A former life wrote its state down.
    pub restored: bool,
    /// It may have answered more than it wrote.
    pub lossy: bool,
}

impl Ledger {
    /// Books of a server that keeps its state: what its former life left, or new ones with a first snapshot.
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
                eprintln!("oar: the server begins with its part of what was dealt beside {folder}");
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
            "; it keeps no log of what came after".to_string()
        } else {
            format!(" and {records} records after it")
        };
        eprintln!("oar: the server goes on from its snapshot in {folder}{after}: {} steps are taken", s.step);
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
            let kind = |steps| if steps { "common steps" } else { "free trainers" };
            return Err(format!(
                "the state is of {there} trainers with {}, not of {here} with {}",
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

    /// Do again what a note tells.
    fn replay_record(&self, record: LogRecord, vars: Vec<Incoming>, service: &dyn Service) -> Answer<()> {
        let mut s = self.state.lock();
        let unknown = |trainer: u32| format!("a note of trainer {trainer}, whom nobody expects");
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
                    return Err(format!("step {number} comes after step {}", s.step));
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
            // Whatever that came to, it comes to the same again.
            LogRecord::Given { trainer, names } => drop(service.get(trainer, &names)),
            LogRecord::Looked { trainer, name, .. } => {
                if let Some(ids) = vars.into_iter().next() {
                    drop(service.lookup(trainer, &name, ids));
                }
            }
        }
        Ok(())
    }

    /// Write down what happens next. A server that cannot do so ends.
    pub(super) fn record(&self, s: &mut State, record: &LogRecord, vars: &[Incoming], answered: bool) -> Answer<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let written = journal.lock().write(record, vars, answered);
        if let Err(why) = &written {
            s.failed = Some(why.clone());
            self.changed.notify_all();
        }
        written
    }

    /// A snapshot, if it is time for one. Nothing changes the server's values now.
    pub(super) fn snapshot(&self, s: &State, service: &dyn Service) -> Answer<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mut journal = journal.lock();
        match journal.due()? {
            true => journal.snapshot(self.image(s), service.capture()?),
            false => Ok(()),
        }
    }

    /// Where trainers are free or reading changes something: one change at a time, in the order that is written down.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.journal.as_ref().map(|_| self.turn.lock())
    }

    /// Variables are given, and the service remembers that.
    pub fn record_get<T>(&self, trainer: u32, names: &[String], give: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let Some(_turn) = self.turn() else { return give() };
        self.record(&mut self.state.lock(), &LogRecord::Given { trainer, names: names.to_vec() }, &[], true)?;
        give()
    }

    /// Rows are looked up, and the service remembers that.
    pub fn record_lookup(&self, trainer: u32, name: &str, ids: Incoming, service: &dyn Service) -> Answer<Outgoing> {
        let Some(_turn) = self.turn() else { return service.lookup(trainer, name, ids) };
        let record = LogRecord::Looked { trainer, name: name.to_string(), ids: ids.meta.clone() };
        let ids = [ids];
        self.record(&mut self.state.lock(), &record, &ids, true)?;
        let [ids] = ids;
        service.lookup(trainer, name, ids)
    }

    /// The job is over in order.
    pub fn finish(&self, service: &dyn Service) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let s = self.state.lock();
        journal.lock().end(self.image(&s), service.capture().map_err(Error::Server)?)
    }
}
