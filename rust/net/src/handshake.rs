//! The handshake at the start of every connection.
//!
//! The acceptor sends a challenge; the connector answers with its identity and an HMAC-SHA256 over both, keyed with the
//! job's token; the acceptor proves the token in turn. All three messages have a fixed size. An unauthenticated
//! connection uses a few hundred bytes, is served without blocking, and is dropped after `GRACE`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::fork;
use crate::socket::{self, moved, Deadline, Moved};

pub const VERSION: u16 = 1;
/// Features of this side; a connection uses the intersection. None is defined yet.
pub const FEATURES: u32 = 0;
const MAGIC: [u8; 4] = *b"OARH";
const CHALLENGE: usize = 32;
const HELLO: usize = 128;
const ANSWER: usize = 40;
const MAC_AT: usize = HELLO - 32;
const GRACE: Duration = Duration::from_secs(5);
const MAX_PENDING: usize = 256;
const BETWEEN_REFUSALS: Duration = Duration::from_secs(10);

/// Rank of a client without a rank, such as a launcher.
pub const NO_RANK: u32 = u32::MAX;

/// A process's identity, and the secret that proves its membership in the job.
#[derive(Clone)]
pub struct Identity {
    pub job: [u8; 16],
    pub token: Vec<u8>,
    /// 0 if the number of ranks is unknown (a store's host or client).
    pub world: u32,
    pub rank: u32,
}

impl Identity {
    pub fn new(job: &str, token: &[u8], world: u32, rank: u32) -> Identity {
        let mut id = [0; 16];
        id.copy_from_slice(&Sha256::digest(job.as_bytes())[..16]);
        Identity { job: id, token: token.to_vec(), world, rank }
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        #[allow(clippy::expect_used)] // HMAC takes keys of every length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.token).expect("HMAC takes any key");
        parts.iter().for_each(|p| mac.update(p));
        mac
    }
}

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    Store = 1,
    Control = 2,
    Data = 3,
    /// A trainer's connection to a parameter server.
    Server = 4,
}

const PURPOSES: [Purpose; 4] = [Purpose::Store, Purpose::Control, Purpose::Data, Purpose::Server];

/// The connector's identity and purpose, as received.
#[derive(Clone, Copy, Debug)]
pub struct ClientHello {
    pub purpose: Purpose,
    pub rank: u32,
    pub group: u64,
    pub features: u32,
}

const REASONS: [&str; 5] = [
    "accepted",
    "the token or the job differs",
    "the protocol version differs",
    "the number of ranks differs",
    "no such rank or purpose",
];

fn encode(id: &Identity, purpose: Purpose, group: u64, challenge: &[u8; CHALLENGE]) -> Result<[u8; HELLO]> {
    let mut b = [0; HELLO];
    b[0..4].copy_from_slice(&MAGIC);
    b[4..6].copy_from_slice(&VERSION.to_le_bytes());
    b[6] = purpose as u8;
    b[8..12].copy_from_slice(&FEATURES.to_le_bytes());
    b[12..16].copy_from_slice(&id.world.to_le_bytes());
    b[16..20].copy_from_slice(&id.rank.to_le_bytes());
    b[24..32].copy_from_slice(&group.to_le_bytes());
    b[32..48].copy_from_slice(&id.job);
    b[48..64].copy_from_slice(&socket::random_bytes::<16>()?);
    let mac = id.mac(&[b"oar connect", challenge, &b[..MAC_AT]]).finalize().into_bytes();
    b[MAC_AT..].copy_from_slice(&mac);
    Ok(b)
}

fn check(id: &Identity, b: &[u8; HELLO], challenge: &[u8; CHALLENGE]) -> std::result::Result<ClientHello, u8> {
    let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    if b[0..4] != MAGIC {
        return Err(1);
    }
    if u16::from_le_bytes([b[4], b[5]]) != VERSION {
        return Err(2);
    }
    if id.mac(&[b"oar connect", challenge, &b[..MAC_AT]]).verify_slice(&b[MAC_AT..]).is_err() || b[32..48] != id.job {
        return Err(1);
    }
    let (world, rank) = (word(12), word(16));
    if id.world != 0 && world != 0 && id.world != world {
        return Err(3);
    }
    let purpose = PURPOSES.into_iter().find(|p| *p as u8 == b[6]).ok_or(4)?;
    let member = matches!(purpose, Purpose::Control | Purpose::Data);
    if member && (rank >= id.world || rank == id.rank) {
        return Err(4);
    }
    let group = u64::from(word(24)) | u64::from(word(28)) << 32;
    Ok(ClientHello { purpose, rank, group, features: word(8) & FEATURES })
}

/// Connects and authenticates. Lost connections are retried; a refusal is final.
pub fn connect(
    to: SocketAddr,
    id: &Identity,
    purpose: Purpose,
    group: u64,
    deadline: &Deadline<'_>,
) -> Result<TcpStream> {
    let mut backoff = socket::Backoff::default();
    loop {
        let stream = socket::connect(to, deadline)?;
        match authenticate(&stream, to, id, purpose, group, deadline)? {
            Ok(()) => return Ok(stream),
            Err(why) => socket::pause(backoff.pause(), deadline, "connecting", &format!("{to} (last attempt: {why})"))?,
        }
    }
}

fn authenticate(
    s: &TcpStream,
    to: SocketAddr,
    id: &Identity,
    purpose: Purpose,
    group: u64,
    deadline: &Deadline<'_>,
) -> Result<std::result::Result<(), String>> {
    let during = format!("the handshake with {to}");
    let refused = |reason: &str| Error::Refused { address: to.to_string(), reason: reason.to_string() };
    let mut challenge = [0; CHALLENGE];
    if let Err(why) = socket::read_exact(s, &mut challenge, deadline, &during)? {
        return Ok(Err(why));
    }
    if challenge[0..4] != MAGIC {
        return Err(refused("the process that listens there uses another protocol"));
    }
    if u16::from_le_bytes([challenge[4], challenge[5]]) != VERSION {
        return Err(refused(REASONS[2]));
    }
    let hello = encode(id, purpose, group, &challenge)?;
    let mut answer = [0; ANSWER];
    if let Err(why) = socket::write_all(s, &hello, deadline, &during)? {
        return Ok(Err(why));
    }
    if let Err(why) = socket::read_exact(s, &mut answer, deadline, &during)? {
        return Ok(Err(why));
    }
    let code = answer[4];
    if code != 0 {
        return Err(refused(REASONS.get(code as usize).copied().unwrap_or("for an unknown reason")));
    }
    let proof = id.mac(&[b"oar accept", &challenge, &hello, &answer[..8]]);
    if answer[0..4] != MAGIC || proof.verify_slice(&answer[8..]).is_err() {
        return Err(refused("it could not prove that it knows the job's token"));
    }
    Ok(Ok(()))
}

struct Pending {
    stream: TcpStream,
    since: Instant,
    challenge: [u8; CHALLENGE],
    hello: [u8; HELLO],
    got: usize,
}

enum Turn {
    Wait,
    Drop,
    /// The client identified itself and was refused.
    Refused(u8),
    In(ClientHello),
}

impl Pending {
    fn new(stream: TcpStream) -> Result<Pending> {
        socket::tune(&stream).map_err(|e| Error::io("accept", e))?;
        let mut challenge = [0; CHALLENGE];
        challenge[0..4].copy_from_slice(&MAGIC);
        challenge[4..6].copy_from_slice(&VERSION.to_le_bytes());
        challenge[16..].copy_from_slice(&socket::random_bytes::<16>()?);
        // An empty socket buffer accepts 32 bytes; otherwise the peer is not valid.
        match (&stream).write(&challenge) {
            Ok(CHALLENGE) => Ok(Pending { stream, since: Instant::now(), challenge, hello: [0; HELLO], got: 0 }),
            _ => Err(Error::io("accept", "the challenge could not be sent")),
        }
    }

    fn turn(&mut self, id: &Identity) -> Turn {
        while self.got < HELLO {
            match moved((&self.stream).read(&mut self.hello[self.got..])) {
                Moved::Some(n) => self.got += n,
                Moved::Ended(_) => return Turn::Drop,
                Moved::Blocked if self.since.elapsed() > GRACE => return Turn::Drop,
                Moved::Blocked => return Turn::Wait,
            }
        }
        let checked = check(id, &self.hello, &self.challenge);
        let mut answer = [0; ANSWER];
        answer[0..4].copy_from_slice(&MAGIC);
        answer[4] = *checked.as_ref().err().unwrap_or(&0);
        if checked.is_ok() {
            let proof = id.mac(&[b"oar accept", &self.challenge, &self.hello, &answer[..8]]).finalize().into_bytes();
            answer[8..].copy_from_slice(&proof);
        }
        match ((&self.stream).write(&answer), checked) {
            (Ok(ANSWER), Ok(hello)) => Turn::In(hello),
            (_, Err(code)) => Turn::Refused(code),
            _ => Turn::Drop,
        }
    }
}

fn out_of_descriptors(e: &std::io::Error) -> bool {
    let known = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    rustix::io::Errno::from_io_error(e).is_some_and(|e| known.contains(&e))
}

/// A listener, with the handshakes in progress.
pub struct Acceptor {
    listener: TcpListener,
    id: Arc<Identity>,
    pending: Vec<Pending>,
    /// Time of the last reported refusal.
    last_reported: Option<Instant>,
}

impl Acceptor {
    pub fn new(listener: TcpListener, id: Arc<Identity>) -> Acceptor {
        Acceptor { listener, id, pending: Vec::new(), last_reported: None }
    }

    /// Descriptors to poll for reading before `turn`.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.pending.iter().map(|p| p.stream.as_fd()))
    }

    /// Memory in bytes that unauthenticated connections use.
    pub fn cost(&self) -> usize {
        self.pending.capacity() * std::mem::size_of::<Pending>()
    }

    /// Reports a refused connection on stderr, for a user whose processes belong to two jobs (the other process gets an
    /// error). Rate-limited, so that unknown clients cannot fill logs.
    fn report_refusal(&mut self, stream: &TcpStream, code: u8) {
        if self.last_reported.is_some_and(|last| last.elapsed() < BETWEEN_REFUSALS) {
            return;
        }
        self.last_reported = Some(Instant::now());
        let from = stream.peer_addr().map_or_else(|_| "a process".to_string(), |a| a.to_string());
        let at = self.listener.local_addr().map_or_else(|_| "this process".to_string(), |a| a.to_string());
        let reason = REASONS.get(code as usize).copied().unwrap_or("for an unknown reason");
        let _ = writeln!(std::io::stderr(), "oar: {at} has refused a connection from {from}: {reason}");
    }

    /// Advances every handshake without blocking; returns the connections that passed.
    pub fn turn(&mut self) -> Vec<(TcpStream, ClientHello)> {
        // A bounded number per turn: unknown clients must not delay others.
        for _ in 0..64 {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // Out of descriptors: the oldest unauthenticated connection is dropped.
                Err(e) if out_of_descriptors(&e) && !self.pending.is_empty() => {
                    self.pending.remove(0);
                    continue;
                }
                Err(_) => break,
            };
            fork::close_on_fork(&stream);
            // The oldest silent connection is dropped; an honest peer needs one round trip only.
            if self.pending.len() >= MAX_PENDING {
                self.pending.remove(0);
            }
            self.pending.extend(Pending::new(stream));
        }
        let mut passed = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match self.pending[at].turn(&self.id) {
                Turn::Wait => at += 1,
                Turn::Drop => drop(self.pending.remove(at)),
                Turn::Refused(code) => {
                    let stream = self.pending.remove(at).stream;
                    self.report_refusal(&stream, code);
                }
                Turn::In(hello) => passed.push((self.pending.remove(at).stream, hello)),
            }
        }
        passed
    }
}
