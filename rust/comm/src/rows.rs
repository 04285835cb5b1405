//! Gathers tensors and SelectedRows over the ranks of a group.

use super::run;
use oar_core::base::{DType, Result};
use oar_core::err;
use oar_core::tensor::{SelectedRows, Tensor};
use oar_net::{CollectiveCall, Dtype, Group, Region};
use std::sync::Arc;

/// The element type of `oar-net` for a data type.
pub fn wire(t: DType) -> Result<Dtype> {
    u8::try_from(t.proto())
        .ok()
        .and_then(|n| Dtype::from_number(n).ok())
        .ok_or_else(|| err!(Unimplemented, "{t} between processes"))
}

/// The tensor's bytes as a region, which holds a reference to the tensor.
pub fn raw(t: &Tensor) -> Region {
    // SAFETY: the clone in the region keeps the bytes alive; the caller leaves them to the operation until it ends.
    unsafe { Region::raw(t.ptr(), t.nbytes(), Some(Box::new(t.clone()))) }
}

/// The elements of all ranks' tensors, which have one size, in order of ranks.
pub fn gather(group: &Group, mine: Tensor) -> Result<Tensor> {
    let all = Tensor::empty(mine.dtype(), &[(mine.numel() * group.world()) as i64])?;
    run(group, CollectiveCall::all_gather(raw(&mine), raw(&all), wire(mine.dtype())?))?;
    Ok(all)
}

/// The rows of all ranks, in order of ranks; `counts` are their numbers by rank. Heights, row shapes and types are
/// equal on all ranks.
pub fn gather_rows(group: &Group, counts: &[usize], mine: &SelectedRows) -> Result<SelectedRows> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut dims = mine.value.dims().to_vec();
    let width: usize = dims[1..].iter().map(|d| *d as usize).product();
    // all_gather needs parts of equal size: ranks with fewer rows are padded.
    let mut rows = Tensor::zeros(DType::I64, &[most as i64])?;
    let mut values = Tensor::zeros(mine.value.dtype(), &[(most * width) as i64])?;
    rows.data_mut::<i64>()?[..mine.rows.len()].copy_from_slice(&mine.rows);
    values.bytes_mut()?[..mine.value.nbytes()].copy_from_slice(mine.value.bytes());
    let (rows, values) = (gather(group, rows)?, gather(group, values)?);
    dims[0] = counts.iter().sum::<usize>() as i64;
    let mut value = Tensor::empty(mine.value.dtype(), &dims)?;
    let (row_bytes, mut at) = (width * value.dtype().size(), 0);
    let mut all = Vec::with_capacity(dims[0] as usize);
    for (rank, &n) in counts.iter().enumerate() {
        let first = rank * most;
        all.extend_from_slice(&rows.data::<i64>()[first..first + n]);
        let bytes = &values.bytes()[first * row_bytes..(first + n) * row_bytes];
        value.bytes_mut()?[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    Ok(SelectedRows { rows: Arc::new(all), height: mine.height, value })
}
