//! The interface between collectives and transports.
//!
//! Sockets, shared memory, MPI or NCCL run the same plans: messages between pairs of ranks, in order per pair, started
//! and completed without blocking, and one call to wait.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Peer, Result};
use crate::fingerprint::Fingerprint;
use crate::mac::{Digest, Hash};
use crate::state::{GroupState, Shared};

/// An event that a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub peer: usize,
    /// Room to send; otherwise something to receive.
    pub send: bool,
}

/// A transport. Ranks are ranks of the group; one thread uses it at a time.
pub trait Transport: Send {
    fn name(&self) -> &'static str;

    /// The longest message; larger buffers are split into such pieces.
    fn segment(&self) -> usize;

    /// Starts an operation: the first message to each peer carries its fingerprint, and the first from each peer is
    /// checked. Work before a message can move, such as connecting, must end within `limit`.
    fn begin(&mut self, doing: &Fingerprint, limit: Duration);

    /// Sends a message; after `false` the call is repeated with the same bytes. At most one message per peer is in
    /// progress.
    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool>;

    /// The hash of the authentication codes and the bytes per code, if data have codes whose digests can be forwarded.
    fn codes(&self) -> Option<(Arc<Hash>, usize)> {
        None
    }

    /// The digest of every code of the last message from this rank.
    fn digests(&self, _from: usize) -> &[Digest] {
        &[]
    }

    /// Sends a message whose digests are known.
    fn try_forward(&mut self, to: usize, bytes: &[u8], _digests: &[Digest]) -> Result<bool> {
        self.try_send(to, bytes)
    }

    /// Receives a message of exactly this length; after `false` the call is repeated with the same buffer, whose
    /// contents are undefined until `true`.
    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool>;

    /// Receives a message of exactly `len` bytes and passes it to `take` in checked pieces with their offsets, in order
    /// and each once; after `false` the call is repeated. Pieces begin at multiples of 64 bytes. `room` is scratch
    /// memory for transports without their own; it is the same until the message is complete.
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

    /// Waits until one of `interests` may be ready, at most `limit`; may return early.
    fn wait(&mut self, interests: &[Interest], limit: Duration) -> Result<()>;
}

/// The members of a group, for a transport that is implemented elsewhere.
pub struct Membership {
    /// Equal on all members, and unique among groups.
    pub id: u64,
    pub me: usize,
    /// By group rank: the process's number in the whole job.
    pub numbers: Vec<usize>,
    shared: Arc<Shared>,
    state: Arc<GroupState>,
}

impl Membership {
    pub(crate) fn new(shared: Arc<Shared>, state: Arc<GroupState>, me: usize) -> Membership {
        let numbers = state.ranks.iter().map(|r| shared.peers[*r].number).collect();
        Membership { id: state.id, me, numbers, shared, state }
    }

    /// A member, as errors name it.
    pub fn peer(&self, rank: usize) -> Peer {
        self.shared.peer(self.state.ranks[rank])
    }

    /// The error of waiting for a member that has left in order.
    pub fn left(&self, rank: usize, doing: &Fingerprint) -> Option<Error> {
        let rank = self.state.ranks[rank];
        self.shared.has_left(rank).then(|| self.state.left(&self.shared, rank, doing))
    }

    /// The error of two members that called different operations.
    pub fn mismatch(&self, mine: &Fingerprint, rank: usize, theirs: &Fingerprint) -> Error {
        let (a_call, b_call) = (mine.to_string(), theirs.to_string());
        Error::Mismatch { a: self.peer(self.me), a_call, b: self.peer(rank), b_call }
    }
}

/// Creates the transport of a group.
pub type MakeTransport = Arc<dyn Fn(Membership) -> Result<Box<dyn Transport>> + Send + Sync>;

/// The transport of a group of one rank.
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
        Err(Error::invalid("a group of one has no other rank to wait for"))
    }
}
