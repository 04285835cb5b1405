//! The transport over shared memory: a short message queue per pair of ranks and direction.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::{stream, wait, Segment, BELL, BELL_SLEEPERS, CELL, CELLS, CELL_HEAD};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, BYTES};
use crate::state::{GroupState, Shared};
use crate::transport::{Interest, Transport};

const HEAD: usize = 0;
const TAIL: usize = 64;
/// Offsets within a cell.
const FRESH: usize = 0;
const LENGTH: usize = 4;
const PRINT: usize = 64;

pub struct PairTransport {
    seg: Arc<Segment>,
    shared: Arc<Shared>,
    group: Arc<GroupState>,
    me: usize,
    doing: Fingerprint,
    epoch: u64,
    /// The operation of the last message to and from every rank.
    sent: Vec<u64>,
    received: Vec<u64>,
    /// The value of this rank's doorbell at the last check.
    seen: u32,
    spin: Duration,
}

impl PairTransport {
    pub fn new(
        seg: Arc<Segment>,
        shared: Arc<Shared>,
        group: Arc<GroupState>,
        me: usize,
        spin: Duration,
    ) -> PairTransport {
        let world = seg.layout.world;
        PairTransport {
            seg,
            shared,
            group,
            me,
            doing: Fingerprint::NONE,
            epoch: 0,
            sent: vec![0; world],
            received: vec![0; world],
            seen: 0,
            spin,
        }
    }

    fn word(&self, at: usize) -> &std::sync::atomic::AtomicU32 {
        self.seg.map.word(at)
    }

    fn ring_doorbell(&self, rank: usize) {
        let line = self.seg.layout.line(rank);
        let bell = self.word(line + BELL);
        bell.fetch_add(1, Ordering::SeqCst);
        wait::wake(bell, self.word(line + BELL_SLEEPERS));
    }

    fn peer(&self, rank: usize) -> crate::Peer {
        self.shared.peer(self.group.ranks[rank])
    }
}

impl Transport for PairTransport {
    fn name(&self) -> &'static str {
        "shared memory"
    }

    fn segment(&self) -> usize {
        CELL
    }

    fn begin(&mut self, doing: &Fingerprint, _limit: Duration) {
        self.doing = *doing;
        self.epoch += 1;
    }

    fn try_send(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        let l = self.seg.layout;
        let pair = l.pair(self.me, to);
        let head = self.word(pair + HEAD).load(Ordering::Relaxed);
        if head.wrapping_sub(self.word(pair + TAIL).load(Ordering::Acquire)) >= CELLS {
            return Ok(false);
        }
        let cell = l.cell(self.me, to, head);
        let fresh = self.sent[to] != self.epoch;
        self.sent[to] = self.epoch;
        self.word(cell + FRESH).store(u32::from(fresh), Ordering::Relaxed);
        self.word(cell + LENGTH).store(bytes.len() as u32, Ordering::Relaxed);
        let print = self.seg.map.at(cell + PRINT, BYTES);
        let data = self.seg.map.at(cell + CELL_HEAD, bytes.len().min(CELL));
        assert!(bytes.len() <= CELL);
        // SAFETY: a free cell of this rank, in bounds; the receiver reads it only after the head has moved.
        unsafe {
            if fresh {
                std::ptr::copy_nonoverlapping(self.doing.0.as_ptr(), print, BYTES);
            }
            stream::copy(data, bytes.as_ptr(), bytes.len(), self.seg.stream_from);
        }
        self.word(pair + HEAD).store(head.wrapping_add(1), Ordering::Release);
        self.ring_doorbell(to);
        Ok(true)
    }

    fn try_recv(&mut self, from: usize, into: &mut [u8]) -> Result<bool> {
        let l = self.seg.layout;
        let pair = l.pair(from, self.me);
        let tail = self.word(pair + TAIL).load(Ordering::Relaxed);
        // Read before the queue: messages sent before the peer left are visible then.
        let left = self.shared.has_left(self.group.ranks[from]);
        if self.word(pair + HEAD).load(Ordering::Acquire) == tail {
            if left {
                return Err(self.group.left(&self.shared, self.group.ranks[from], &self.doing));
            }
            return Ok(false);
        }
        let cell = l.cell(from, self.me, tail);
        let fresh = self.word(cell + FRESH).load(Ordering::Relaxed) != 0;
        let length = self.word(cell + LENGTH).load(Ordering::Relaxed) as usize;
        if fresh {
            let mut theirs = Fingerprint::NONE;
            let print = self.seg.map.at(cell + PRINT, BYTES);
            // SAFETY: the sender has filled the cell and does not touch it before the tail moves.
            unsafe { std::ptr::copy_nonoverlapping(print, theirs.0.as_mut_ptr(), BYTES) };
            if theirs != self.doing {
                return Err(Error::Mismatch {
                    a: self.shared.peer(self.shared.rank),
                    a_call: self.doing.to_string(),
                    b: self.peer(from),
                    b_call: theirs.to_string(),
                });
            }
        }
        if fresh == (self.received[from] == self.epoch) || length != into.len() {
            let what = format!("received a message of {length} bytes, expected {}", into.len());
            return Err(Error::Corrupt { peer: self.peer(from), what, during: self.doing.to_string() });
        }
        self.received[from] = self.epoch;
        let data = self.seg.map.at(cell + CELL_HEAD, length);
        // SAFETY: as above, and `into` has the length of the message.
        unsafe { std::ptr::copy_nonoverlapping(data, into.as_mut_ptr(), length) };
        self.word(pair + TAIL).store(tail.wrapping_add(1), Ordering::Release);
        self.ring_doorbell(from);
        Ok(true)
    }

    fn wait(&mut self, _wants: &[Interest], limit: Duration) -> Result<()> {
        let line = self.seg.layout.line(self.me);
        let seg = self.seg.clone();
        let bell = seg.map.word(line + BELL);
        let seen = self.seen;
        if !wait::spin(self.spin, || bell.load(Ordering::Acquire) != seen) {
            wait::sleep(bell, seg.map.word(line + BELL_SLEEPERS), seen, limit);
        }
        self.seen = bell.load(Ordering::Acquire);
        Ok(())
    }
}
