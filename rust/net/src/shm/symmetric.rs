//! Memory of every rank that the host's other ranks read in place, without copies into slots.
//!
//! All parts have the same size. Ranks that reduce values at the same offset read each other's parts directly
//! (`local::in_place`). Outside of such operations a part is read and written by its rank only.

use std::os::fd::OwnedFd;

use super::map::Map;
use super::{mapped, PAGE};
use crate::error::Result;
use crate::fork::PrivateAfterFork;
use crate::socket::Deadline;
use crate::store::Store;

/// One rank's handle; the memory is freed with the last rank's.
pub struct SymmetricBuffer {
    // Dropped before the mapping: a fork handler must not find memory that is unmapped already.
    _kept: PrivateAfterFork,
    map: Map,
    _fd: OwnedFd,
    me: usize,
    len: usize,
    /// Distance between two ranks' parts.
    stride: usize,
    /// Sequence number within its group, equal on all ranks.
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

    /// Start of this rank's part: page-aligned, initially zero.
    pub fn ptr(&self) -> *mut u8 {
        self.at(self.me, 0, self.len)
    }

    /// Address of `len` bytes of a rank's part.
    pub(crate) fn at(&self, rank: usize, off: usize, len: usize) -> *mut u8 {
        assert!(off + len <= self.len, "outside of a rank's part");
        self.map.at(rank * self.stride + off, len)
    }

    /// Offset of the bytes within this rank's part, if they are in it.
    pub(crate) fn place(&self, bytes: &[u8]) -> Option<usize> {
        let off = (bytes.as_ptr() as usize).checked_sub(self.ptr() as usize)?;
        (off + bytes.len() <= self.len).then_some(off)
    }
}
