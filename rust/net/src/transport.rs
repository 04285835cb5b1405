//! What collectives need from whatever moves the bytes.
//!
//! One trait, so that sockets, shared memory, MPI or NCCL can stand behind the same plans: messages between pairs of
//! ranks, in order per pair, begun and completed without blocking, and one place to wait.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Peer, Result};
use crate::fingerprint::Fingerprint;
use crate::state::{GroupState, Shared};

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub peer: usize,
    /// Room to send (else something to receive).
    pub send: bool,
}

/// Ranks here are ranks of the group. One thread drives a transport at a time.
pub trait Transport: Send {
    fn name(&self) -> &'static str;

    /// The longest message, and so the piece in which large buffers travel.
    fn segment(&self) -> usize;

    /// A new operation: the first message to each peer carries its fingerprint, and the first from each peer is checked.
    /// Whatever the transport does before a message can move (such as connecting) must end within `limit`.
    fn begin(&mut self, doing: &Fingerprint, limit: Duration);

    /// Send a message; `false` asks to come again with the same bytes. At most one message per peer is under way.
    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool>;

    /// Bytes that one checksum covers, where checksums travel with the data and can be passed on; else 0.
    fn checked(&self) -> usize {
        0
    }

    /// The CRC32C of every `checked` bytes of the last message from this rank.
    fn checksums(&self, _from: usize) -> &[u32] {
        &[]
    }

    /// Send a message whose checksums are known: those it came with, or those made while it was cached.
    fn try_forward(&mut self, to: usize, bytes: &[u8], _sums: &[u32]) -> Result<bool> {
        self.try_send(to, bytes)
    }

    /// Receive a message of exactly this length; `false` asks to come again with the same buffer. Only after `true` the
    /// buffer's contents mean anything.
    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool>;

    /// Receive a message of exactly `len` bytes and hand it to `take` in whole, checked pieces, in order and each once,
    /// with the place where it begins; `false` asks to come again. Pieces begin at multiples of 64 bytes. `room` is for
    /// transports that receive nowhere of their own; it is the same one until the message is in.
    fn try_take(
        &mut self,
        from: usize,
        len: usize,
        room: &mut Vec<u8>,
        take: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool> {
        if room.len() < len {
            room.resize(len, 0);
        }
        let whole = self.try_recv(from, &mut room[..len])?;
        if whole {
            take(0, &room[..len]);
        }
        Ok(whole)
    }

    /// Wait until one of `wants` may have come true, at most `limit`; early returns are allowed.
    fn wait(&mut self, interests: &[Interest], limit: Duration) -> Result<()>;
}

/// A group, for a transport that is made for it elsewhere.
pub struct Membership {
    /// The same number on all members, and no other group's.
    pub id: u64,
    pub me: usize,
    /// By group rank: the number of the process in the whole job.
    pub numbers: Vec<usize>,
    shared: Arc<Shared>,
    state: Arc<GroupState>,
}

impl Membership {
    pub(crate) fn new(shared: Arc<Shared>, state: Arc<GroupState>, me: usize) -> Membership {
        let numbers = state.ranks.iter().map(|r| shared.peers[*r].number).collect();
        Membership { id: state.id, me, numbers, shared, state }
    }

    /// A member as errors name it.
    pub fn peer(&self, rank: usize) -> Peer {
        self.shared.peer(self.state.ranks[rank])
    }

    /// The error of waiting for a member that has left in order.
    pub fn left(&self, rank: usize, doing: &Fingerprint) -> Option<Error> {
        let rank = self.state.ranks[rank];
        self.shared.has_left(rank).then(|| self.state.left(&self.shared, rank, doing))
    }

    /// The error of two members that called different things.
    pub fn mismatch(&self, mine: &Fingerprint, rank: usize, theirs: &Fingerprint) -> Error {
        let (a_call, b_call) = (mine.to_string(), theirs.to_string());
        Error::Mismatch { a: self.peer(self.me), a_call, b: self.peer(rank), b_call }
    }
}

/// Makes the transport of a group.
pub type MakeTransport = Arc<dyn Fn(Membership) -> Result<Box<dyn Transport>> + Send + Sync>;

/// The transport of a group of one, which has nobody to send to.
pub struct NoPeers;

impl Transport for NoPeers {
    fn name(&self) -> &'static str {
        "none"
    }

    fn segment(&self) -> usize {
        1
    }

    fn begin(&mut self, _doing: &Fingerprint, _limit: Duration) {}

    fn try_send(&mut self, to: usize, _bytes: &[u8]) -> Result<bool> {
        Err(Error::invalid(format!("there is no rank {to} in a group of one")))
    }

    fn try_recv(&mut self, from: usize, _into: &mut [u8]) -> Result<bool> {
        Err(Error::invalid(format!("there is no rank {from} in a group of one")))
    }

    fn wait(&mut self, _wants: &[Interest], _limit: Duration) -> Result<()> {
        Err(Error::invalid("a group of one has nobody to wait for"))
    }
}
