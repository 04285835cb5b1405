//! Memory of every rank that its neighbours read where it lies: what is made there need not be copied into slots.
//!
//! Every rank's part has the same size, and ranks that combine values at the same place of their parts read each
//! other's directly (`local::in_place`). Outside of such operations a part is its rank's own, to read and to write.

use std::os::fd::OwnedFd;

use super::map::Map;
use super::{mapped, PAGE};
use crate::error::Result;
use crate::fork::PrivateAfterFork;
use crate::socket::Deadline;
use crate::store::Store;

/// One rank's hold of the memory; gone with the last rank's.
pub struct SymmetricBuffer {
    // Before the mapping: a fork must not find what is unmapped already.
    _kept: PrivateAfterFork,
    map: Map,
    _fd: OwnedFd,
    me: usize,
    len: usize,
    /// From one rank's part to the next.
    stride: usize,
    /// The how-manieth of its group, the same on all ranks.
    pub(crate) id: u64,
}

impl SymmetricBuffer {
    pub(crate) fn meet(
        store: &Store,
        key: &str,
        (me, world): (usize, usize),
        len: usize,
        id: u64,
        deadline: &Deadline<'_>,
    ) -> Result<SymmetricBuffer> {
        let stride = len.max(1).next_multiple_of(PAGE);
        let all = stride * world;
        let (map, fd) = mapped(store, key, (me, world), all, deadline, |_| ())?;
        let kept = PrivateAfterFork::new(map.at(0, all), all, &fd);
        Ok(SymmetricBuffer { _kept: kept, map, _fd: fd, me, len, stride, id })
    }

    /// Bytes of this rank's part.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where this rank's part begins: at a page, with zeros at first.
    pub fn ptr(&self) -> *mut u8 {
        self.at(self.me, 0, self.len)
    }

    /// `len` bytes of a rank's part.
    pub(crate) fn at(&self, rank: usize, off: usize, len: usize) -> *mut u8 {
        assert!(off + len <= self.len, "outside of a rank's part");
        self.map.at(rank * self.stride + off, len)
    }

    /// Where in this rank's part the bytes lie, if they do.
    pub(crate) fn place(&self, bytes: &[u8]) -> Option<usize> {
        let off = (bytes.as_ptr() as usize).checked_sub(self.ptr() as usize)?;
        (off + bytes.len() <= self.len).then_some(off)
    }
}
