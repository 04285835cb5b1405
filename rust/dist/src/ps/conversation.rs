//! A server's end of one connection: reads requests, has them done, answers.

use std::net::TcpStream;
use std::time::Duration;

use super::books::{Books, Mode, Past};
use super::channel::{parts, Channel, Lost};
use super::wire::{decode_request, Meta, Reply, Request};
use super::{Incoming, Outgoing, Service};
use crate::error::{Error, Result};
use crate::frame::Type;
use crate::net::{Deadline, SLICE};

/// A trainer that does not take its answer within this time is given up.
const TO_SEND: Duration = Duration::from_secs(120);

pub struct Conversation<'a> {
    pub books: &'a Books,
    pub service: &'a dyn Service,
    /// An error once the server ends.
    pub stop: &'a (dyn Fn() -> Result<()> + Sync),
    pub life: u64,
    pub past: Past,
    /// What the server knows outlives it.
    pub keeps: bool,
}

type Answer<T> = std::result::Result<T, String>;

impl Conversation<'_> {
    /// Until the connection ends.
    pub fn run(&self, stream: TcpStream, trainer: u32) {
        let mut channel = Channel::new(stream);
        let Ok((mut who, opened)) = self.open(&mut channel, trainer) else { return };
        if !opened {
            return;
        }
        while let Ok(true) = self.turn(&mut channel, &mut who) {}
        self.books.close(who.0, who.1);
    }

    fn deadline(&self, limit: Duration) -> Deadline<'_> {
        Deadline::new(limit, self.stop)
    }

    fn answer(&self, channel: &mut Channel, reply: &Reply, vars: &[Outgoing]) -> std::result::Result<(), Lost> {
        let deadline = self.deadline(TO_SEND);
        channel.send(Type::Reply, &reply.encode(), &parts(vars), &deadline, "answering a trainer")
    }

    fn read(&self, channel: &mut Channel) -> std::result::Result<Request, Lost> {
        // Between requests a trainer computes, for as long as it wants.
        while !channel.ready(SLICE)? {
            (self.stop)()?;
        }
        let head = channel.head(Type::Request, &self.deadline(TO_SEND), "reading a request", "a trainer")?;
        decode_request(&head).ok_or_else(|| Lost::Refused("a request that does not parse".into()))
    }

    fn open(&self, channel: &mut Channel, trainer: u32) -> std::result::Result<((u32, u64), bool), Lost> {
        let Request::Open { trainer: named, incarnation } = self.read(channel)? else {
            return Err(Lost::Refused("the first request does not open the connection".into()));
        };
        let opened = match named == trainer {
            true => self.books.open(trainer, incarnation),
            false => Err(format!("trainer {trainer} calls itself {named}")),
        };
        let reply = match &opened {
            Ok(has) => {
                let Past { restored, lossy } = self.past;
                Reply::Opened { life: self.life, has: *has, restored, lossy, keeps: self.keeps }
            }
            Err(why) => Reply::Failed { why: why.clone() },
        };
        let sent = self.answer(channel, &reply, &[]);
        if sent.is_err() && opened.is_ok() {
            self.books.close(trainer, incarnation);
        }
        sent.map(|()| ((trainer, incarnation), opened.is_ok()))
    }

    /// One request; false once nothing more is to come.
    fn turn(&self, channel: &mut Channel, who: &mut (u32, u64)) -> std::result::Result<bool, Lost> {
        let request = self.read(channel)?;
        let deadline = self.deadline(TO_SEND);
        let place = |meta: &Meta| match &request {
            Request::Lookup { .. } => self.service.place_ids(meta),
            _ => self.service.place(meta),
        };
        let vars = channel.vars(request.vars(), &place, &deadline, "reading what a trainer sends", "a trainer")?;
        let last = matches!(request, Request::Complete);
        let done = vars.and_then(|vars| self.perform(channel, *who, request, vars));
        match done {
            Ok((reply, out)) => self.answer(channel, &reply, &out)?,
            Err(why) => self.answer(channel, &Reply::Failed { why }, &[])?,
        }
        Ok(!last)
    }

    fn values(&self, trainer: u32, names: &[String]) -> Answer<(Reply, Vec<Outgoing>)> {
        let give = || self.service.get(trainer, names);
        let out = match names.is_empty() {
            true => Vec::new(),
            false if self.service.remembers(None) => self.books.giving(trainer, names, give)?,
            false => give()?,
        };
        Ok((Reply::Values { vars: out.iter().map(|v| v.meta.clone()).collect() }, out))
    }

    fn look_up(&self, trainer: u32, name: &str, ids: Incoming) -> Answer<Outgoing> {
        if !self.service.remembers(Some(name)) {
            return self.service.lookup(trainer, name, ids);
        }
        self.books.looking(trainer, name, ids, self.service)
    }

    fn perform(
        &self,
        channel: &mut Channel,
        who: (u32, u64),
        request: Request,
        vars: Vec<Incoming>,
    ) -> Answer<(Reply, Vec<Outgoing>)> {
        let mut tell = |what: String| {
            (self.stop)().map_err(|e: Error| e.to_string())?;
            self.answer(channel, &Reply::Waiting { what }, &[]).map_err(|_| "the connection is lost".to_string())
        };
        let done = |words| Ok((Reply::Done { words }, Vec::new()));
        match request {
            Request::Push { seq, barrier, want, .. } => {
                match self.books.mode() {
                    Mode::Steps => self.books.push(who, seq, barrier, vars, &mut tell, self.service)?,
                    Mode::Free => self.books.apply(who, seq, vars, &mut tell, self.service)?,
                };
                self.values(who.0, &want)
            }
            Request::Get { names } => self.values(who.0, &names),
            Request::Lookup { name, .. } => {
                let ids = vars.into_iter().next().ok_or("a lookup without ids")?;
                let found = self.look_up(who.0, &name, ids)?;
                Ok((Reply::Values { vars: vec![found.meta.clone()] }, vec![found]))
            }
            Request::Barrier { seq } => {
                self.books.barrier(who, seq, &mut tell)?;
                done(Vec::new())
            }
            Request::Complete => {
                self.books.complete(who, self.service)?;
                done(Vec::new())
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "report") => {
                done(vec![self.books.report()])
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "progress") => {
                done(vec![self.books.progress(who.0)?.to_string()])
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "resume") => {
                let parts = words.get(1).and_then(|w| w.parse().ok()).ok_or("resume takes a number of steps")?;
                self.books.resume(who, parts)?;
                done(Vec::new())
            }
            Request::Notify { words } => done(self.service.notify(who.0, &words)?),
            Request::Open { .. } => Err("the connection is open".into()),
        }
    }
}
