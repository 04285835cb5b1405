//! Encoding of failures and heartbeats between the ranks and the hub.

use crate::codec::{Put, Take};
use crate::error::{Error, Last, Peer};
use crate::fingerprint::{Fingerprint, BYTES};
use crate::state::{Shared, Status};

/// A failure of one group, or of the whole job (`group` is `None`).
pub struct Failure {
    pub group: Option<u64>,
    pub error: Error,
}

/// Texts are truncated to this length, so that a failure always fits its frame.
const MAX_TEXT: usize = 2000;

fn cut(s: &str) -> &[u8] {
    let mut end = s.len().min(MAX_TEXT);
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s.as_bytes()[..end]
}

/// `me` is the reporting rank: errors that do not concern a peer are encoded as its failure.
pub fn encode(group: Option<u64>, error: &Error, me: usize) -> Vec<u8> {
    let p = Put::default().u8(u8::from(group.is_some())).u64(group.unwrap_or(0));
    let p = match error {
        Error::Died { peer, last, .. } => p.u8(1).u32(peer.rank as u32).bytes(cut(&last.0)),
        Error::Silent { peer, seconds, last, .. } => {
            p.u8(2).u32(peer.rank as u32).u64(seconds.to_bits()).bytes(cut(&last.0))
        }
        Error::Mismatch { a, a_call, b, b_call } => {
            p.u8(3).u32(a.rank as u32).bytes(cut(a_call)).u32(b.rank as u32).bytes(cut(b_call))
        }
        Error::PeerFailed { peer, reason, .. } => p.u8(4).u32(peer.rank as u32).bytes(cut(reason)),
        Error::Corrupt { peer, what, .. } => p.u8(5).u32(peer.rank as u32).bytes(cut(what)),
        other => p.u8(4).u32(me as u32).bytes(cut(&other.to_string())),
    };
    p.0
}

pub fn decode(payload: &[u8], shared: &Shared) -> Option<Failure> {
    let mut t = Take(payload);
    let scoped = t.u8()? != 0;
    let group = t.u64()?;
    let peer = |rank: u32| -> Peer { shared.peer(rank as usize) };
    let during = String::from("no operation");
    let error = match t.u8()? {
        1 => Error::Died { peer: peer(t.u32()?), last: Last(t.text()?), during },
        2 => Error::Silent { peer: peer(t.u32()?), seconds: f64::from_bits(t.u64()?), last: Last(t.text()?), during },
        3 => {
            let (a, a_call) = (peer(t.u32()?), t.text()?);
            Error::Mismatch { a, a_call, b: peer(t.u32()?), b_call: t.text()? }
        }
        4 => Error::PeerFailed { peer: peer(t.u32()?), reason: t.text()?, during },
        5 => Error::Corrupt { peer: peer(t.u32()?), what: t.text()?, during },
        _ => return None,
    };
    t.0.is_empty().then_some(Failure { group: scoped.then_some(group), error })
}

/// Maximum number of groups in one heartbeat.
const MAX_GROUPS: usize = 64;

pub fn encode_beat(statuses: &[Status]) -> Vec<u8> {
    let some = &statuses[..statuses.len().min(MAX_GROUPS)];
    let p = Put::default().u32(some.len() as u32);
    some.iter().fold(p, |p, s| p.u64(s.group).raw(&s.doing.0).u32(s.waiting).u32(s.millis)).0
}

pub fn decode_beat(payload: &[u8]) -> Option<Vec<Status>> {
    let mut t = Take(payload);
    let n = t.u32()? as usize;
    if n > MAX_GROUPS {
        return None;
    }
    let mut all = Vec::with_capacity(n);
    for _ in 0..n {
        let group = t.u64()?;
        let doing = Fingerprint::from_slice(t.raw(BYTES)?)?;
        all.push(Status { group, doing, waiting: t.u32()?, millis: t.u32()? });
    }
    t.0.is_empty().then_some(all)
}
