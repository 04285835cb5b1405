//! Rendezvous store: a key-value service over TCP through which the processes of a job find each other.

mod protocol;
mod server;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};

use crate::error::{Error, Result};
use crate::frame::{Parser, Type, Writer, MAX_CONTROL};
use crate::handshake::{self, Identity, Purpose, NO_RANK};
use crate::socket::{self, moved, Deadline, Moved};
pub use protocol::{decode_reply, decode_request, Reply, Request, MAX_KEY, MAX_VALUE};
use server::Server;

/// Job name and secret, the same for all processes of a job.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub name: String,
    /// Created by the launcher. Empty: each listener has a token of its own, for processes of its user on its host.
    pub token: Vec<u8>,
}

impl Job {
    pub fn new(name: &str, token: &[u8]) -> Job {
        Job { name: name.into(), token: token.into() }
    }

    /// A token of 32 random bytes.
    pub fn fresh_token() -> Result<Vec<u8>> {
        Ok(socket::random_bytes::<32>()?.to_vec())
    }
}

struct Link {
    stream: TcpStream,
    writer: Writer,
    parser: Parser,
    next_id: u64,
    broken: Option<String>,
}

/// A client of the store. Clones share one connection, so a waiting thread blocks the others (see `again`).
#[derive(Clone)]
pub struct Store {
    link: Arc<Mutex<Link>>,
    address: SocketAddr,
    job: Job,
    server: Option<Arc<Server>>,
    interrupted: Arc<AtomicBool>,
}

impl Store {
    /// Hosts a store at `bind` (port 0: any free port, see `address`) and connects to it. It ends with the last clone.
    pub fn host(bind: SocketAddr, job: &Job) -> Result<Store> {
        let listener = socket::listen(bind)?;
        let server = Server::start(listener, Identity::new(&job.name, &job.token, 0, NO_RANK))?;
        let mut address = server.address();
        if address.ip().is_unspecified() {
            let ip: std::net::IpAddr =
                if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            address.set_ip(ip);
        }
        let mut store = Store::connect(address, job, Duration::from_secs(30))?;
        store.server = Some(Arc::new(server));
        Ok(store)
    }

    /// Connects to a store that another process hosts, or will host within `limit`.
    pub fn connect(address: SocketAddr, job: &Job, limit: Duration) -> Result<Store> {
        Store::connect_until(address, job, &Deadline::only(limit))
    }

    pub fn connect_until(address: SocketAddr, job: &Job, deadline: &Deadline<'_>) -> Result<Store> {
        let id = Identity::new(&job.name, &job.token, 0, NO_RANK);
        let made = handshake::connect(address, &id, Purpose::Store, 0, deadline)?;
        let (writer, parser) = (Writer::sealed(made.seal.out), Parser::sealed(MAX_CONTROL, made.seal.incoming));
        let link = Link { stream: made.stream, writer, parser, next_id: 1, broken: None };
        Ok(Store {
            link: Arc::new(Mutex::new(link)),
            address,
            job: Job::new(&job.name, &made.token),
            server: None,
            interrupted: Arc::default(),
        })
    }

    /// Another client, with a connection of its own.
    pub fn again(&self, limit: Duration) -> Result<Store> {
        let mut store = Store::connect(self.address, &self.job, limit)?;
        store.server = self.server.clone();
        store.interrupted = self.interrupted.clone();
        Ok(store)
    }

    /// Where the store listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The job, with the token that the store has accepted.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The address by which this process reaches the store, which is valid for other hosts of the network.
    pub fn local_ip(&self) -> Result<std::net::IpAddr> {
        self.link.lock().stream.local_addr().map(|a| a.ip()).map_err(|e| self.error(e))
    }

    /// Ends every wait of this client and its clones within a slice (50 ms); `false` allows waits again.
    pub fn interrupt(&self, on: bool) {
        self.interrupted.store(on, Ordering::Release);
    }

    pub(crate) fn check_interrupt(&self, during: &str) -> Result<()> {
        match self.interrupted.load(Ordering::Acquire) {
            true => Err(Error::Interrupted { during: during.into() }),
            false => Ok(()),
        }
    }

    pub fn set(&self, key: &str, value: &[u8], limit: Duration) -> Result<()> {
        self.done(Request::Set { key: key.into(), value: value.into() }, limit)
    }

    /// The value of `key`; waits until it is set.
    pub fn get(&self, key: &str, limit: Duration) -> Result<Vec<u8>> {
        match self.ask(Request::Get { key: key.into() }, limit)? {
            Reply::Value(v) => Ok(v),
            other => Err(self.error(format!("unexpected reply {other:?}"))),
        }
    }

    /// The value of `key` if it is set.
    pub fn peek(&self, key: &str, limit: Duration) -> Result<Option<Vec<u8>>> {
        match self.ask(Request::Peek { key: key.into() }, limit)? {
            Reply::Value(v) => Ok(Some(v)),
            Reply::Nothing => Ok(None),
            other => Err(self.error(format!("unexpected reply {other:?}"))),
        }
    }

    /// Adds to a number (0 if absent; stored as eight little-endian bytes) and returns the sum.
    pub fn add(&self, key: &str, delta: i64, limit: Duration) -> Result<i64> {
        self.number(Request::Add { key: key.into(), delta }, limit)
    }

    /// Sets `new` if the value is `old` (`None`: absent). Returns the value afterwards.
    pub fn compare_and_set(
        &self,
        key: &str,
        old: Option<&[u8]>,
        new: &[u8],
        limit: Duration,
    ) -> Result<Option<Vec<u8>>> {
        let request = Request::Swap { key: key.into(), old: old.map(<[u8]>::to_vec), new: new.into() };
        match self.ask(request, limit)? {
            Reply::Value(v) => Ok(Some(v)),
            Reply::Nothing => Ok(None),
            other => Err(self.error(format!("unexpected reply {other:?}"))),
        }
    }

    /// Waits until all of `keys` are set.
    pub fn wait(&self, keys: &[&str], limit: Duration) -> Result<()> {
        let deadline = Deadline::only(limit);
        for some in keys.chunks(protocol::MAX_KEYS) {
            let keys = some.iter().map(|k| k.as_bytes().to_vec()).collect();
            self.done(Request::Wait { keys }, deadline.left())?;
        }
        Ok(())
    }

    /// Deletes `key`; returns whether it was set.
    pub fn delete(&self, key: &str, limit: Duration) -> Result<bool> {
        self.number(Request::Delete { key: key.into() }, limit).map(|n| n == 1)
    }

    /// Waits until `world` clients are in the barrier of this name. The name can be used again afterwards.
    pub fn barrier(&self, name: &str, world: usize, limit: Duration) -> Result<()> {
        self.done(Request::Barrier { name: name.into(), world: world as u32 }, limit)
    }

    fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::Store { address: self.address.to_string(), what: what.to_string() }
    }

    fn done(&self, request: Request, limit: Duration) -> Result<()> {
        match self.ask(request, limit)? {
            Reply::Done => Ok(()),
            other => Err(self.error(format!("unexpected reply {other:?}"))),
        }
    }

    fn number(&self, request: Request, limit: Duration) -> Result<i64> {
        match self.ask(request, limit)? {
            Reply::Number(n) => Ok(n),
            other => Err(self.error(format!("unexpected reply {other:?}"))),
        }
    }

    fn ask(&self, request: Request, limit: Duration) -> Result<Reply> {
        let during = describe(&request);
        check_size(&request)?;
        let stop = || self.check_interrupt(&during);
        // The server's deadline comes first; the client's serves for a server that does not answer.
        let deadline = Deadline::new(limit.saturating_add(Duration::from_secs(2)), &stop);
        let mut link = loop {
            match self.link.try_lock_for(deadline.slice(&during, "another thread's request")?) {
                Some(link) => break link,
                None => continue,
            }
        };
        if let Some(why) = &link.broken {
            return Err(self.error(format!("{during}: {why}")));
        }
        let result = self.exchange(&mut link, &request, limit, &during, &deadline);
        if let Err(Error::Store { what, .. }) = &result {
            link.broken = Some(what.clone());
        }
        match result? {
            Reply::Late => Err(Error::Timeout { waited: limit, during, waiting_for: "other processes".into() }),
            Reply::Refused(why) => Err(Error::Invalid(format!("store: {why}"))),
            reply => Ok(reply),
        }
    }

    fn exchange(
        &self,
        link: &mut Link,
        request: &Request,
        limit: Duration,
        during: &str,
        deadline: &Deadline<'_>,
    ) -> Result<Reply> {
        let id = link.next_id;
        link.next_id += 1;
        let mut out = Vec::new();
        link.writer.encode(
            Type::Request,
            &protocol::encode_request(id, limit.as_millis().min(u128::from(u64::MAX)) as u64, request),
            &mut out,
        );
        match socket::write_all(&link.stream, &out, deadline, during) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(self.error(why)),
            Err(e) => {
                // Part of a frame may have been sent: the connection cannot be used again.
                link.broken = Some("an earlier request was cut off".into());
                return Err(e);
            }
        }
        let mut buf = [0; 16 << 10];
        loop {
            // Replies to abandoned requests are skipped.
            while let Some(frame) = link.parser.next().map_err(|bad| self.error(bad))? {
                match decode_reply(&frame.payload) {
                    Some((found, reply)) if frame.kind == Type::Reply && found == id => return Ok(reply),
                    Some((found, _)) if frame.kind == Type::Reply && found < id => {}
                    _ => return Err(self.error("an invalid reply")),
                }
            }
            match moved((&link.stream).read(&mut buf)) {
                Moved::Some(n) => link.parser.feed(&buf[..n]),
                Moved::Ended(why) => return Err(self.error(why)),
                Moved::Blocked => {
                    let slice = deadline.slice(during, "the store")?;
                    socket::poll(&mut [PollFd::from_borrowed_fd(link.stream.as_fd(), PollFlags::IN)], slice)?;
                }
            }
        }
    }
}

fn check_size(request: &Request) -> Result<()> {
    let (key, value) = match request {
        Request::Set { key, value } => (key.len(), value.len()),
        Request::Swap { key, old, new } => (key.len(), new.len().max(old.as_ref().map_or(0, Vec::len))),
        Request::Wait { keys } => (keys.iter().map(Vec::len).max().unwrap_or(0), 0),
        Request::Get { key } | Request::Peek { key } | Request::Add { key, .. } | Request::Delete { key } => {
            (key.len(), 0)
        }
        Request::Barrier { name, .. } => (name.len(), 0),
    };
    if key > MAX_KEY || value > MAX_VALUE {
        return Err(Error::invalid(format!(
            "a store key has at most {MAX_KEY} bytes and a value {MAX_VALUE}; got {key} and {value}"
        )));
    }
    Ok(())
}

fn describe(request: &Request) -> String {
    let t = |k: &[u8]| String::from_utf8_lossy(k).into_owned();
    match request {
        Request::Set { key, .. } => format!("store set({})", t(key)),
        Request::Get { key } => format!("store get({})", t(key)),
        Request::Peek { key } => format!("store peek({})", t(key)),
        Request::Add { key, .. } => format!("store add({})", t(key)),
        Request::Swap { key, .. } => format!("store compare_and_set({})", t(key)),
        Request::Wait { keys } => {
            format!("store wait({})", keys.iter().take(8).map(|k| t(k)).collect::<Vec<_>>().join(", "))
        }
        Request::Delete { key } => format!("store delete({})", t(key)),
        Request::Barrier { name, world } => format!("store barrier({} of {world})", t(name)),
    }
}
