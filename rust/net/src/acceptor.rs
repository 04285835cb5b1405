//! A listener and the handshakes in progress. An unauthenticated connection uses a few hundred bytes, is served without
//! blocking, and is dropped after `GRACE`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hmac::Mac as _;

use crate::error::{Error, Result};
use crate::fork;
use crate::handshake::{check, ClientHello, Identity, ANSWER, CHALLENGE, HELLO, MAGIC, REASONS, VERSION};
use crate::mac::Seal;
use crate::socket::{self, moved, Moved};
use crate::token_file::{self, TokenFile};

const GRACE: Duration = Duration::from_secs(5);
const MAX_PENDING: usize = 256;
const BETWEEN_REFUSALS: Duration = Duration::from_secs(10);

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
    In(ClientHello, Box<Seal>),
}

impl Pending {
    /// `listener` is the number of the listener's own token, 0 if it has the job's.
    fn new(stream: TcpStream, listener: u64) -> Result<Pending> {
        socket::tune(&stream).map_err(|e| Error::io("accept", e))?;
        let mut challenge = [0; CHALLENGE];
        challenge[0..4].copy_from_slice(&MAGIC);
        challenge[4..6].copy_from_slice(&VERSION.to_le_bytes());
        challenge[8..16].copy_from_slice(&listener.to_le_bytes());
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
            let proof = id.proof(&self.challenge, &self.hello, &answer).finalize().into_bytes();
            answer[8..].copy_from_slice(&proof);
        }
        match ((&self.stream).write(&answer), checked) {
            (Ok(ANSWER), Ok(hello)) => Turn::In(hello, Box::new(id.seal(true, &self.challenge, &self.hello, &answer))),
            (_, Err(code)) => Turn::Refused(code),
            _ => Turn::Drop,
        }
    }
}

fn out_of_descriptors(e: &std::io::Error) -> bool {
    let known = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    rustix::io::Errno::from_io_error(e).is_some_and(|e| known.contains(&e))
}

/// A connection that has passed the handshake.
pub struct Accepted {
    pub stream: TcpStream,
    pub hello: ClientHello,
    pub seal: Seal,
}

/// A listener, with the handshakes in progress.
pub struct Acceptor {
    listener: TcpListener,
    id: Arc<Identity>,
    /// The listener's own token, if the job has none.
    own: Option<TokenFile>,
    pending: Vec<Pending>,
    /// Time of the last reported refusal.
    last_reported: Option<Instant>,
}

impl Acceptor {
    /// Without a token of the job the listener makes one of its own.
    pub fn new(listener: TcpListener, mut id: Arc<Identity>) -> Result<Acceptor> {
        let mut own = None;
        if id.token.is_empty() {
            let at = listener.local_addr().map_err(|e| Error::io("a listener's address", e))?;
            if !at.ip().is_loopback() {
                let _ = writeln!(
                    std::io::stderr(),
                    "oar: {at} accepts processes of this user on this host only; for several hosts {}",
                    token_file::HOW
                );
            }
            let file = TokenFile::create(at.port())?;
            id = Arc::new(Identity { token: file.token.clone(), ..(*id).clone() });
            own = Some(file);
        }
        Ok(Acceptor { listener, id, own, pending: Vec::new(), last_reported: None })
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
    pub fn turn(&mut self) -> Vec<Accepted> {
        self.own.iter_mut().for_each(TokenFile::refresh);
        let listener = self.own.as_ref().map_or(0, |own| own.number);
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
            self.pending.extend(Pending::new(stream, listener));
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
                Turn::In(hello, seal) => {
                    passed.push(Accepted { stream: self.pending.remove(at).stream, hello, seal: *seal });
                }
            }
        }
        passed
    }
}
