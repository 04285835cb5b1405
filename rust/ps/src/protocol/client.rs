//! A trainer's client of one server: one connection, re-established after a failure.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::channel::{parts, Channel, ChannelError};
use super::connection;
use super::handler::{SHARE, TO_SHARE};
use super::limits::{Limits, Waiting};
use super::wire::{decode_reply, Reply, Request};
use super::{Allocate, Incoming, Outgoing};
use oar_net::error::{Error, Result};
use oar_net::frame::Type;
use oar_net::handshake::{self, Identity, Purpose};
use oar_net::shm::map;
use oar_net::socket::{self, Deadline};
use oar_net::store::Job;

#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub trainer: u32,
    /// Increases with every start of this trainer.
    pub incarnation: u64,
    pub job: Job,
    /// Time limit of a reply, unless FLAGS_rpc_deadline ends the wait before.
    pub timeout: Duration,
    /// Time limit for reaching a server.
    pub reconnect: Duration,
    /// A server without a message for this long is considered lost.
    pub silence: Duration,
    /// Use shared memory with a server on this host.
    pub shared_memory: bool,
}

#[derive(Default)]
struct Link {
    channel: Option<Channel>,
    /// Identifies the run of the server that this client was connected to.
    life: Option<u64>,
    seq: u64,
    /// The last acknowledged sequence number.
    acked: u64,
    /// The server's state is durable: its next run continues from it.
    keeps: bool,
}

/// A trainer's connection to a server; one request at a time.
pub struct Client {
    at: SocketAddr,
    settings: ClientSettings,
    link: Mutex<Link>,
}

impl Client {
    pub fn new(at: SocketAddr, settings: ClientSettings) -> Client {
        Client { at, settings, link: Mutex::default() }
    }

    #[cfg(test)]
    pub fn is_shared(&self) -> bool {
        self.link.lock().channel.as_ref().is_some_and(|c| c.stream().is_shared())
    }

    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Pushes variables and returns those in `want`. With `barrier` the push completes this trainer's part of the step,
    /// and the reply follows the step.
    pub fn push(
        &self,
        vars: &[Outgoing],
        barrier: bool,
        want: Vec<String>,
        allocate: Allocate<'_>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<Incoming>> {
        let mut link = self.link.lock();
        link.seq += 1;
        let metas = vars.iter().map(|v| v.meta.clone()).collect();
        let request = Request::Push { seq: link.seq, barrier, want, vars: metas };
        let (_, vars) = self.call(&mut link, &request, vars, allocate, stop)?;
        link.acked = link.seq;
        Ok(vars)
    }

    pub fn get(
        &self,
        names: Vec<String>,
        allocate: Allocate<'_>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<Incoming>> {
        self.call(&mut self.link.lock(), &Request::Get { names }, &[], allocate, stop).map(|(_, vars)| vars)
    }

    pub fn lookup(
        &self,
        name: &str,
        ids: Outgoing,
        allocate: Allocate<'_>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<Incoming> {
        let request = Request::Lookup { name: name.into(), ids: ids.meta.clone() };
        let (_, vars) = self.call(&mut self.link.lock(), &request, &[ids], allocate, stop)?;
        vars.into_iter().next().ok_or_else(|| self.nonsense(&request))
    }

    pub fn barrier(&self, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut link = self.link.lock();
        link.seq += 1;
        let request = Request::Barrier { seq: link.seq };
        self.call(&mut link, &request, &[], &no_values, stop)?;
        link.acked = link.seq;
        Ok(())
    }

    pub fn notify(&self, words: Vec<String>, stop: &dyn Fn() -> Result<()>) -> Result<Vec<String>> {
        self.call(&mut self.link.lock(), &Request::Notify { words }, &[], &no_values, stop).map(|(words, _)| words)
    }

    /// Declares that this trainer is finished. Also sent without a previous connection: other trainers wait for it.
    pub fn complete(&self, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut link = self.link.lock();
        let result = self.call(&mut link, &Request::Complete, &[], &no_values, stop).map(drop);
        link.channel = None;
        result
    }

    fn nonsense(&self, request: &Request) -> Error {
        Error::invalid(format!("the server at {} sent an unexpected reply to {}", self.at, request.what()))
    }

    fn during(&self, request: &Request) -> String {
        format!("trainer {}: {} at the server {}", self.settings.trainer, request.what(), self.at)
    }

    /// Sends a request and returns its reply; repeats both on a new connection after a failure, until the deadline.
    fn call(
        &self,
        link: &mut Link,
        request: &Request,
        vars: &[Outgoing],
        allocate: Allocate<'_>,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<(Vec<String>, Vec<Incoming>)> {
        let during = self.during(request);
        let head = request.encode();
        let limits = Limits::now()?;
        let _named = Waiting::enter(&during);
        let deadline = Deadline::new(self.settings.timeout.min(limits.whole()), stop);
        let mut backoff = socket::Backoff::default();
        let mut lost_since: Option<Instant> = None;
        let since = Instant::now();
        let late = |e: Error, last: Option<&str>| match e {
            Error::Timeout { waiting_for, .. } => Error::Timeout {
                waited: since.elapsed(),
                during: during.clone(),
                waiting_for: match last {
                    Some(why) => format!("the server (last: {why}; {})", limits.words()),
                    None => format!("{waiting_for} ({})", limits.words()),
                },
            },
            other => other,
        };
        loop {
            let found = match self.connected(link, &limits, &deadline, &during) {
                Ok(()) => self.ask(link, (&head, vars), allocate, &deadline, &during),
                Err(lost) => Err(lost),
            };
            let why = match found {
                Ok(answer) => return answer,
                Err(ChannelError::Wait(e)) => {
                    // A partially sent request cannot be continued.
                    link.channel = None;
                    return Err(late(e, None));
                }
                Err(ChannelError::Gone(why) | ChannelError::Refused(why)) => why,
            };
            link.channel = None;
            let lost = *lost_since.get_or_insert_with(Instant::now);
            let waiting_for = format!("the server (last: {why})");
            if lost.elapsed() > self.settings.reconnect {
                let e = Error::Timeout { waited: lost.elapsed(), during: String::new(), waiting_for };
                return Err(late(e, None));
            }
            if Self::dies_with_its_state(link) && lost.elapsed() > self.settings.silence && self.is_refused() {
                return Err(Error::Server(format!(
                    "{during}: the server died ({:.1} s ago; {why}), and its state was not durable (FLAGS_ps_state_folder)",
                    lost.elapsed().as_secs_f64()
                )));
            }
            socket::pause(backoff.pause(), &deadline, &during, &waiting_for).map_err(|e| late(e, Some(&why)))?;
        }
    }

    /// Whether the server's state ends with its process.
    fn dies_with_its_state(link: &Link) -> bool {
        link.life.is_some() && !link.keeps
    }

    /// Whether the server's host refuses connections to its port.
    fn is_refused(&self) -> bool {
        let tried = std::net::TcpStream::connect_timeout(&self.at, Duration::from_secs(1));
        tried.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    /// Ensures a connection; `whole` is the overall deadline.
    fn connected(
        &self,
        link: &mut Link,
        limits: &Limits,
        whole: &Deadline<'_>,
        during: &str,
    ) -> std::result::Result<(), ChannelError> {
        if link.channel.is_some() {
            return Ok(());
        }
        let s = &self.settings;
        let id = Identity::new(&s.job.name, &s.job.token, 0, s.trainer);
        // An attempt without a reply ends before the overall deadline, and is repeated.
        let once = if Self::dies_with_its_state(link) { s.silence } else { s.reconnect };
        let deadline = whole.within(limits.once().min(once));
        let attempt = || {
            let made = handshake::connect(self.at, &id, Purpose::Server, 0, &deadline)?;
            let mut channel = Channel::new(made.stream).sealed(made.seal).with_stall_limit(s.silence);
            let open = Request::Open { trainer: s.trainer, incarnation: s.incarnation };
            channel.send(Type::Request, &open.encode(), &[], &deadline, during)?;
            let mut of = "the server".to_string();
            loop {
                let reply = decode_reply(&channel.head(Type::Reply, &deadline, during, &of)?);
                match reply {
                    Some(Reply::Waiting { what }) => of = format!("the server, which is {what}"),
                    reply => return Ok((channel, reply)),
                }
            }
        };
        let (mut channel, reply) = attempt().map_err(|lost| match lost {
            ChannelError::Wait(Error::Timeout { waiting_for, .. }) if !whole.left().is_zero() => {
                ChannelError::Gone(format!("nothing was received from {waiting_for}"))
            }
            other => other,
        })?;
        match reply {
            Some(Reply::Opened { life, has, restored, lossy, keeps }) => {
                self.same_server(link, life, has, (restored, lossy))?;
                if s.shared_memory && oar_net::os::SHARED_MEMORY {
                    self.share(&mut channel, &deadline, during)?;
                }
                (link.channel, link.keeps) = (Some(channel), keeps);
                Ok(())
            }
            Some(Reply::Failed { why }) => {
                Err(ChannelError::Wait(Error::Server(format!("the server at {}: {why}", self.at))))
            }
            _ => Err(ChannelError::Refused("a reply that does not parse".into())),
        }
    }

    /// Switches to shared memory if the server is on this host and offers it.
    fn share(
        &self,
        channel: &mut Channel,
        deadline: &Deadline<'_>,
        during: &str,
    ) -> std::result::Result<(), ChannelError> {
        let mut say = |word: String| {
            let request = Request::Notify { words: vec![SHARE.into(), word] };
            channel.send(Type::Request, &request.encode(), &[], deadline, during)?;
            match decode_reply(&channel.head(Type::Reply, deadline, during, "the server's memory")?) {
                Some(Reply::Done { words }) => Ok(words.into_iter().next()),
                // A server without support for shared memory.
                Some(Reply::Failed { .. }) => Ok(None),
                _ => Err(ChannelError::Refused("a reply that does not parse".into())),
            }
        };
        let Some(name) = say(socket::host_key())? else { return Ok(()) };
        let taken = map::receive(name.as_bytes(), &deadline.within(TO_SHARE)).and_then(|fd| connection::join(&fd));
        let agreed = say(if taken.is_ok() { "yes" } else { "no" }.into())?;
        match (taken, agreed) {
            (Ok(map), Some(_)) => channel.share(map, false),
            _ => Ok(()),
        }
    }

    /// Checks that a restarted server has all acknowledged updates. A server without a log may lack some; it is
    /// reported on stderr.
    fn same_server(&self, link: &mut Link, life: u64, has: u64, (restored, lossy): (bool, bool)) -> Result<()> {
        let changed = link.life.is_some_and(|known| known != life);
        if changed && has < link.acked {
            let (at, lost) = (self.at, link.acked - has);
            match (restored, lossy) {
                (false, _) => return Err(Error::Server(format!("the server at {at} was restarted without its state"))),
                (true, false) => {
                    let what = format!("the server at {at} lacks the last {lost} updates of this trainer");
                    return Err(Error::Server(format!("{what}, though it keeps a log: its log was lost")));
                }
                (true, true) => eprintln!(
                    "oar: the server at {at} continues from a snapshot: {lost} updates of trainer {} are lost",
                    self.settings.trainer
                ),
            }
            link.acked = has;
        }
        link.life = Some(life);
        Ok(())
    }

    /// Sends a request and reads its reply; the inner result is the server's.
    #[allow(clippy::type_complexity)]
    fn ask(
        &self,
        link: &mut Link,
        (head, vars): (&[u8], &[Outgoing]),
        allocate: Allocate<'_>,
        deadline: &Deadline<'_>,
        during: &str,
    ) -> std::result::Result<Result<(Vec<String>, Vec<Incoming>)>, ChannelError> {
        let Some(channel) = &mut link.channel else { return Err(ChannelError::Gone("no connection".into())) };
        channel.send(Type::Request, head, &parts(vars), deadline, during)?;
        let mut of = "its reply".to_string();
        loop {
            let last_received = Instant::now();
            while !channel.ready(deadline.slice(during, &of)?)? {
                if last_received.elapsed() > self.settings.silence {
                    return Err(ChannelError::Gone(format!(
                        "silent for {:.1} s",
                        last_received.elapsed().as_secs_f64()
                    )));
                }
            }
            match decode_reply(&channel.head(Type::Reply, deadline, during, &of)?) {
                Some(Reply::Waiting { what }) => of = format!("the server, which is {what}"),
                Some(Reply::Done { words }) => return Ok(Ok((words, Vec::new()))),
                Some(Reply::Failed { why }) => {
                    return Ok(Err(Error::Server(format!("the server at {}: {why}", self.at))))
                }
                Some(Reply::Values { vars: metas }) => {
                    let found = channel.vars(&metas, allocate, deadline, during, &of)?;
                    return Ok(found.map(|vars| (Vec::new(), vars)).map_err(Error::Invalid));
                }
                Some(Reply::Opened { .. }) | None => {
                    return Err(ChannelError::Refused("a reply that does not parse".into()))
                }
            }
        }
    }
}

/// Allocator of requests whose replies carry no variables.
fn no_values(meta: &super::Meta) -> std::result::Result<Box<dyn super::Buffer>, String> {
    Err(format!("the variable {} was not requested", meta.name))
}
