//! Shared by operators that move elements: elements as words of their size, strided reads and writes, views.

use oar_core::base::shape::{numel, to_usize};
use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::tensor::Tensor;
use oar_kernels::types::Word;

/// Fails unless all operands have the data type of `x`.
pub fn same_types(op: &str, x: &Tensor, others: &[&Tensor]) -> Result<()> {
    for t in others {
        ensure!(
            t.dtype() == x.dtype(),
            InvalidArgument,
            "operator {op}: all inputs must have one dtype, got {} and {}",
            x.dtype(),
            t.dtype()
        );
    }
    Ok(())
}

/// The elements as integers of their size, for kernels that are independent of the data type.
pub fn words<T: Word>(t: &Tensor) -> &[T] {
    assert_eq!(std::mem::size_of::<T>(), t.dtype().size());
    let bytes = t.bytes();
    // SAFETY: as many elements as the tensor has, aligned because offsets are multiples of the element size; every bit
    // pattern is a value of a Word.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr() as *const T, t.numel()) }
}

/// As [`words`], mutable. Written values must be valid elements (a bool is 0 or 1).
pub fn words_mut<T: Word>(t: &mut Tensor) -> Result<&mut [T]> {
    assert_eq!(std::mem::size_of::<T>(), t.dtype().size());
    let n = t.numel();
    let bytes = t.bytes_mut()?;
    // SAFETY: as in `words`; `bytes_mut` made this the only reference that may write.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr() as *mut T, n) })
}

/// Runs an expression with `$T` bound to the integer type (a pair for 16 bytes) of the data type's size.
#[macro_export]
macro_rules! by_size {
    ($dtype:expr, $T:ident, $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = i16;
                $body
            }
            4 => {
                type $T = i32;
                $body
            }
            8 => {
                type $T = i64;
                $body
            }
            _ => {
                type $T = [u64; 2];
                $body
            }
        }
    };
}

/// A reference to the same value. Exported bytes are copied, others shared.
#[inline]
pub fn share(t: &Tensor) -> Result<Tensor> {
    t.share()
}

/// `Tensor::zeros`, parallel for large tensors.
pub fn zeros(dtype: DType, dims: &[i64]) -> Result<Tensor> {
    let mut t = Tensor::empty(dtype, dims)?;
    set_zero(&mut t)?;
    Ok(t)
}

/// Zeroes every element, in parallel for large tensors.
pub fn set_zero(t: &mut Tensor) -> Result<()> {
    oar_kernels::shape::copy::fill(0u8, t.bytes_mut()?);
    Ok(())
}

/// `Tensor::deep_copy`, parallel for large tensors.
pub fn copied(t: &Tensor) -> Result<Tensor> {
    let mut out = Tensor::empty(t.dtype(), t.dims())?;
    copy_to(t, &mut out)?;
    Ok(out.with_lod(t.lod.clone()))
}

/// Copies the elements to a tensor of the same data type and number of elements.
pub fn copy_to(t: &Tensor, out: &mut Tensor) -> Result<()> {
    ensure!(
        t.dtype() == out.dtype() && t.numel() == out.numel(),
        InvalidArgument,
        "the elements of {t:?} cannot be copied to {out:?}"
    );
    oar_kernels::shape::copy::copy(t.bytes(), out.bytes_mut()?);
    Ok(())
}

/// The same elements with another shape, without LoD.
#[inline]
pub fn reshaped(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        numel(dims) == t.numel(),
        InvalidArgument,
        "a tensor of shape {:?} cannot have the shape {dims:?}",
        t.dims()
    );
    Ok(if t.buffer().is_pinned() { t.deep_copy()?.reshaped(dims) } else { t.reshaped(dims) })
}

/// Contiguous parts of at least this size share the bytes; smaller ones are copied.
const SHARE_BYTES: usize = 64 << 10;

/// Checks the attribute `num`. Each part is a tensor, even if empty, so the number is limited.
pub fn parts(op: &str, num: i32) -> Result<usize> {
    const MOST: i32 = 1 << 20;
    ensure!(
        (0..=MOST).contains(&num),
        InvalidArgument,
        "operator {op}: num must not be negative, and at most {MOST}, got {num}"
    );
    Ok(num as usize)
}

/// Elements `from..from + numel(dims)`. Large parts share the bytes; small ones are copied, because sharing would keep
/// a large block alive and make the next write copy it.
pub fn part(t: &Tensor, from: usize, dims: &[i64]) -> Result<Tensor> {
    let n = numel(dims);
    ensure!(from + n <= t.numel(), Fatal, "a part outside its tensor");
    let size = t.dtype().size();
    if n * size >= SHARE_BYTES && n * size * 8 >= t.buffer().len() && !t.buffer().is_pinned() {
        return Ok(t.view(from, dims));
    }
    let mut out = Tensor::empty(t.dtype(), dims)?;
    out.bytes_mut()?.copy_from_slice(&t.bytes()[from * size..(from + n) * size]);
    Ok(out)
}

/// Reads a new tensor of shape `dims` from `x` at `offset + index . strides`.
pub fn strided(x: &Tensor, dims: &[i64], strides: &[isize], offset: usize) -> Result<Tensor> {
    ensure!(dims.len() <= 16, Unimplemented, "tensors of more than 16 dimensions are not supported, got {dims:?}");
    let mut out = Tensor::empty(x.dtype(), dims)?;
    if out.numel() > 0 {
        let shape = to_usize(dims);
        by_size!(x.dtype(), T, {
            oar_kernels::shape::copy::strided(
                words::<T>(x),
                &shape,
                strides,
                offset as isize,
                words_mut::<T>(&mut out)?,
            )
        });
    }
    Ok(out)
}

/// Writes `x`, of shape `dims`, to `out` at `offset + index . strides`.
pub fn strided_write(x: &Tensor, dims: &[i64], out: &mut Tensor, strides: &[isize], offset: usize) -> Result<()> {
    ensure!(dims.len() <= 16, Unimplemented, "tensors of more than 16 dimensions are not supported, got {dims:?}");
    ensure!(
        x.dtype() == out.dtype() && numel(dims) == x.numel(),
        InvalidArgument,
        "{x:?} cannot be written as elements of shape {dims:?} of {out:?}"
    );
    if x.numel() > 0 {
        let shape = to_usize(dims);
        by_size!(x.dtype(), T, {
            oar_kernels::shape::copy::strided_write(
                words::<T>(x),
                &shape,
                words_mut::<T>(out)?,
                strides,
                offset as isize,
            )
        });
    }
    Ok(())
}

/// Strides of a contiguous tensor, in elements.
pub fn strides_of(dims: &[i64]) -> smallvec::SmallVec<[isize; 6]> {
    let mut strides: smallvec::SmallVec<[isize; 6]> = smallvec::SmallVec::from_elem(0, dims.len());
    let mut step = 1isize;
    for (s, &d) in strides.iter_mut().zip(dims).rev() {
        *s = step;
        step = step.wrapping_mul(d.max(1) as isize);
    }
    strides
}
