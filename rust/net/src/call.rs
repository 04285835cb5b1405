//! A call of a collective or point-to-point operation: its kind, buffers and options.

use std::any::Any;
use std::time::Duration;

use crate::dtype::{Dtype, ReduceOp};
use crate::error::{Error, Result};
use crate::fingerprint::CollectiveKind;
use crate::reduce;

/// A buffer of an operation.
#[derive(Default)]
pub enum Region {
    #[default]
    Absent,
    Owned(Vec<u8>),
    Raw(RawRegion),
}

/// Memory owned by the caller.
pub struct RawRegion {
    ptr: *mut u8,
    len: usize,
    /// Keeps the memory's owner alive; dropped when the operation has ended.
    _keep: Option<Box<dyn Any + Send>>,
}

// SAFETY: `Region::raw` requires that the memory may be used by the thread that runs the operation.
unsafe impl Send for RawRegion {}

impl Region {
    /// # Safety
    /// `ptr` is valid for `len` bytes, for reading (an input) or for reading and writing (an output), from any thread,
    /// and no other code writes to it (or, for an output, reads it) until the operation has ended. `keep` is dropped
    /// then.
    pub unsafe fn raw(ptr: *mut u8, len: usize, keep: Option<Box<dyn Any + Send>>) -> Region {
        Region::Raw(RawRegion { ptr, len, _keep: keep })
    }

    pub fn len(&self) -> usize {
        match self {
            Region::Absent => 0,
            Region::Owned(v) => v.len(),
            Region::Raw(r) => r.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Region::Absent => &[],
            Region::Owned(v) => v,
            // SAFETY: the contract of `raw`; an empty region may have any address.
            Region::Raw(r) if r.len > 0 => unsafe { std::slice::from_raw_parts(r.ptr, r.len) },
            Region::Raw(_) => &[],
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Region::Absent => &mut [],
            Region::Owned(v) => v,
            // SAFETY: the contract of `raw`.
            Region::Raw(r) if r.len > 0 => unsafe { std::slice::from_raw_parts_mut(r.ptr, r.len) },
            Region::Raw(_) => &mut [],
        }
    }

    /// The bytes of an owned region; `None` for the others.
    pub fn into_vec(self) -> Option<Vec<u8>> {
        match self {
            Region::Owned(v) => Some(v),
            _ => None,
        }
    }
}

impl From<Vec<u8>> for Region {
    fn from(v: Vec<u8>) -> Region {
        Region::Owned(v)
    }
}

/// One operation. Constructed by the function of the operation's name; `shape` and `limit` refine it.
pub struct CollectiveCall {
    pub(crate) kind: CollectiveKind,
    pub(crate) dtype: Dtype,
    pub(crate) op: ReduceOp,
    /// The root, or the peer of a send or receive: a rank of the group.
    pub(crate) root: usize,
    pub(crate) sends: bool,
    pub(crate) input: Region,
    pub(crate) output: Region,
    pub(crate) shape: Option<Vec<u64>>,
    pub(crate) limit: Option<Duration>,
}

impl CollectiveCall {
    fn new(kind: CollectiveKind, dtype: Dtype, input: Region, output: Region) -> CollectiveCall {
        let op = ReduceOp::Sum;
        CollectiveCall { kind, dtype, op, root: 0, sends: false, input, output, shape: None, limit: None }
    }

    fn with_op(mut self, op: ReduceOp) -> CollectiveCall {
        self.op = op;
        self
    }

    fn with_root(mut self, root: usize) -> CollectiveCall {
        self.root = root;
        self
    }

    pub fn barrier() -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::Barrier, Dtype::U8, Region::Absent, Region::Absent)
    }

    /// Every rank's `data` becomes the reduction over all ranks.
    pub fn all_reduce(data: impl Into<Region>, dtype: Dtype, op: ReduceOp) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::AllReduce, dtype, Region::Absent, data.into()).with_op(op)
    }

    /// The root's `data` becomes the reduction over all ranks; other ranks' `data` is unchanged.
    pub fn reduce(data: impl Into<Region>, dtype: Dtype, op: ReduceOp, root: usize) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::Reduce, dtype, Region::Absent, data.into()).with_op(op).with_root(root)
    }

    /// Every rank's `data` becomes a copy of the root's.
    pub fn broadcast(data: impl Into<Region>, dtype: Dtype, root: usize) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::Broadcast, dtype, Region::Absent, data.into()).with_root(root)
    }

    /// `output` holds as many parts as there are ranks; part r becomes rank r's `input`.
    pub fn all_gather(input: impl Into<Region>, output: impl Into<Region>, dtype: Dtype) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::AllGather, dtype, input.into(), output.into())
    }

    /// `input` holds as many parts as there are ranks; rank r's `output` becomes the reduction of part r over all
    /// ranks.
    pub fn reduce_scatter(
        input: impl Into<Region>,
        output: impl Into<Region>,
        dtype: Dtype,
        op: ReduceOp,
    ) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::ReduceScatter, dtype, input.into(), output.into()).with_op(op)
    }

    /// Rank r's `output` becomes part r of the root's `input`; `input` of other ranks is ignored.
    pub fn scatter(input: impl Into<Region>, output: impl Into<Region>, dtype: Dtype, root: usize) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::Scatter, dtype, input.into(), output.into()).with_root(root)
    }

    /// Part r of the root's `output` becomes rank r's `input`; `output` of other ranks is ignored.
    pub fn gather(input: impl Into<Region>, output: impl Into<Region>, dtype: Dtype, root: usize) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::Gather, dtype, input.into(), output.into()).with_root(root)
    }

    /// Part s of rank r's `output` becomes part r of rank s's `input`.
    pub fn all_to_all(input: impl Into<Region>, output: impl Into<Region>, dtype: Dtype) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::AllToAll, dtype, input.into(), output.into())
    }

    pub fn send(data: impl Into<Region>, dtype: Dtype, to: usize) -> CollectiveCall {
        let mut call = CollectiveCall::new(CollectiveKind::SendRecv, dtype, data.into(), Region::Absent).with_root(to);
        call.sends = true;
        call
    }

    pub fn recv(data: impl Into<Region>, dtype: Dtype, from: usize) -> CollectiveCall {
        CollectiveCall::new(CollectiveKind::SendRecv, dtype, Region::Absent, data.into()).with_root(from)
    }

    /// The tensor's shape, which is compared across ranks (without it the number of elements is). For operations with
    /// parts it is the shape of one part, for `all_to_all` that of the whole.
    pub fn shape(mut self, shape: &[u64]) -> CollectiveCall {
        self.shape = Some(shape.to_vec());
        self
    }

    /// The operation's time limit, counted from its start (default: the context's `timeout`).
    pub fn limit(mut self, limit: Duration) -> CollectiveCall {
        self.limit = Some(limit);
        self
    }

    /// Bytes of the part whose size must be equal on all ranks.
    pub(crate) fn part(&self) -> usize {
        match self.kind {
            CollectiveKind::AllGather | CollectiveKind::Gather | CollectiveKind::AllToAll => self.input.len(),
            CollectiveKind::SendRecv if self.sends => self.input.len(),
            _ => self.output.len(),
        }
    }

    pub(crate) fn dims(&self) -> Vec<u64> {
        self.shape.clone().unwrap_or_else(|| vec![(self.part() / self.dtype.size()) as u64])
    }

    /// Checks all conditions that need no other rank.
    pub(crate) fn check(&self, me: usize, world: usize) -> Result<()> {
        let name = self.kind.name();
        let bad = |what: String| Err(Error::Invalid(format!("{name}: {what}")));
        let part = self.part();
        if !part.is_multiple_of(self.dtype.size()) {
            return bad(format!("{part} bytes are not a multiple of the size of {}", self.dtype.name()));
        }
        if let Some(shape) = &self.shape {
            let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
            if count != Some((part / self.dtype.size()) as u64) {
                return bad(format!("shape {shape:?} does not fit {part} bytes of {}", self.dtype.name()));
            }
        }
        if self.root >= world {
            return bad(format!("rank {} is not in a group of {world}", self.root));
        }
        if self.kind == CollectiveKind::SendRecv && self.root == me {
            return bad("a rank cannot send to itself or receive from itself".into());
        }
        if self.kind.reduces() {
            reduce::check(self.dtype, self.op)?;
        }
        let (whole, found) = match self.kind {
            CollectiveKind::AllGather => (part * world, self.output.len()),
            CollectiveKind::Gather if me == self.root => (part * world, self.output.len()),
            CollectiveKind::ReduceScatter => (part * world, self.input.len()),
            CollectiveKind::Scatter if me == self.root => (part * world, self.input.len()),
            CollectiveKind::AllToAll if !part.is_multiple_of(world * self.dtype.size()) => {
                return bad(format!("{part} bytes cannot be cut into {world} parts of {}", self.dtype.name()))
            }
            CollectiveKind::AllToAll => (part, self.output.len()),
            _ => return Ok(()),
        };
        if whole != found {
            return bad(format!("{world} parts need a buffer of {whole} bytes, it has {found}"));
        }
        Ok(())
    }
}
