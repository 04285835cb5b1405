//! Concatenation and slices along an axis.

use super::elements::{part, strided, strides_of, words, words_mut};
use crate::by_size;
use oar_core::base::shape::numel;
use oar_core::base::{Dims, Result};
use oar_core::ensure;
use oar_core::tensor::Tensor;

/// Concatenates tensors of one data type along axis `at` of `out`; each fills `lens` indices. Shapes must have been
/// checked.
pub fn concat_into(parts: &[&Tensor], lens: &[usize], at: usize, out: &mut Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (outer, inner) = (numel(&out.dims()[..at]), numel(&out.dims()[at + 1..]));
    by_size!(out.dtype(), T, {
        let data: Vec<&[T]> = parts.iter().map(|t| words::<T>(t)).collect();
        oar_kernels::shape::copy::concat(&data, lens, outer, inner, words_mut::<T>(out)?);
    });
    Ok(())
}

pub fn same_dtype(op: &str, parts: &[&Tensor]) -> Result<()> {
    for (i, t) in parts.iter().enumerate() {
        ensure!(
            t.dtype() == parts[0].dtype(),
            InvalidArgument,
            "operator {op}: all inputs must have one data type, input 0 is {}, input {i} is {}",
            parts[0].dtype(),
            t.dtype()
        );
    }
    Ok(())
}

/// Indices `from..from + len` of axis `at`.
pub fn slice_axis(x: &Tensor, at: usize, from: i64, len: i64) -> Result<Tensor> {
    let mut dims = Dims::from_slice(x.dims());
    dims[at] = len;
    let strides = strides_of(x.dims());
    let offset = from as usize * strides[at] as usize;
    if x.dims()[..at].iter().all(|&d| d == 1) {
        return part(x, if numel(&dims) == 0 { 0 } else { offset }, &dims);
    }
    strided(x, &dims, &strides, offset)
}
