//! The transport over TCP: one connection per pair of ranks and group, made on first use and driven by the thread that
//! runs the collective (no reader thread).

use std::io::{IoSlice, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SendAncillaryBuffer;

use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, BYTES};
use crate::frame::{Bad, Header, Type, HEADER, MAX_DATA};
use crate::handshake::{self, Purpose};
use crate::mac::{Ahead, Digest, Hash, Seal, TAG};
use crate::shm::stream;
use crate::socket::{self, moved, Deadline, Moved};
use crate::state::{GroupState, Shared};
use crate::transport::{Interest, Transport};

/// Large buffers are sent in messages of this size. System calls cost acknowledgements and wake-ups in addition to the
/// bytes: with 256 KiB the loopback takes a third more CPU time.
const SEGMENT: usize = 1 << 20;
/// Bytes per authentication code: a frame is checked, reduced or copied while the second-level cache holds it.
const FRAME: usize = MAX_DATA;
/// A fingerprint frame, then alternating headers and payloads.
const PARTS: usize = 1 + 2 * SEGMENT / FRAME;
const LINE: usize = 64;
/// Header and authentication code.
const HEAD: usize = HEADER + TAG;

/// The outgoing message.
struct Out {
    mac: Ahead,
    active: bool,
    /// The fingerprint frame of a new operation.
    begin: [u8; HEAD + BYTES],
    /// Start within `begin`: only the first message of an operation has a fingerprint.
    from: usize,
    headers: Vec<[u8; HEAD]>,
    /// Bytes sent so far, over all parts.
    done: usize,
    seq: u64,
    epoch: u64,
}

/// The incoming message.
struct In {
    mac: Ahead,
    /// The fingerprint frame of a new operation.
    begin: [u8; HEAD + BYTES],
    /// Bytes received so far: of the fingerprint frame, then of all parts after it.
    got: usize,
    heads: [[u8; HEAD]; SEGMENT / FRAME],
    /// Payloads are received here first: the kernel writes to cached memory, and data is checked before it reaches the
    /// caller.
    window: Vec<u8>,
    /// Number of frames delivered.
    taken: usize,
    /// Digests of the delivered frames.
    digests: Vec<Digest>,
    seq: u64,
    epoch: u64,
}

struct Link {
    stream: TcpStream,
    out: Out,
    inn: In,
}

impl Link {
    fn new(stream: TcpStream, seal: Seal, hash: &Arc<Hash>) -> Link {
        let begin = [0; HEAD + BYTES];
        let mac = Ahead::new(seal.out.over(hash));
        let out = Out { mac, active: false, begin, from: 0, headers: Vec::new(), done: 0, seq: 0, epoch: 0 };
        let (mac, heads, window) = (Ahead::new(seal.incoming.over(hash)), [[0; HEAD]; SEGMENT / FRAME], Vec::new());
        let inn = In { mac, begin, got: 0, heads, window, taken: 0, digests: Vec::new(), seq: 0, epoch: 0 };
        Link { stream, out, inn }
    }
}

impl Out {
    /// The next frame's header and code.
    fn head(&mut self, kind: Type, payload: &[u8], digest: Digest) -> [u8; HEAD] {
        let header = Header::with_crc(kind, self.seq, payload, 0).encode();
        let mut head = [0; HEAD];
        head[..HEADER].copy_from_slice(&header);
        head[HEADER..].copy_from_slice(&self.mac.tag(self.seq, &header, digest));
        self.seq += 1;
        head
    }
}

/// A failure of a link, before peer and operation are known.
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
    /// Sends a message; `digests` are those of its frames, as far as they are known.
    fn send(
        &mut self,
        doing: &Fingerprint,
        epoch: u64,
        hash: &Hash,
        bytes: &[u8],
        digests: &[Digest],
    ) -> std::result::Result<bool, Fault> {
        let o = &mut self.out;
        if !o.active {
            o.from = HEAD + BYTES;
            if o.epoch != epoch {
                o.epoch = epoch;
                o.from = 0;
                let head = o.head(Type::Begin, &doing.0, hash.digest(&doing.0));
                o.begin[..HEAD].copy_from_slice(&head);
                o.begin[HEAD..].copy_from_slice(&doing.0);
            }
            o.headers.clear();
            for (at, piece) in frames(bytes).enumerate() {
                let digest = digests.get(at).copied().unwrap_or_else(|| hash.digest(piece));
                let head = o.head(Type::Data, piece, digest);
                o.headers.push(head);
            }
            o.done = 0;
            o.active = true;
        }
        let begin = &o.begin[o.from..];
        let total = begin.len() + o.headers.len() * HEAD + bytes.len();
        while o.done < total {
            let mut parts = [IoSlice::new(&[]); PARTS];
            let (mut skip, mut n) = (o.done, 0);
            let heads = o.headers.iter().map(|h| &h[..]);
            let all = std::iter::once(begin).chain(heads.zip(frames(bytes)).flat_map(|(h, p)| [h, p]));
            for part in all {
                if skip < part.len() {
                    parts[n] = IoSlice::new(&part[skip..]);
                    n += 1;
                }
                skip = skip.saturating_sub(part.len());
            }
            // sendmsg and not writev, which raises SIGPIPE unless the host program ignores it.
            let mut none = SendAncillaryBuffer::default();
            let result = rustix::net::sendmsg(&self.stream, &parts[..n], &mut none, crate::os::SEND_FLAGS);
            match moved(result.map_err(std::io::Error::from)) {
                Moved::Some(n) => o.done += n,
                Moved::Blocked => return Ok(false),
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            }
        }
        o.active = false;
        o.mac.prepare(o.seq);
        Ok(true)
    }

    /// Receives a message of `len` bytes and passes its pieces to `take`, with the offset of each.
    fn recv(
        &mut self,
        doing: &Fingerprint,
        epoch: u64,
        hash: &Hash,
        len: usize,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> std::result::Result<bool, Fault> {
        if self.inn.epoch != epoch {
            while self.inn.got < HEAD + BYTES {
                match moved((&self.stream).read(&mut self.inn.begin[self.inn.got..])) {
                    Moved::Some(n) => self.inn.got += n,
                    Moved::Blocked => {
                        let seq = self.inn.seq;
                        self.inn.mac.prepare(seq);
                        return Ok(false);
                    }
                    Moved::Ended(why) => return Err(Fault::Lost(why)),
                }
            }
            self.inn.begin(doing, hash)?;
            self.inn.epoch = epoch;
        }
        let inn = &mut self.inn;
        if inn.window.len() < len + LINE {
            inn.window.resize(len + LINE, 0);
        }
        let from = inn.window.as_ptr().align_offset(LINE).min(LINE);
        let window = &mut inn.window[from..from + len];
        let frames = len.div_ceil(FRAME).max(1);
        let total = frames * HEAD + len;
        let end = |frame: usize| (frame + 1) * HEAD + len.min((frame + 1) * FRAME);
        loop {
            let wanted = total - inn.got;
            // The rest of this message, and no bytes of the next.
            let mut parts: [_; PARTS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
            let (mut skip, mut n) = (inn.got, 0);
            let mut pieces = window.chunks_mut(FRAME);
            for head in &mut inn.heads[..frames] {
                for part in [&mut head[..], pieces.next().unwrap_or_default()] {
                    let size = part.len();
                    if skip < size {
                        parts[n] = IoSliceMut::new(&mut part[skip..]);
                        n += 1;
                    }
                    skip = skip.saturating_sub(size);
                }
            }
            let now = match moved((&self.stream).read_vectored(&mut parts[..n])) {
                Moved::Some(now) => now,
                Moved::Blocked => {
                    inn.mac.prepare(inn.seq);
                    return Ok(false);
                }
                Moved::Ended(why) => return Err(Fault::Lost(why)),
            };
            inn.got += now;
            // A header is checked on arrival: a wrong length is reported before its bytes are waited for.
            while inn.taken < frames {
                let at = inn.taken * FRAME;
                let piece = &window[at..len.min(at + FRAME)];
                if inn.got < end(inn.taken) - piece.len() {
                    break;
                }
                let (header, tag) = split(&inn.heads[inn.taken])?;
                data_header(header, inn.seq, piece.len())?;
                if inn.got < end(inn.taken) {
                    break;
                }
                let digest = hash.digest(piece);
                if !inn.mac.verify(inn.seq, header, digest, tag) {
                    return Err(Bad::Tag(inn.seq).into());
                }
                if inn.taken == 0 {
                    inn.digests.clear();
                }
                inn.digests.push(digest);
                take(at, piece);
                inn.seq += 1;
                inn.taken += 1;
            }
            if inn.got == total {
                (inn.got, inn.taken) = (0, 0);
                return Ok(true);
            }
            // Fewer bytes than requested: no more are available.
            if now < wanted {
                return Ok(false);
            }
        }
    }
}

impl In {
    /// Compares the received fingerprint with that of the operation in progress.
    fn begin(&mut self, doing: &Fingerprint, hash: &Hash) -> std::result::Result<(), Fault> {
        let (head, body) = self.begin.split_first_chunk::<HEAD>().ok_or(Bad::Header)?;
        let (header, tag) = split(head)?;
        let h = Header::decode(header, MAX_DATA, self.seq)?;
        if h.kind != Type::Begin {
            return Err(Bad::Unexpected(h.kind).into());
        }
        if h.len as usize != BYTES {
            return Err(Bad::Length { found: h.len as usize, expected: BYTES }.into());
        }
        if !self.mac.verify(self.seq, header, hash.digest(body), tag) {
            return Err(Bad::Tag(self.seq).into());
        }
        self.seq += 1;
        self.got = 0;
        match Fingerprint::from_slice(body) {
            Some(f) if f == *doing => Ok(()),
            Some(f) => Err(Fault::Differs(Box::new(f))),
            None => Err(Bad::Header.into()),
        }
    }
}

/// A frame's header and its code.
fn split(head: &[u8; HEAD]) -> std::result::Result<(&[u8; HEADER], &[u8; TAG]), Bad> {
    head.split_first_chunk().and_then(|(header, tag)| Some((header, tag.first_chunk()?))).ok_or(Bad::Header)
}

/// The frames of a message; an empty message is one empty frame.
fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let empty = bytes.is_empty().then_some(bytes);
    empty.into_iter().chain(bytes.chunks(FRAME))
}

fn data_header(head: &[u8; HEADER], seq: u64, expected: usize) -> std::result::Result<(), Fault> {
    let h = Header::decode(head, MAX_DATA, seq)?;
    if h.kind != Type::Data {
        return Err(Bad::Unexpected(h.kind).into());
    }
    if h.len as usize != expected {
        return Err(Bad::Length { found: h.len as usize, expected }.into());
    }
    Ok(())
}

pub struct TcpTransport {
    shared: Arc<Shared>,
    group: Arc<GroupState>,
    links: Vec<Option<Link>>,
    hash: Arc<Hash>,
    me: usize,
    doing: Fingerprint,
    epoch: u64,
    until: Instant,
}

impl TcpTransport {
    pub fn new(shared: Arc<Shared>, group: Arc<GroupState>, me: usize) -> TcpTransport {
        let links = group.ranks.iter().map(|_| None).collect();
        let hash = Arc::new(shared.identity.hash_of_group(group.id));
        TcpTransport { shared, group, links, hash, me, doing: Fingerprint::NONE, epoch: 0, until: Instant::now() }
    }

    /// The connection to `peer`: the lower rank connects, the higher one accepts. `None`: not accepted yet.
    fn link(&mut self, peer: usize) -> Result<Option<&mut Link>> {
        if self.links[peer].is_none() {
            let rank = self.group.ranks[peer];
            let made = if self.me < peer {
                let stop = || match self.shared.failure().or_else(|| self.group.failure()) {
                    Some(e) => Err(e.during(&self.doing.to_string())),
                    None if self.shared.has_left(rank) => Err(self.left(rank)),
                    None if self.shared.interrupted.load(std::sync::atomic::Ordering::Acquire) => {
                        Err(Error::Interrupted { during: self.doing.to_string() })
                    }
                    None => Ok(()),
                };
                let deadline = Deadline::new(self.until.saturating_duration_since(Instant::now()), &stop);
                let to = self.shared.address(rank);
                let made = handshake::connect(to, &self.shared.identity, Purpose::Data, self.group.id, &deadline);
                let s = made.map_err(|e| match e {
                    Error::Timeout { waited, waiting_for, .. } => Error::Timeout {
                        waited,
                        during: self.doing.to_string(),
                        waiting_for: format!("a connection to {} at {waiting_for}", self.shared.peer(rank)),
                    },
                    e => e,
                })?;
                socket::unpace(&s.stream);
                Some((s.stream, s.seal))
            } else {
                self.shared.arrivals.lock().remove(&(self.group.id, rank))
            };
            match made {
                Some((s, seal)) => self.links[peer] = Some(Link::new(s, seal, &self.hash)),
                None if self.shared.has_left(rank) => return Err(self.left(rank)),
                None => return Ok(None),
            }
        }
        Ok(self.links[peer].as_mut())
    }

    fn left(&self, rank: usize) -> Error {
        self.group.left(&self.shared, rank, &self.doing)
    }

    fn error(&self, peer: usize, fault: Fault) -> Error {
        let rank = self.group.ranks[peer];
        let (other, during) = (self.shared.peer(rank), self.doing.to_string());
        match fault {
            Fault::Bad(bad) => Error::Corrupt { peer: other, what: bad.to_string(), during },
            Fault::Lost(what) => Error::Lost { peer: other, what, during },
            Fault::Differs(theirs) => Error::Mismatch {
                a: self.shared.peer(self.shared.rank),
                a_call: during,
                b: other,
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

    fn codes(&self) -> Option<(Arc<Hash>, usize)> {
        Some((self.hash.clone(), FRAME))
    }

    fn digests(&self, from: usize) -> &[Digest] {
        self.links[from].as_ref().map_or(&[], |link| &link.inn.digests)
    }

    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        self.try_forward(to, bytes, &[])
    }

    fn try_forward(&mut self, to: usize, bytes: &[u8], digests: &[Digest]) -> Result<bool> {
        let (doing, epoch, hash) = (self.doing, self.epoch, self.hash.clone());
        let Some(link) = self.link(to)? else { return Ok(false) };
        let sent = link.send(&doing, epoch, &hash, bytes, digests);
        sent.map_err(|fault| self.error(to, fault))
    }

    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool> {
        let len = into.len();
        self.try_take(from, len, &mut Vec::new(), &mut |at, piece| {
            let to = &mut into[at..at + piece.len()];
            // Large buffers use streaming stores; the cache is left to the frames being received.
            if len >= SEGMENT {
                stream::put(to, piece);
            } else {
                to.copy_from_slice(piece);
            }
        })
    }

    fn try_take(
        &mut self,
        from: usize,
        len: usize,
        _room: &mut Vec<u8>,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool> {
        let (doing, epoch, hash) = (self.doing, self.epoch, self.hash.clone());
        let Some(link) = self.link(from)? else { return Ok(false) };
        let got = link.recv(&doing, epoch, &hash, len, take);
        got.map_err(|fault| self.error(from, fault))
    }

    fn wait(&mut self, interests: &[Interest], limit: Duration) -> Result<()> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.group.waker.fd(), PollFlags::IN)];
        for w in interests {
            if let Some(link) = &self.links[w.peer] {
                let flag = if w.send { PollFlags::OUT } else { PollFlags::IN };
                fds.push(PollFd::from_borrowed_fd(link.stream.as_fd(), flag));
            }
        }
        socket::poll(&mut fds, limit)?;
        self.group.waker.drain();
        Ok(())
    }
}
