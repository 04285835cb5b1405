//! The transport over TCP: one connection per pair of ranks and group, made when first needed, driven by the thread
//! that runs the collective (no reader thread, no hand-over).

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, BYTES};
use crate::frame::{Bad, Header, Type, HEADER, MAX_DATA};
use crate::hello::{self, Purpose};
use crate::net::{self, moved, Moved, Patience};
use crate::state::{GroupState, Shared};
use crate::transport::{Transport, Want};

/// Measured on the loopback: 64 MiB between two ranks take 29 ms in pieces of 1 MiB and 40 ms in pieces of 256 KiB.
const SEGMENT: usize = MAX_DATA;
/// A fingerprint frame and the data header behind it.
const PREFIX: usize = HEADER + BYTES + HEADER;

/// The message that goes out: prefix, then the caller's bytes.
struct Out {
    active: bool,
    prefix: [u8; PREFIX],
    /// The prefix starts here: a message inside an operation has no fingerprint frame.
    from: usize,
    done: usize,
    seq: u64,
    epoch: u64,
}

/// The message that comes in: a fingerprint frame where one is due, a header, then into the caller's buffer.
struct In {
    head: [u8; HEADER + BYTES],
    got: usize,
    header: Option<Header>,
    payload: usize,
    seq: u64,
    epoch: u64,
}

struct Link {
    stream: TcpStream,
    out: Out,
    inn: In,
}

impl Link {
    fn new(stream: TcpStream) -> Link {
        let out = Out { active: false, prefix: [0; PREFIX], from: 0, done: 0, seq: 0, epoch: 0 };
        let inn = In { head: [0; HEADER + BYTES], got: 0, header: None, payload: 0, seq: 0, epoch: 0 };
        Link { stream, out, inn }
    }
}

/// What went wrong on a link, before it is told with names.
enum Fault {
    Bad(Bad),
    Lost(String),
    Differs(Box<Fingerprint>),
}

impl From<Bad> for Fault {
    fn from(b: Bad) -> Fault {
        Fault::Bad(b)
    }
}

impl Link {
    fn send(&mut self, doing: &Fingerprint, epoch: u64, bytes: &[u8]) -> std::result::Result<bool, Fault> {
        let o = &mut self.out;
        if !o.active {
            o.from = HEADER + BYTES;
            if o.epoch != epoch {
                o.epoch = epoch;
                o.from = 0;
                o.prefix[..HEADER].copy_from_slice(&Header::for_payload(Type::Begin, o.seq, &doing.0).encode());
                o.prefix[HEADER..HEADER + BYTES].copy_from_slice(&doing.0);
                o.seq += 1;
            }
            o.prefix[HEADER + BYTES..].copy_from_slice(&Header::for_payload(Type::Data, o.seq, bytes).encode());
            o.seq += 1;
            o.done = 0;
            o.active = true;
        }
        let prefix = &o.prefix[o.from..];
        let total = prefix.len() + bytes.len();
        while o.done < total {
            let result = if o.done < prefix.len() {
                // Not writev, which would raise SIGPIPE where the host program does not ignore it.
                let parts = [IoSlice::new(&prefix[o.done..]), IoSlice::new(bytes)];
                let (mut none, flags) = (SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
                rustix::net::sendmsg(&self.stream, &parts, &mut none, flags).map_err(std::io::Error::from)
            } else {
                (&self.stream).write(&bytes[o.done - prefix.len()..])
            };
            match moved(result) {
                Moved::Some(n) => o.done += n,
                Moved::Blocked => return Ok(false),
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            }
        }
        o.active = false;
        Ok(true)
    }

    /// Fill the head up to `want`; false when the socket is dry.
    fn head(&mut self, want: usize) -> std::result::Result<bool, Fault> {
        while self.inn.got < want {
            match moved((&self.stream).read(&mut self.inn.head[self.inn.got..want])) {
                Moved::Some(n) => self.inn.got += n,
                Moved::Blocked => return Ok(false),
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            }
        }
        Ok(true)
    }

    fn recv(&mut self, doing: &Fingerprint, epoch: u64, into: &mut [u8]) -> std::result::Result<bool, Fault> {
        if self.inn.epoch != epoch {
            if !self.head(HEADER + BYTES)? {
                return Ok(false);
            }
            self.begin(doing)?;
            self.inn.epoch = epoch;
        }
        while self.inn.header.is_none() {
            // Header and payload in one call: the buffer is exactly what the frame may hold.
            let (got, want) = (self.inn.got, HEADER);
            let result = {
                let mut slices = [IoSliceMut::new(&mut self.inn.head[got..want]), IoSliceMut::new(into)];
                (&self.stream).read_vectored(&mut slices)
            };
            match moved(result) {
                Moved::Some(n) => {
                    let head = n.min(want - got);
                    self.inn.got += head;
                    self.inn.payload = n - head;
                }
                Moved::Blocked => return Ok(false),
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            }
            if self.inn.got == want {
                self.data_header(into.len())?;
            }
        }
        while self.inn.payload < into.len() {
            match moved((&self.stream).read(&mut into[self.inn.payload..])) {
                Moved::Some(n) => self.inn.payload += n,
                Moved::Blocked => return Ok(false),
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            }
        }
        if let Some(h) = self.inn.header.take() {
            h.check(into)?;
        }
        self.inn.got = 0;
        self.inn.payload = 0;
        Ok(true)
    }

    fn begin(&mut self, doing: &Fingerprint) -> std::result::Result<(), Fault> {
        let mut head = [0; HEADER];
        head.copy_from_slice(&self.inn.head[..HEADER]);
        let h = Header::decode(&head, MAX_DATA, self.inn.seq)?;
        if h.kind != Type::Begin {
            return Err(Bad::Unexpected(h.kind).into());
        }
        if h.len as usize != BYTES {
            return Err(Bad::Length { found: h.len as usize, expected: BYTES }.into());
        }
        let body = &self.inn.head[HEADER..];
        h.check(body)?;
        self.inn.seq += 1;
        self.inn.got = 0;
        match Fingerprint::from_slice(body) {
            Some(f) if f == *doing => Ok(()),
            Some(f) => Err(Fault::Differs(Box::new(f))),
            None => Err(Bad::Header.into()),
        }
    }

    fn data_header(&mut self, expected: usize) -> std::result::Result<(), Fault> {
        let mut head = [0; HEADER];
        head.copy_from_slice(&self.inn.head[..HEADER]);
        let h = Header::decode(&head, MAX_DATA, self.inn.seq)?;
        if h.kind != Type::Data {
            return Err(Bad::Unexpected(h.kind).into());
        }
        if h.len as usize != expected {
            return Err(Bad::Length { found: h.len as usize, expected }.into());
        }
        self.inn.seq += 1;
        self.inn.header = Some(h);
        Ok(())
    }
}

pub struct TcpTransport {
    shared: Arc<Shared>,
    group: Arc<GroupState>,
    links: Vec<Option<Link>>,
    me: usize,
    doing: Fingerprint,
    epoch: u64,
    until: Instant,
}

impl TcpTransport {
    pub fn new(shared: Arc<Shared>, group: Arc<GroupState>, me: usize) -> TcpTransport {
        let links = group.ranks.iter().map(|_| None).collect();
        TcpTransport { shared, group, links, me, doing: Fingerprint::NONE, epoch: 0, until: Instant::now() }
    }

    /// The connection to `peer`: the lower rank dials, the higher one waits for the call. `None`: not there yet.
    fn link(&mut self, peer: usize) -> Result<Option<&mut Link>> {
        if self.links[peer].is_none() {
            let rank = self.group.ranks[peer];
            let stream = if self.me < peer {
                let stop = || match self.shared.failure().or_else(|| self.group.failure()) {
                    Some(e) => Err(e.during(&self.doing.to_string())),
                    None if self.shared.has_left(rank) => Err(self.left(rank)),
                    None if self.shared.interrupted.load(std::sync::atomic::Ordering::Acquire) => {
                        Err(Error::Interrupted { during: self.doing.to_string() })
                    }
                    None => Ok(()),
                };
                let patience = Patience::new(self.until.saturating_duration_since(Instant::now()), &stop);
                let to = self.shared.address(rank);
                let made = hello::connect(to, &self.shared.identity, Purpose::Data, self.group.id, &patience);
                let s = made.map_err(|e| match e {
                    Error::Timeout { waited, waiting_for, .. } => Error::Timeout {
                        waited,
                        during: self.doing.to_string(),
                        waiting_for: format!("a connection to {} at {waiting_for}", self.shared.peer(rank)),
                    },
                    e => e,
                })?;
                net::enlarge(&s);
                Some(s)
            } else {
                self.shared.arrivals.lock().remove(&(self.group.id, rank))
            };
            match stream {
                Some(s) => self.links[peer] = Some(Link::new(s)),
                None if self.shared.has_left(rank) => return Err(self.left(rank)),
                None => return Ok(None),
            }
        }
        Ok(self.links[peer].as_mut())
    }

    fn left(&self, rank: usize) -> Error {
        self.group.left(&self.shared, rank, &self.doing)
    }

    fn tell(&self, peer: usize, fault: Fault) -> Error {
        let rank = self.group.ranks[peer];
        let (who, during) = (self.shared.peer(rank), self.doing.to_string());
        match fault {
            Fault::Bad(bad) => Error::Corrupt { peer: who, what: bad.to_string(), during },
            Fault::Lost(what) => Error::Lost { peer: who, what, during },
            Fault::Differs(theirs) => Error::Mismatch {
                a: self.shared.peer(self.shared.rank),
                a_call: during,
                b: who,
                b_call: theirs.to_string(),
            },
        }
    }
}

impl Transport for TcpTransport {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn segment(&self) -> usize {
        SEGMENT
    }

    fn begin(&mut self, doing: &Fingerprint, limit: Duration) {
        self.doing = *doing;
        let now = Instant::now();
        self.until = now.checked_add(limit).unwrap_or(now + Duration::from_secs(86_400));
        self.epoch += 1;
    }

    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        let (doing, epoch) = (self.doing, self.epoch);
        let Some(link) = self.link(to)? else { return Ok(false) };
        let sent = link.send(&doing, epoch, bytes);
        sent.map_err(|fault| self.tell(to, fault))
    }

    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool> {
        let (doing, epoch) = (self.doing, self.epoch);
        let Some(link) = self.link(from)? else { return Ok(false) };
        let got = link.recv(&doing, epoch, into);
        got.map_err(|fault| self.tell(from, fault))
    }

    fn wait(&mut self, wants: &[Want], limit: Duration) -> Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.group.bell.fd(), PollFlags::IN)];
        for w in wants {
            if let Some(link) = &self.links[w.peer] {
                let flag = if w.send { PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::from_borrowed_fd(link.stream.as_fd(), flag));
            }
        }
        net::poll(&mut fds, limit)?;
        self.group.bell.silence();
        Ok(())
    }
}
