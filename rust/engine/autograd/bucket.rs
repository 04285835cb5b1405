//! What is averaged: parameters, the buckets that their gradients lie in, and calls on their bytes.

use super::tape::EVar;
use oar_comm as comm;
use oar_core::base::{DType, Result};
use oar_core::tensor::Tensor;
use oar_dist::{CollectiveCall, Dtype, ReduceOp, Region};

/// A parameter whose gradients are averaged.
pub struct Param {
    pub var: EVar,
    pub name: String,
    /// Its gradient is expected to be SelectedRows.
    pub sparse: bool,
}

/// Where a dense parameter's gradient lies: in elements, from the start of the bucket.
#[derive(Clone, Copy)]
pub struct Slot {
    pub param: usize,
    pub from: usize,
    pub len: usize,
}

pub struct Bucket {
    pub dtype: DType,
    pub slots: Vec<Slot>,
    /// Elements.
    pub len: usize,
}

impl Bucket {
    pub(super) fn new(dtype: DType) -> Bucket {
        Bucket { dtype, slots: Vec::new(), len: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }
}

pub(super) fn wire(dtype: DType) -> Result<Dtype> {
    Dtype::from_number(dtype.proto() as u8).map_err(comm::error)
}

pub(super) fn raw(t: &Tensor) -> Region {
    // SAFETY: the tensor goes with the region and keeps the bytes; only the operation uses them until it has ended.
    unsafe { Region::raw(t.ptr(), t.nbytes(), Some(Box::new(t.clone()))) }
}

pub(super) fn average(t: &Tensor) -> Result<CollectiveCall> {
    Ok(CollectiveCall::all_reduce(raw(t), wire(t.dtype())?, ReduceOp::Avg))
}
