//! Values cut up for several servers, and put together again.

mod blocks;
mod ids;
mod trainer;

use oar_core::base::{Dims, Result};
use oar_core::op::Op;
use oar_core::tensor::Tensor;

pub static TABLE: &[&Op] = &[
    &blocks::SPLIT_BYREF,
    &blocks::SPLIT_SELECTED_ROWS,
    &ids::SPLIT_IDS,
    &ids::MERGE_IDS,
    &trainer::REF_BY_TRAINER_ID,
    &trainer::FAKE_INIT,
];

/// The rows of `t` at these places, which have been checked, as a tensor.
fn take_rows(t: &Tensor, places: &[usize]) -> Result<Tensor> {
    let mut dims = Dims::from_slice(t.dims());
    dims[0] = places.len() as i64;
    let mut out = Tensor::empty(t.dtype(), &dims)?;
    let width = t.nbytes() / (t.dims()[0].max(1) as usize);
    if width > 0 {
        let from = t.bytes();
        for (row, &at) in out.bytes_mut()?.chunks_exact_mut(width).zip(places) {
            row.copy_from_slice(&from[at * width..(at + 1) * width]);
        }
    }
    Ok(out)
}
