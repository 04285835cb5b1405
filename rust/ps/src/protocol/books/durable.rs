//! Books that outlive their server: what is written down, and how it is done again.

use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use super::{Answer, Books, Mode, State, Trainer};
use crate::protocol::journal::{Durability, Journal};
use crate::protocol::notes::{Image, Note, Page};
use crate::protocol::{Incoming, Outgoing, Service};
use oar_net::error::{Error, Result};

/// What a server began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// A former life wrote its state down.
    pub restored: bool,
    /// It may have answered more than it wrote.
    pub lossy: bool,
}

impl Books {
    /// Books of a server that keeps its state: what its former life left, or new ones with a first snapshot.
    pub fn durable(mode: Mode, trainers: u32, how: Durability, service: &dyn Service) -> Result<(Books, Past)> {
        let folder = how.folder.display().to_string();
        let mut books = Books::new(mode, trainers);
        let (mut journal, found) = Journal::open(how, mode == Mode::Steps, service)?;
        let mut past = Past { restored: found.is_some(), lossy: journal.lossy() };
        let Some(found) = found else {
            past.lossy = false;
            if let Some(state) = journal.dealt(service)? {
                service.adopt(state, journal.layout()).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
                eprintln!("oar: the server begins with its part of what was dealt beside {folder}");
            }
            journal
                .snapshot(books.image(&books.state.lock()), service.capture().map_err(Error::Server)?)
                .map_err(Error::Server)?;
            journal.wait()?;
            books.journal = Some(Mutex::new(journal));
            return Ok((books, past));
        };
        books.take_over(found.image, past.lossy).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
        service.restore(found.state).map_err(|why| Error::Server(format!("{folder}: {why}")))?;
        let notes = journal.replay(service, &mut |note, vars| books.again(note, vars, service))?;
        let mut s = books.state.lock();
        for t in s.trainers.values_mut().filter(|t| t.incarnation > 0 && !t.complete) {
            t.gone = Some(Instant::now());
        }
        (s.begun, s.lingers) = (Instant::now(), s.ended.then(Instant::now));
        let after = if past.lossy {
            "; it keeps no log of what came after".to_string()
        } else {
            format!(" and {notes} notes after it")
        };
        eprintln!("oar: the server goes on from its snapshot in {folder}{after}: {} steps are taken", s.step);
        drop(s);
        books.journal = Some(Mutex::new(journal));
        Ok((books, past))
    }

    fn image(&self, s: &State) -> Image {
        let page = |t: &Trainer| Page {
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
        Image { steps: self.mode == Mode::Steps, step: s.step, round: s.round, trainers }
    }

    fn take_over(&mut self, image: Image, lossy: bool) -> Answer<()> {
        let mut s = self.state.lock();
        let (there, here) = (image.trainers.len(), s.trainers.len());
        if there != here || image.steps != (self.mode == Mode::Steps) {
            let kind = |steps| if steps { "common steps" } else { "free trainers" };
            return Err(format!(
                "the state is of {there} trainers with {}, not of {here} with {}",
                kind(image.steps),
                kind(self.mode == Mode::Steps)
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
    fn again(&self, note: Note, vars: Vec<Incoming>, service: &dyn Service) -> Answer<()> {
        let mut s = self.state.lock();
        let unknown = |trainer: u32| format!("a note of trainer {trainer}, whom nobody expects");
        match note {
            Note::Opened { trainer, incarnation } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.begin(incarnation);
            }
            Note::Pushed { trainer, seq, barrier, .. } => {
                let next = s.step + 1;
                let t = s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?;
                match self.mode {
                    Mode::Steps => t.take(seq, barrier, next, vars),
                    Mode::Free => {
                        let applied = if t.passes(seq) { Ok(()) } else { service.apply(trainer, vars) };
                        t.refused = applied.err();
                    }
                }
            }
            Note::Step { number, .. } => {
                if number != s.step + 1 {
                    return Err(format!("step {number} comes after step {}", s.step));
                }
                service.step(s.parts())?;
                s.stepped();
            }
            Note::Barrier { trainer, seq } => {
                let t = s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?;
                (t.at_barrier, t.seq) = (true, seq.max(t.seq));
                self.open_barrier(&mut s);
            }
            Note::Left { trainer } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.leave();
                s.ended = s.trainers.values().all(|t| t.complete);
                self.open_barrier(&mut s);
            }
            Note::Resumed { trainer, parts } => {
                s.trainers.get_mut(&trainer).ok_or_else(|| unknown(trainer))?.resume(parts);
            }
            // Whatever that came to, it comes to the same again.
            Note::Given { trainer, names } => drop(service.get(trainer, &names)),
            Note::Looked { trainer, name, .. } => {
                if let Some(ids) = vars.into_iter().next() {
                    drop(service.lookup(trainer, &name, ids));
                }
            }
        }
        Ok(())
    }

    /// Write down what happens next. A server that cannot do so ends.
    pub(super) fn note(&self, s: &mut State, note: &Note, vars: &[Incoming], answered: bool) -> Answer<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let written = journal.lock().write(note, vars, answered);
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
    pub fn giving<T>(&self, trainer: u32, names: &[String], give: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let Some(_turn) = self.turn() else { return give() };
        self.note(&mut self.state.lock(), &Note::Given { trainer, names: names.to_vec() }, &[], true)?;
        give()
    }

    /// Rows are looked up, and the service remembers that.
    pub fn looking(&self, trainer: u32, name: &str, ids: Incoming, service: &dyn Service) -> Answer<Outgoing> {
        let Some(_turn) = self.turn() else { return service.lookup(trainer, name, ids) };
        let note = Note::Looked { trainer, name: name.to_string(), ids: ids.meta.clone() };
        let ids = [ids];
        self.note(&mut self.state.lock(), &note, &ids, true)?;
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
