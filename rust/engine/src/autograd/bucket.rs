//! Buckets of gradients that are averaged together, and calls on their bytes.

use super::tape::EagerVar;
pub(super) use oar_comm::rows::{raw, wire};
use oar_core::base::{DType, Result};
use oar_core::tensor::Tensor;
use oar_net::{CollectiveCall, ReduceOp};

/// A parameter whose gradients are averaged.
pub struct Param {
    pub var: EagerVar,
    pub name: String,
    /// Its gradient is expected to be SelectedRows.
    pub sparse: bool,
}

/// The position of a dense parameter's gradient: elements from the start of the bucket.
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

pub(super) fn average(t: &Tensor) -> Result<CollectiveCall> {
    Ok(CollectiveCall::all_reduce(raw(t), wire(t.dtype())?, ReduceOp::Avg))
}
