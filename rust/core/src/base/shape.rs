//! Shapes: `Dims` keeps up to four sizes in place. A size of -1 is unknown (while a Program is built).

use crate::base::Result;
use crate::ensure;
use smallvec::SmallVec;

pub type Dims = SmallVec<[i64; 4]>;

/// A copy of sizes. `SmallVec::clone` copies element by element, `from_slice` calls memcpy: up to four sizes are plain
/// data.
#[inline]
pub fn copied(dims: &Dims) -> Dims {
    if dims.spilled() {
        return Dims::from_slice(dims);
    }
    // SAFETY: sizes in place own nothing, so a bitwise copy is a value of its own.
    unsafe { std::ptr::read(dims) }
}

/// Number of elements of a shape whose sizes are all known.
#[inline]
pub fn numel(dims: &[i64]) -> usize {
    dims.iter().product::<i64>() as usize
}

/// Number of elements, refusing negative sizes and counts whose bytes do not fit an `isize`.
pub fn checked_numel(dims: &[i64]) -> Result<usize> {
    let mut n: i64 = 1;
    for &d in dims {
        ensure!(d >= 0, InvalidArgument, "a shape must not have negative sizes when memory is needed, got {dims:?}");
        n = match n.checked_mul(d) {
            Some(n) if n <= i64::MAX / 16 => n,
            _ => crate::bail!(ResourceExhausted, "a tensor of shape {dims:?} is larger than memory can be"),
        };
    }
    Ok(n as usize)
}

/// `axis` in `0..rank`, counted from the end where negative.
pub fn axis(op: &str, axis: i64, rank: usize) -> Result<usize> {
    let r = rank as i64;
    ensure!(
        -r <= axis && axis < r,
        InvalidArgument,
        "{op}: axis must be in [{}, {}) for a tensor of rank {rank}, got {axis}",
        -r,
        r
    );
    Ok(if axis < 0 { axis + r } else { axis } as usize)
}

/// The sizes as `usize`, for kernels.
pub fn to_usize(dims: &[i64]) -> SmallVec<[usize; 6]> {
    dims.iter().map(|&d| d as usize).collect()
}
