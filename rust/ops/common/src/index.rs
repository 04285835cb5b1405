//! Index tensors (int32 or int64) read as i64, and the error of an index out of range.

use oar_core::base::{DType, Result};
use oar_core::tensor::Tensor;
use oar_core::{bail, err};
use oar_kernels::shape::index::OutOfRange;
use std::borrow::Cow;

/// An index tensor as int64; int32 is converted.
pub fn index_of<'a>(op: &str, t: &'a Tensor) -> Result<Cow<'a, [i64]>> {
    match t.dtype() {
        DType::I64 => Ok(Cow::Borrowed(t.data::<i64>())),
        DType::I32 => Ok(Cow::Owned(t.data::<i32>().iter().map(|&i| i as i64).collect())),
        other => bail!(InvalidArgument, "operator {op}: indices must be int32 or int64, got {other}"),
    }
}

/// The error for an index outside its range.
pub fn out_of_range(op: &str, e: OutOfRange) -> oar_core::base::Error {
    err!(InvalidArgument, "operator {op}: indices must be in [0, {}), got {}", e.limit, e.index)
}
