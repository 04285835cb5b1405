//! What the operators along one axis share: arg_max, cumsum, sort.

use oar_core::base::shape::numel;
use oar_core::base::{DTypes, Result};
use oar_core::op::{InSlot, OutSlot, ShapeContext};
use oar_core::slots;

slots! {
    pub(crate) mod unary { X "X" => OUT "Out" }
}

/// Data types of these kernels.
pub(crate) const REAL: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS);

/// Sizes before, along and after an axis.
pub(crate) fn axis_sizes(dims: &[i64], at: usize) -> (usize, usize, usize) {
    (numel(&dims[..at]), dims[at] as usize, numel(&dims[at + 1..]))
}

/// Number of elements, -1 if a size is unknown.
pub(crate) fn count(dims: &[i64]) -> i64 {
    if dims.iter().any(|&d| d < 0) {
        return -1;
    }
    numel(dims) as i64
}

/// Output: shape and LoD of X, data type of `Out@GRAD`.
pub(crate) fn shape_of_x(cx: &mut ShapeContext, x: InSlot, dout: InSlot, dx: OutSlot) -> Result<()> {
    let (dims, dtype) = (cx.dims(x)?, cx.dtype(dout)?);
    cx.set(dx, &dims, dtype);
    cx.share_lod(dx, x);
    Ok(())
}
