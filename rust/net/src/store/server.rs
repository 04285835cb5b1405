//! The server of the store: one thread, one poll; no client blocks another.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::protocol::{decode_request, encode_reply, Reply, Request};
use crate::acceptor::Acceptor;
use crate::error::{Error, Result};
use crate::fork::ForkGeneration;
use crate::frame::{Parser, Type, Writer, MAX_CONTROL};
use crate::handshake::{Identity, Purpose};
use crate::socket::{self, moved, Moved, Waker};

/// Limit of all values together; a store holds addresses and names, not tensors.
const MAX_TOTAL: usize = 256 << 20;
/// A client with this many unread bytes is dropped.
const MAX_UNREAD: usize = 8 << 20;

pub struct Server {
    address: SocketAddr,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    generation: ForkGeneration,
}

impl Server {
    pub fn start(listener: TcpListener, id: Identity) -> Result<Server> {
        let address = listener.local_addr().map_err(|e| Error::io("store", e))?;
        let waker = Arc::new(Waker::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let (bell2, stop2) = (waker.clone(), stop.clone());
        let acceptor = Acceptor::new(listener, Arc::new(id))?;
        let thread = std::thread::Builder::new()
            .name("oar-store".into())
            .spawn(move || Keeper::new(acceptor).run(&bell2, &stop2))
            .map_err(|e| Error::io("store thread", e))?;
        Ok(Server { address, waker, stop, thread: Some(thread), generation: ForkGeneration::now() })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.generation.is_forked() {
            // A forked child has no such thread to join.
            std::mem::forget(self.thread.take());
            return;
        }
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

struct Client {
    number: u64,
    stream: TcpStream,
    parser: Parser,
    writer: Writer,
    out: Vec<u8>,
    sent: usize,
    gone: bool,
}

impl Client {
    fn reply(&mut self, id: u64, reply: &Reply) {
        self.writer.encode(Type::Reply, &encode_reply(id, reply), &mut self.out);
        self.flush();
        if self.out.len() - self.sent > MAX_UNREAD {
            self.gone = true;
        }
    }

    fn flush(&mut self) {
        while self.sent < self.out.len() {
            match moved((&self.stream).write(&self.out[self.sent..])) {
                Moved::Some(n) => self.sent += n,
                Moved::Blocked => return,
                Moved::Ended(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
        self.out.clear();
        self.sent = 0;
    }

    fn read(&mut self, buf: &mut [u8]) {
        // One read per turn, so that a busy client does not starve the others.
        match moved((&self.stream).read(buf)) {
            Moved::Some(n) => self.parser.feed(&buf[..n]),
            Moved::Blocked => {}
            Moved::Ended(_) => self.gone = true,
        }
    }
}

enum Until {
    Keys(Vec<Vec<u8>>),
    /// As `Keys`, and the reply carries the value of the one key.
    Value(Vec<u8>),
    Barrier(Vec<u8>, u32),
}

struct Parked {
    client: u64,
    id: u64,
    deadline: Instant,
    until: Until,
}

struct Keeper {
    acceptor: Acceptor,
    clients: Vec<Client>,
    parked: Vec<Parked>,
    values: HashMap<Vec<u8>, Vec<u8>>,
    total: usize,
    next_number: u64,
}

impl Keeper {
    fn new(acceptor: Acceptor) -> Keeper {
        Keeper { acceptor, clients: Vec::new(), parked: Vec::new(), values: HashMap::new(), total: 0, next_number: 0 }
    }

    fn run(mut self, waker: &Waker, stop: &AtomicBool) {
        let mut buf = vec![0; 64 << 10];
        while !stop.load(Ordering::Acquire) {
            if self.poll(waker).is_err() {
                return;
            }
            waker.drain();
            for new in self.acceptor.turn() {
                if new.hello.purpose == Purpose::Store {
                    self.next_number += 1;
                    self.clients.push(Client {
                        number: self.next_number,
                        stream: new.stream,
                        parser: Parser::sealed(MAX_CONTROL, new.seal.incoming),
                        writer: Writer::sealed(new.seal.out),
                        out: Vec::new(),
                        sent: 0,
                        gone: false,
                    });
                }
            }
            for at in 0..self.clients.len() {
                let c = &mut self.clients[at];
                c.flush();
                c.read(&mut buf);
                self.serve(at);
            }
            self.expire();
            let parked = &mut self.parked;
            self.clients.retain(|c| {
                if c.gone {
                    parked.retain(|p| p.client != c.number);
                }
                !c.gone
            });
        }
    }

    fn poll(&self, waker: &Waker) -> Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)];
        fds.extend(self.acceptor.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.clients.iter().map(|c| {
            let out = if c.out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(c.stream.as_fd(), PollFlags::IN | out)
        }));
        let now = Instant::now();
        let first = self.parked.iter().map(|p| p.deadline.saturating_duration_since(now)).min();
        // Pending handshakes are checked again for their own time limit.
        socket::poll(&mut fds, first.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1)))
    }

    fn serve(&mut self, at: usize) {
        loop {
            let c = &mut self.clients[at];
            let request = match c.parser.next() {
                Ok(None) => return,
                Ok(Some(f)) if f.kind == Type::Request => decode_request(&f.payload),
                _ => None,
            };
            let Some((id, wait_ms, request)) = request else {
                // A request that does not parse has no reply: its connection is closed.
                c.gone = true;
                return;
            };
            let deadline = Instant::now() + Duration::from_millis(wait_ms.min(7 * 86_400_000));
            if let Some(reply) = self.handle(at, id, deadline, request) {
                self.clients[at].reply(id, &reply);
            }
        }
    }

    fn handle(&mut self, at: usize, id: u64, deadline: Instant, request: Request) -> Option<Reply> {
        let client = self.clients[at].number;
        let mut park = |until| {
            self.parked.push(Parked { client, id, deadline, until });
            None
        };
        match request {
            Request::Set { key, value } => Some(self.put(key, value).unwrap_or(Reply::Done)),
            Request::Get { key } => match self.values.get(&key) {
                Some(v) => Some(Reply::Value(v.clone())),
                None => park(Until::Value(key)),
            },
            Request::Peek { key } => Some(self.values.get(&key).map_or(Reply::Nothing, |v| Reply::Value(v.clone()))),
            Request::Add { key, delta } => {
                let old = match self.values.get(&key) {
                    None => 0,
                    Some(v) => match v.as_slice().try_into() {
                        Ok(b) => i64::from_le_bytes(b),
                        Err(_) => return Some(Reply::Refused("add: the value is not a number".into())),
                    },
                };
                let new = old.wrapping_add(delta);
                Some(self.put(key, new.to_le_bytes().to_vec()).unwrap_or(Reply::Number(new)))
            }
            Request::Swap { key, old, new } => {
                let found = self.values.get(&key);
                if found.map(Vec::as_slice) == old.as_deref() {
                    let answer = new.clone();
                    return Some(self.put(key, new).unwrap_or(Reply::Value(answer)));
                }
                Some(found.map_or(Reply::Nothing, |v| Reply::Value(v.clone())))
            }
            Request::Wait { keys } => {
                if keys.iter().all(|k| self.values.contains_key(k)) {
                    return Some(Reply::Done);
                }
                park(Until::Keys(keys))
            }
            Request::Delete { key } => Some(match self.values.remove(&key) {
                Some(v) => {
                    self.total -= key.len() + v.len();
                    Reply::Number(1)
                }
                None => Reply::Number(0),
            }),
            Request::Barrier { name, world } => self.barrier(client, id, deadline, name, world),
        }
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Option<Reply> {
        let old = self.values.get(&key).map_or(0, |v| key.len() + v.len());
        let total = self.total - old + key.len() + value.len();
        if total > MAX_TOTAL {
            return Some(Reply::Refused(format!("the store is full ({MAX_TOTAL} bytes)")));
        }
        self.total = total;
        let fresh = self.values.insert(key.clone(), value).is_none();
        if fresh {
            self.wake(&key);
        }
        None
    }

    /// Answers the requests that wait for `key`.
    fn wake(&mut self, key: &[u8]) {
        let mut at = 0;
        while at < self.parked.len() {
            let reply = match &self.parked[at].until {
                Until::Value(k) if k == key => self.values.get(k).map(|v| Reply::Value(v.clone())),
                Until::Keys(ks) if ks.iter().any(|k| k == key) && ks.iter().all(|k| self.values.contains_key(k)) => {
                    Some(Reply::Done)
                }
                _ => None,
            };
            match reply {
                Some(reply) => self.release(at, &reply),
                None => at += 1,
            }
        }
    }

    fn release(&mut self, at: usize, reply: &Reply) {
        let p = self.parked.swap_remove(at);
        if let Some(c) = self.clients.iter_mut().find(|c| c.number == p.client) {
            c.reply(p.id, reply);
        }
    }

    fn barrier(&mut self, client: u64, id: u64, deadline: Instant, name: Vec<u8>, world: u32) -> Option<Reply> {
        let same = |p: &Parked| matches!(&p.until, Until::Barrier(n, _) if *n == name);
        let there = self.parked.iter().filter(|p| same(p)).count() as u32;
        let others = self.parked.iter().find_map(|p| match &p.until {
            Until::Barrier(n, w) if *n == name && *w != world => Some(*w),
            _ => None,
        });
        if let Some(others) = others {
            return Some(Reply::Refused(format!("barrier of {world} clients, but others wait for {others}")));
        }
        if there + 1 < world {
            self.parked.push(Parked { client, id, deadline, until: Until::Barrier(name, world) });
            return None;
        }
        while let Some(at) = self.parked.iter().position(same) {
            self.release(at, &Reply::Done);
        }
        Some(Reply::Done)
    }

    fn expire(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.parked.iter().position(|p| p.deadline <= now) {
            self.release(at, &Reply::Late);
        }
    }
}
