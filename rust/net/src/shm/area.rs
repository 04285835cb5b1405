//! Lockstep over shared memory: in a step every rank writes its slot, sets its flag, waits for all flags, and reads.
//!
//! Slots are double-buffered: step n writes slot n mod 2. A rank that has seen all flags of step n knows that all ranks
//! have finished reading step n - 1, so the other slot is free, and one wait per step suffices.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::symmetric::SymmetricBuffer;
use super::{stream, wait, Segment, FLAG, FLAG_SLEEPERS};
use crate::codec::Put;
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, BYTES};
use crate::state::Guard;

pub struct Area {
    seg: Arc<Segment>,
    pub me: usize,
    pub world: usize,
    /// Global ranks by local index.
    ranks: Vec<usize>,
    /// The step whose slot is being written.
    step: u32,
    /// The first step of an operation carries its fingerprint.
    fresh: bool,
    spin: Duration,
    /// Number of symmetric buffers created by the group, and those that this rank still holds.
    made: u64,
    symmetric: Vec<Weak<SymmetricBuffer>>,
}

impl Area {
    pub fn new(seg: Arc<Segment>, me: usize, ranks: Vec<usize>, spin: Duration) -> Area {
        Area { seg, me, world: ranks.len(), ranks, step: 1, fresh: false, spin, made: 0, symmetric: Vec::new() }
    }

    pub fn slot_bytes(&self) -> usize {
        self.seg.layout.slot_bytes()
    }

    pub fn begin(&mut self, doing: &Fingerprint) {
        let at = self.slot(self.me, 0, BYTES);
        // SAFETY: this rank's slot of the current step, which no rank reads before `commit`.
        unsafe { std::ptr::copy_nonoverlapping(doing.0.as_ptr(), at, BYTES) };
        self.fresh = true;
    }

    /// Whether reading other ranks' memory directly is as fast as copying through slots.
    pub fn wants_symmetric_buffers(&self) -> bool {
        !self.seg.prefers_copies
    }

    /// The number of the next symmetric buffer.
    pub fn next_symmetric_id(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub fn add_symmetric(&mut self, buffer: &Arc<SymmetricBuffer>) {
        self.symmetric.retain(|r| r.strong_count() > 0);
        self.symmetric.push(Arc::downgrade(buffer));
    }

    /// The symmetric buffer and offset of these bytes, if all ranks have them at the same place. Takes one step if the
    /// group has ever created a symmetric buffer.
    pub fn common_place(&mut self, guard: &Guard<'_>, bytes: &[u8]) -> Result<Option<(Arc<SymmetricBuffer>, usize)>> {
        if self.made == 0 {
            return Ok(None);
        }
        let found = self
            .symmetric
            .iter()
            .filter_map(Weak::upgrade)
            .find_map(|buffer| buffer.place(bytes).map(|off| (buffer, off)));
        // Symmetric buffers are numbered from 1.
        let (id, off) = found.as_ref().map_or((0, 0), |(buffer, off)| (buffer.id, *off as u64));
        let mine = Put::default().u64(id).u64(off).0;
        self.write(0, &mine);
        self.commit(guard)?;
        let mut theirs = vec![0; mine.len()];
        let agree = (0..self.world).all(|rank| {
            self.read(rank, 0, &mut theirs);
            theirs == mine
        });
        Ok(found.filter(|_| agree))
    }

    fn slot(&self, rank: usize, off: usize, len: usize) -> *mut u8 {
        let l = &self.seg.layout;
        assert!(rank < self.world && off + len <= BYTES + l.slot_bytes());
        self.seg.map.at(l.slot(rank, (self.step & 1) as usize) + off, len)
    }

    /// Writes bytes into this rank's slot of the current step.
    pub fn write(&mut self, off: usize, bytes: &[u8]) {
        let at = self.slot(self.me, BYTES + off, bytes.len());
        // SAFETY: this rank's slot, in bounds; no rank reads it before `commit`, and all have finished reading its last
        // contents.
        unsafe { stream::copy(at, bytes.as_ptr(), bytes.len(), self.seg.stream_from) };
    }

    /// Address of the committed bytes of `rank`; valid until the next `commit`.
    pub fn row(&self, rank: usize, off: usize, len: usize) -> *const u8 {
        let l = &self.seg.layout;
        assert!(rank < self.world && off + len <= l.slot_bytes());
        let odd = (self.step.wrapping_sub(1) & 1) as usize;
        self.seg.map.at(l.slot(rank, odd) + BYTES + off, len)
    }

    /// Copies committed bytes of `rank`.
    pub fn read(&self, rank: usize, off: usize, into: &mut [u8]) {
        let from = self.row(rank, off, into.len());
        // SAFETY: in bounds, and its owner does not write to it before this rank's next `commit`.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Publishes this rank's slot and waits for all ranks'; the first step of an operation compares fingerprints.
    pub fn commit(&mut self, guard: &Guard<'_>) -> Result<()> {
        let (seg, step) = (self.seg.clone(), self.step);
        let word = |rank: usize, at: usize| seg.map.word(seg.layout.line(rank) + at);
        let flag = word(self.me, FLAG);
        flag.store(step, Ordering::SeqCst);
        wait::wake(flag, word(self.me, FLAG_SLEEPERS));
        for rank in (0..self.world).filter(|r| *r != self.me) {
            self.wait_for(rank, guard)?;
        }
        self.step = step.wrapping_add(1);
        if std::mem::take(&mut self.fresh) {
            self.compare(guard)?;
        }
        Ok(())
    }

    fn wait_for(&self, rank: usize, guard: &Guard<'_>) -> Result<()> {
        let line = self.seg.layout.line(rank);
        let flag = self.seg.map.word(line + FLAG);
        let step = self.step;
        let ready = || (flag.load(Ordering::Acquire).wrapping_sub(step) as i32) >= 0;
        // In the background the caller's thread computes meanwhile, and needs the core.
        let spin = if guard.tick.is_some() { self.spin } else { self.spin.min(wait::ALONE / 10) };
        if wait::spin(spin, ready) {
            return Ok(());
        }
        let sleepers = self.seg.map.word(line + FLAG_SLEEPERS);
        loop {
            let slice = guard.slice(self.ranks[rank])?;
            let left = guard.shared.has_left(self.ranks[rank]);
            let seen = flag.load(Ordering::SeqCst);
            if ready() {
                return Ok(());
            }
            if left {
                return Err(guard.left(self.ranks[rank]));
            }
            wait::sleep(flag, sleepers, seen, slice);
        }
    }

    fn compare(&self, guard: &Guard<'_>) -> Result<()> {
        for rank in (0..self.world).filter(|r| *r != self.me) {
            let l = &self.seg.layout;
            let at = self.seg.map.at(l.slot(rank, (self.step.wrapping_sub(1) & 1) as usize), BYTES);
            let mut theirs = Fingerprint::NONE;
            // SAFETY: committed bytes, as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(at, theirs.0.as_mut_ptr(), BYTES) };
            if theirs != guard.doing {
                return Err(Error::Mismatch {
                    a: guard.shared.peer(guard.shared.rank),
                    a_call: guard.doing.to_string(),
                    b: guard.shared.peer(self.ranks[rank]),
                    b_call: theirs.to_string(),
                });
            }
        }
        Ok(())
    }
}
