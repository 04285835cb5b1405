//! The server's side of one connection: reads requests, executes them, sends replies.

use std::collections::HashMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::channel::{parts, Channel, ChannelError};
use super::connection;
use super::ledger::{Ledger, Recovery, SyncMode};
use super::wire::{decode_request, Meta, Reply, Request};
use super::{Incoming, Outgoing, Service};
use oar_net::error::{Error, Result};
use oar_net::frame::Type;
use oar_net::shm::map::{Map, MemorySender};
use oar_net::socket::{self, Deadline, SLICE};

/// Command by which a trainer requests shared memory: first with its host key, then with "yes" or "no".
pub const SHARE: &str = "shared memory";
/// Time limit for passing the memory; both ends do it at the same time.
pub const TO_SHARE: Duration = Duration::from_secs(2);

/// The sockets of the trainers' connections, by trainer and incarnation: a second process with the number of a trainer
/// that is alive belongs to another job, and does not replace it.
#[derive(Default)]
pub struct Connections(Mutex<HashMap<(u32, u64), Vec<TcpStream>>>);

impl Connections {
    fn add(&self, client: (u32, u64), socket: &TcpStream) {
        if let Ok(socket) = socket.try_clone() {
            oar_net::fork::close_on_fork(&socket);
            self.0.lock().entry(client).or_default().push(socket);
        }
    }

    /// Forgets the connections of this client that have ended.
    fn sweep(&self, client: (u32, u64)) {
        let mut all = self.0.lock();
        if let Some(sockets) = all.get_mut(&client) {
            sockets.retain(is_open);
            if sockets.is_empty() {
                all.remove(&client);
            }
        }
    }

    /// The address of an open connection of another incarnation of the trainer.
    fn other(&self, (trainer, incarnation): (u32, u64)) -> Option<String> {
        let all = self.0.lock();
        let others = all.iter().filter(|((t, i), _)| *t == trainer && *i != incarnation);
        let open = others.flat_map(|(_, sockets)| sockets).find(|s| is_open(s))?;
        Some(open.peer_addr().map_or_else(|_| "an unknown address".to_string(), |a| a.to_string()))
    }
}

/// Whether neither end has closed the connection. Unread bytes do not matter.
fn is_open(socket: &TcpStream) -> bool {
    let mut fds = [rustix::event::PollFd::new(socket, oar_net::os::HANGUP)];
    socket::poll(&mut fds, Duration::ZERO).is_ok() && fds[0].revents().is_empty()
}

pub struct Handler<'a> {
    pub ledger: &'a Ledger,
    pub service: &'a dyn Service,
    /// An error once the server ends.
    pub stop: &'a (dyn Fn() -> Result<()> + Sync),
    pub life: u64,
    pub recovery: Recovery,
    /// A trainer that neither sends nor receives for this long within a message is disconnected. A message as a whole
    /// has no limit.
    pub stall_limit: Duration,
    /// The server's state is durable.
    pub keeps: bool,
    /// Shared memory is offered to trainers of this host.
    pub shares: bool,
    pub connections: Connections,
}

type Answer<T> = std::result::Result<T, String>;

impl Handler<'_> {
    /// Serves the connection until it ends.
    pub fn run(&self, channel: Channel, trainer: u32) {
        let mut channel = channel.with_stall_limit(self.stall_limit);
        let Ok((mut client, opened)) = self.open(&mut channel, trainer) else { return };
        if !opened {
            return;
        }
        self.connections.add(client, channel.stream().socket());
        let mut offered = None;
        while let Ok(true) = self.turn(&mut channel, &mut client, &mut offered) {}
        let _ = channel.stream().socket().shutdown(std::net::Shutdown::Both);
        self.connections.sweep(client);
        self.ledger.close(client.0, client.1);
    }

    /// Waits until the trainer's earlier process has ended. The inner error is the refusal of a process that presents
    /// itself as a trainer that is alive.
    fn await_earlier(
        &self,
        channel: &mut Channel,
        client: (u32, u64),
    ) -> std::result::Result<Answer<()>, ChannelError> {
        let (since, mut last_report) = (Instant::now(), Instant::now());
        while let Some(at) = self.connections.other(client) {
            // A host that has died is detected within the stall limit.
            if since.elapsed() > self.stall_limit + Duration::from_secs(1) {
                return Ok(Err(format!(
                    "trainer {} of this server's job is alive and connected from {at}: a second process with its number \
                     must wait for its end, or belongs to another job, which needs servers at other ports",
                    client.0
                )));
            }
            if last_report.elapsed() > Duration::from_millis(500) {
                last_report = Instant::now();
                let what = format!("waiting for the end of the earlier process of trainer {} at {at}", client.0);
                self.answer(channel, &Reply::Waiting { what }, &[])?;
            }
            std::thread::sleep(Duration::from_millis(5));
            (self.stop)()?;
        }
        Ok(Ok(()))
    }

    fn deadline(&self) -> Deadline<'_> {
        Deadline::new(Duration::MAX, self.stop)
    }

    fn answer(&self, channel: &mut Channel, reply: &Reply, vars: &[Outgoing]) -> std::result::Result<(), ChannelError> {
        let deadline = self.deadline();
        channel.send(Type::Reply, &reply.encode(), &parts(vars), &deadline, "answering a trainer")
    }

    fn read(&self, channel: &mut Channel) -> std::result::Result<Request, ChannelError> {
        // Between requests a trainer computes, without a limit.
        while !channel.ready(SLICE)? {
            (self.stop)()?;
        }
        let head = channel.head(Type::Request, &self.deadline(), "reading a request", "a trainer")?;
        decode_request(&head).ok_or_else(|| ChannelError::Refused("a request that does not parse".into()))
    }

    fn open(&self, channel: &mut Channel, trainer: u32) -> std::result::Result<((u32, u64), bool), ChannelError> {
        let Request::Open { trainer: named, incarnation } = self.read(channel)? else {
            return Err(ChannelError::Refused("the first request does not open the connection".into()));
        };
        let opened = match named == trainer {
            true => self
                .await_earlier(channel, (trainer, incarnation))?
                .and_then(|()| self.ledger.open(trainer, incarnation)),
            false => Err(format!("trainer {trainer} identifies itself as {named}")),
        };
        let reply = match &opened {
            Ok(has) => {
                let Recovery { restored, lossy } = self.recovery;
                Reply::Opened { life: self.life, has: *has, restored, lossy, keeps: self.keeps }
            }
            Err(why) => Reply::Failed { why: why.clone() },
        };
        let sent = self.answer(channel, &reply, &[]);
        if sent.is_err() && opened.is_ok() {
            self.ledger.close(trainer, incarnation);
        }
        sent.map(|()| ((trainer, incarnation), opened.is_ok()))
    }

    /// Serves one request; false after the last one.
    fn turn(
        &self,
        channel: &mut Channel,
        client: &mut (u32, u64),
        offered: &mut Option<Map>,
    ) -> std::result::Result<bool, ChannelError> {
        let request = self.read(channel)?;
        if let Request::Notify { words } = &request {
            if let [word, answer] = &words[..] {
                if word == SHARE {
                    return self.share(channel, answer, offered).map(|()| true);
                }
            }
        }
        let deadline = self.deadline();
        let allocate = |meta: &Meta| match &request {
            Request::Lookup { .. } => self.service.allocate_ids(meta),
            _ => self.service.allocate(meta),
        };
        let vars = channel.vars(request.vars(), &allocate, &deadline, "reading what a trainer sends", "a trainer")?;
        let last = matches!(request, Request::Complete);
        let done = vars.and_then(|vars| self.perform(channel, *client, request, vars));
        match done {
            Ok((reply, out)) => self.answer(channel, &reply, &out)?,
            Err(why) => self.answer(channel, &Reply::Failed { why }, &[])?,
        }
        Ok(!last)
    }

    /// Offers memory to a trainer of this host, or switches to memory that it has mapped.
    fn share(
        &self,
        channel: &mut Channel,
        answer: &str,
        offered: &mut Option<Map>,
    ) -> std::result::Result<(), ChannelError> {
        let done = |words| Reply::Done { words };
        if let Some(map) = offered.take() {
            self.answer(channel, &done(vec!["yes".into()]), &[])?;
            return if answer == "yes" { channel.share(map, true) } else { Ok(()) };
        }
        let made = match self.shares && answer == socket::host_key() {
            true => connection::create().and_then(|(map, fd)| Ok((map, fd, MemorySender::new()?))).ok(),
            false => None,
        };
        let Some((map, fd, sender)) = made else { return self.answer(channel, &done(Vec::new()), &[]) };
        self.answer(channel, &done(vec![String::from_utf8_lossy(&sender.name).into_owned()]), &[])?;
        // A trainer that fails to map the memory reports it over the socket.
        let given = sender.send(&fd, 1, &Deadline::new(TO_SHARE, self.stop));
        (self.stop)()?;
        drop(given);
        *offered = Some(map);
        Ok(())
    }

    fn values(&self, trainer: u32, names: &[String]) -> Answer<(Reply, Vec<Outgoing>)> {
        let give = || self.service.get(trainer, names);
        let out = match names.is_empty() {
            true => Vec::new(),
            false if self.service.remembers(None) => self.ledger.record_get(trainer, names, give)?,
            false => give()?,
        };
        Ok((Reply::Values { vars: out.iter().map(|v| v.meta.clone()).collect() }, out))
    }

    fn look_up(&self, trainer: u32, name: &str, ids: Incoming) -> Answer<Outgoing> {
        if !self.service.remembers(Some(name)) {
            return self.service.lookup(trainer, name, ids);
        }
        self.ledger.record_lookup(trainer, name, ids, self.service)
    }

    fn perform(
        &self,
        channel: &mut Channel,
        client: (u32, u64),
        request: Request,
        vars: Vec<Incoming>,
    ) -> Answer<(Reply, Vec<Outgoing>)> {
        let mut on_wait = |what: String| {
            (self.stop)().map_err(|e: Error| e.to_string())?;
            let sent = match channel.stream().is_over() {
                true => Err(ChannelError::Gone(String::new())),
                false => self.answer(channel, &Reply::Waiting { what }, &[]),
            };
            sent.map_err(|_| "the connection is lost".to_string())
        };
        let done = |words| Ok((Reply::Done { words }, Vec::new()));
        match request {
            Request::Push { seq, barrier, want, .. } => {
                match self.ledger.mode() {
                    SyncMode::Sync => self.ledger.push(client, seq, barrier, vars, &mut on_wait, self.service)?,
                    SyncMode::Async => self.ledger.apply(client, seq, vars, &mut on_wait, self.service)?,
                };
                self.values(client.0, &want)
            }
            Request::Get { names } => self.values(client.0, &names),
            Request::Lookup { name, .. } => {
                let ids = vars.into_iter().next().ok_or("a lookup without ids")?;
                let found = self.look_up(client.0, &name, ids)?;
                Ok((Reply::Values { vars: vec![found.meta.clone()] }, vec![found]))
            }
            Request::Barrier { seq } => {
                self.ledger.barrier(client, seq, &mut on_wait)?;
                done(Vec::new())
            }
            Request::Complete => {
                self.ledger.complete(client, self.service)?;
                done(Vec::new())
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "report") => {
                done(vec![self.ledger.report()])
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "progress") => {
                done(vec![self.ledger.progress(client.0)?.to_string()])
            }
            Request::Notify { words } if words.first().is_some_and(|w| w == "resume") => {
                let parts = words.get(1).and_then(|w| w.parse().ok()).ok_or("resume takes a number of steps")?;
                self.ledger.resume(client, parts)?;
                done(Vec::new())
            }
            Request::Notify { words } => done(self.service.notify(client.0, &words)?),
            Request::Open { .. } => Err("the connection is open".into()),
        }
    }
}
