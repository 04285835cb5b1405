//! Cumulative sums along an axis, in the order of the elements.

use crate::pool;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::shape::copy::{has_transpose8, transpose8};
use crate::simd;
use crate::types::Number;

/// Elements per chunk.
const GRAIN: usize = 16 * 1024;
/// Columns of a strip of a large matrix.
const STRIP: usize = 256;

/// Cumulative sums of x = [outer, n, inner] along n. `exclusive`: without the element itself; `reverse`: from the end.
pub fn cumsum<T: Number>(x: &[T], n: usize, inner: usize, exclusive: bool, reverse: bool, out: &mut [T]) {
    assert_eq!(x.len(), out.len());
    if x.is_empty() {
        return;
    }
    let slab = n * inner;
    assert_eq!(x.len() % slab, 0);
    if inner == 1 {
        let rows = (GRAIN / n).clamp(1, 1024).next_multiple_of(8);
        return pool::parts(out, rows * n, |start, part| {
            for (i, group) in part.chunks_mut(8 * n).enumerate() {
                let x = &x[start + i * 8 * n..][..group.len()];
                match group.len() / n {
                    8 => scan_rows::<T, 8>(x, n, exclusive, reverse, group),
                    _ => group
                        .chunks_mut(n)
                        .zip(x.chunks(n))
                        .for_each(|(o, x)| scan_rows::<T, 1>(x, n, exclusive, reverse, o)),
                }
            }
        });
    }
    // Columns: strips of each slab, as many as make a chunk.
    let width = if slab <= GRAIN { inner } else { inner.min(STRIP) };
    let strips = inner.div_ceil(width);
    let slabs = out.len() / slab;
    let shared = pool::Shared::new(out);
    pool::ranges(slabs * strips, (GRAIN / (n * width)).max(1), |range| {
        let mut sum = vec![T::ZERO; width];
        for at in range {
            let (slab, first) = (at / strips * slab, at % strips * width);
            let sum = &mut sum[..width.min(inner - first)];
            sum.fill(T::ZERO);
            for step in 0..n {
                let r = if reverse { n - 1 - step } else { step };
                let row = slab + r * inner + first;
                // Pieces of rows that are far apart: the hardware prefetcher does not detect a stream.
                let next = if reverse { row.wrapping_sub(4 * inner) } else { row + 4 * inner };
                simd::prefetch(x.get(next..next.wrapping_add(sum.len())).unwrap_or(&[]));
                let x = &x[row..row + sum.len()];
                // SAFETY: columns of different (slab, strip) are disjoint.
                let out = unsafe { shared.part(row..row + sum.len()) };
                for ((o, &v), s) in out.iter_mut().zip(x).zip(sum.iter_mut()) {
                    let next = s.add(v);
                    *o = if exclusive { *s } else { next };
                    *s = next;
                }
            }
        }
    });
}

/// R rows at a time, whose sums are independent chains. They pass through a small buffer: rows a power of two apart
/// would evict each other from the cache.
fn scan_rows<T: Number, const R: usize>(x: &[T], n: usize, exclusive: bool, reverse: bool, out: &mut [T]) {
    const STEP: usize = 64;
    assert!(x.len() == R * n && out.len() == R * n);
    let mut sum = [T::ZERO; R];
    let mut buffer = [[T::ZERO; R]; STEP];
    for block in 0..n.div_ceil(STEP) {
        let width = STEP.min(n - block * STEP);
        let first = if reverse { n - block * STEP - width } else { block * STEP };
        let transposed = transpose_in::<T, R>(&x[first..], n, buffer.as_flattened_mut(), width);
        for r in 0..R {
            let row = &x[r * n + first..r * n + first + width];
            row.iter().zip(&mut buffer).skip(transposed).for_each(|(&v, b)| b[r] = v);
        }
        for step in 0..width {
            let line = &mut buffer[if reverse { width - 1 - step } else { step }];
            for r in 0..R {
                let next = sum[r].add(line[r]);
                line[r] = if exclusive { sum[r] } else { next };
                sum[r] = next;
            }
        }
        let transposed = transpose_out::<T, R>(buffer.as_flattened(), &mut out[first..], n, width);
        for r in 0..R {
            let row = &mut out[r * n + first..r * n + first + width];
            row.iter_mut().zip(&buffer).skip(transposed).for_each(|(o, b)| *o = b[r]);
        }
    }
}

/// to[c * R + r] = x[r * n + c] for the first `width` columns, as far as they can be transposed in registers; returns
/// their number.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_variables))]
fn transpose_in<T: Copy, const R: usize>(x: &[T], n: usize, to: &mut [T], width: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if R == 8 && std::mem::size_of::<T>() == 4 && has_transpose8() {
        let whole = width / 8 * 8;
        assert!(whole <= n && x.len() >= 7 * n + whole && to.len() >= 8 * whole);
        for c in (0..whole).step_by(8) {
            // SAFETY: the machine has it; T is four plain bytes; the assertion covers eight elements of eight
            // rows from column c on, and eight lines of eight in `to`.
            unsafe { transpose8(x.as_ptr().add(c).cast(), n as isize, to.as_mut_ptr().add(8 * c).cast(), 8) };
        }
        return whole;
    }
    0
}

/// The reverse: out[r * n + c] = from[c * R + r].
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_variables))]
fn transpose_out<T: Copy, const R: usize>(from: &[T], out: &mut [T], n: usize, width: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if R == 8 && std::mem::size_of::<T>() == 4 && has_transpose8() {
        let whole = width / 8 * 8;
        assert!(whole <= n && out.len() >= 7 * n + whole && from.len() >= 8 * whole);
        for c in (0..whole).step_by(8) {
            // SAFETY: as in `transpose_in`, with the sides exchanged.
            unsafe { transpose8(from.as_ptr().add(8 * c).cast(), 8, out.as_mut_ptr().add(c).cast(), n) };
        }
        return whole;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_sums() {
        let data = |n: usize| (0..n).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect::<Vec<f32>>();
        crate::simd::at_every_level(|_| {
            for (outer, n, inner) in [(1, 1, 1), (19, 33, 1), (8, 1000, 1), (2, 7, 5), (2, 40, 900)] {
                let x = data(outer * n * inner);
                for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
                    let mut got = vec![0.0; x.len()];
                    cumsum(&x, n, inner, exclusive, reverse, &mut got);
                    for o in 0..outer {
                        for i in 0..inner {
                            let mut sum = 0.0;
                            for s in 0..n {
                                let r = if reverse { n - 1 - s } else { s };
                                let at = (o * n + r) * inner + i;
                                let next = sum + x[at];
                                assert_eq!(got[at], if exclusive { sum } else { next });
                                sum = next;
                            }
                        }
                    }
                }
            }
        });
    }
}
