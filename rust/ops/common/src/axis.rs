//! Helpers of kernels along one axis: sizes around the axis, shape and data type checks.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::KernelContext;
use oar_core::tensor::Tensor;

/// Sizes before, along and after an axis.
pub fn split(op: &str, dims: &[i64], axis: i32) -> Result<(usize, usize, usize)> {
    let k = oar_core::base::shape::axis(op, axis as i64, dims.len())?;
    let product = |d: &[i64]| d.iter().product::<i64>() as usize;
    Ok((product(&dims[..k]), dims[k] as usize, product(&dims[k + 1..])))
}

/// Fails unless the tensor has this shape and data type.
pub fn like(cx: &KernelContext, t: &Tensor, dims: &[i64], dtype: DType, what: &str) -> Result<()> {
    ensure!(
        t.dims() == dims && t.dtype() == dtype,
        InvalidArgument,
        "operator {}: {what} must have shape {dims:?} and data type {dtype}, got {t:?}",
        cx.op.name
    );
    Ok(())
}
