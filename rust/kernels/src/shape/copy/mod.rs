//! Strided copies and transposes, concat and split, tile, select, one-hot and fill.
//!
//! Large copies use streaming stores (`simd::stream`).

#[cfg(test)]
mod tests;

use crate::pool;
use crate::shape::strides::{in_bounds, numel, Walk};
use crate::simd;
use crate::types::{Number, Plain};

/// Elements per chunk of a parallel run; up to this many run inline.
const GRAIN: usize = 16 * 1024;
/// Side of a square of a blocked transpose: two squares of 4-byte elements fit the first-level cache.
const SQUARE: usize = 64;

/// out = x read from `offset` with `strides` (which may be negative) over `shape`; `out` is contiguous. Implements
/// slices, strided slices, flips, expand and transpose.
///
/// Panics if `x` would be read out of bounds.
pub fn strided<T: Plain>(x: &[T], shape: &[usize], strides: &[isize], offset: isize, out: &mut [T]) {
    assert_eq!(out.len(), numel(shape));
    assert!(in_bounds(shape, strides, offset, x.len()), "a strided read out of bounds");
    if out.is_empty() {
        return;
    }
    let walk = Walk::new(shape, [strides]);
    if transposes(&walk) {
        return transpose_walk(x, &walk, offset, out);
    }
    let step = walk.inner()[0];
    let stream = simd::copy_streams(std::mem::size_of_val(out));
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        walk.runs(start..start + part.len(), |at, [from], n| {
            let from = from + offset;
            let to = &mut part[at - start..at - start + n];
            match step {
                1 => {
                    let x = &x[from as usize..from as usize + n];
                    if stream && n >= 64 {
                        simd::stream(x, to)
                    } else {
                        copy_short(x, to)
                    }
                }
                0 => to.fill(x[from as usize]),
                -1 => {
                    to.iter_mut().zip(x[from as usize + 1 - n..=from as usize].iter().rev()).for_each(|(o, &v)| *o = v)
                }
                step => to.iter_mut().enumerate().for_each(|(i, o)| *o = x[(from + i as isize * step) as usize]),
            }
        });
        if stream {
            simd::stream_end();
        }
    });
}

/// Copies without a call of memcpy for few elements.
#[inline(always)]
fn copy_short<T: Copy>(x: &[T], to: &mut [T]) {
    if x.len() < 16 {
        to.iter_mut().zip(x).for_each(|(o, &v)| *o = v);
    } else {
        to.copy_from_slice(x);
    }
}

/// out = x, in parallel for large slices.
pub fn copy<T: Plain>(x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len());
    strided(x, &[x.len()], &[1], 0, out);
}

/// out = the parts, one after another; it is as long as all of them.
pub fn concatenate<'a, T: Plain>(parts: impl IntoIterator<Item = &'a [T]>, mut out: &mut [T]) {
    for part in parts {
        let (here, rest) = out.split_at_mut(part.len());
        here.copy_from_slice(part);
        out = rest;
    }
}

/// out[offset + index . strides] = x[index], with contiguous x: the inverse of `strided`. Each element of `out` must be
/// written at most once.
pub fn strided_write<T: Plain>(x: &[T], shape: &[usize], out: &mut [T], strides: &[isize], offset: isize) {
    assert_eq!(x.len(), numel(shape));
    assert!(in_bounds(shape, strides, offset, out.len()), "a strided write out of bounds");
    if x.is_empty() {
        return;
    }
    let walk = Walk::new(shape, [strides]);
    let step = walk.inner()[0];
    // Elements that may coincide are written sequentially.
    let grain = if distinct(&walk) { pool::grain(x.len(), GRAIN) } else { x.len() };
    let shared = pool::Shared::new(out);
    pool::ranges(x.len(), grain, |range| {
        walk.runs(range, |at, [to], n| {
            let (to, x) = (to + offset, &x[at..at + n]);
            match step {
                // SAFETY: in bounds by the assertion above, and runs of different chunks are disjoint.
                1 => copy_short(x, unsafe { shared.part(to as usize..to as usize + n) }),
                step => x.iter().enumerate().for_each(|(i, &v)| {
                    let at = (to + i as isize * step) as usize;
                    // SAFETY: as above.
                    unsafe { shared.part(at..at + 1)[0] = v };
                }),
            }
        });
    });
}

/// Whether different indices certainly have different offsets: each stride exceeds the span of the smaller ones.
fn distinct(walk: &Walk<1>) -> bool {
    let mut axes: Vec<(usize, usize)> =
        walk.shape.iter().zip(&walk.strides).map(|(&d, s)| (s[0].unsigned_abs(), d)).collect();
    axes.sort_unstable();
    let mut span = 0;
    axes.iter().all(|&(stride, d)| {
        let clear = d == 1 || stride > span;
        span += stride * (d - 1);
        clear
    })
}

/// Whether the innermost axis is strided while another one is contiguous: then squares are copied instead of runs.
fn transposes(walk: &Walk<1>) -> bool {
    let axes = walk.shape.len();
    let inner = walk.inner()[0];
    axes >= 2
        && inner.unsigned_abs() > 1
        && walk.shape[axes - 1] >= 4
        && walk.strides[..axes - 1].iter().any(|s| s[0] == 1)
}

/// out[.., i, .., j] with x contiguous along axis i: a blocked transpose for every index of the other axes.
fn transpose_walk<T: Plain>(x: &[T], walk: &Walk<1>, offset: isize, out: &mut [T]) {
    let axes = walk.shape.len();
    let fast = walk.strides.iter().position(|s| s[0] == 1).expect("an axis with stride one");
    let (rows, cols) = (walk.shape[fast], walk.shape[axes - 1]);
    let x_step = walk.inner()[0];
    let out_strides = crate::shape::strides::strides_of(&walk.shape);
    // The other axes, flattened.
    let others: Vec<usize> = (0..axes - 1).filter(|&a| a != fast).collect();
    let slabs: usize = others.iter().map(|&a| walk.shape[a]).product();
    let bands = rows.div_ceil(SQUARE);
    let out_step = out_strides[fast] as usize;
    let stream = simd::streams(std::mem::size_of_val(out)) && out_step * std::mem::size_of::<T>() >= 1024;
    let shared = pool::Shared::new(out);
    let grain = (GRAIN / (SQUARE.min(rows) * cols).max(1)).max(1);
    pool::ranges(slabs * bands, grain, |range| {
        let mut buffer = [T::default(); SQUARE * SQUARE];
        for at in range {
            let (mut slab, band) = (at / bands, at % bands);
            let (mut from, mut to) = (offset, 0usize);
            for &a in others.iter().rev() {
                let i = slab % walk.shape[a];
                slab /= walk.shape[a];
                from += i as isize * walk.strides[a][0];
                to += i * out_strides[a] as usize;
            }
            let first = band * SQUARE;
            let height = SQUARE.min(rows - first);
            for left in (0..cols).step_by(SQUARE) {
                let width = SQUARE.min(cols - left);
                let base = from + first as isize + left as isize * x_step;
                square(x, base, x_step, height, width, &mut buffer);
                for r in 0..height {
                    let start = to + (first + r) * out_step + left;
                    // SAFETY: elements of `out` of different (slab, row, column range) are disjoint.
                    let row = unsafe { shared.part(start..start + width) };
                    let line = &buffer[r * SQUARE..r * SQUARE + width];
                    if stream {
                        simd::stream(line, row);
                    } else {
                        copy_short(line, row);
                    }
                }
            }
        }
        if stream {
            simd::stream_end();
        }
    });
}

/// buffer[r][c] = x[base + r + c * step]; whole blocks are transposed in registers.
#[inline]
fn square<T: Plain>(x: &[T], base: isize, step: isize, height: usize, width: usize, buffer: &mut [T; SQUARE * SQUARE]) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if std::mem::size_of::<T>() == 4 && has_transpose8() && height >= 8 && width >= 8 {
        let last = base + (height - 1) as isize + (width - 1) as isize * step;
        assert!(base >= 0 && last >= 0 && (last.max(base + (height - 1) as isize) as usize) < x.len());
        let (h, w) = (height / 8 * 8, width / 8 * 8);
        for c in (0..w).step_by(8) {
            for r in (0..h).step_by(8) {
                // SAFETY: the machine has it; T is four plain bytes; x holds rows r..r+8 of columns c..c+8 (the
                // assertion checks the far corner), and so does the buffer.
                unsafe {
                    let from = (x.as_ptr() as *const f32).offset(base + r as isize + c as isize * step);
                    let to = (buffer.as_mut_ptr() as *mut f32).add(r * SQUARE + c);
                    transpose8(from, step, to, SQUARE);
                }
            }
        }
        return rest(x, base, step, height, width, h, w, buffer);
    }
    rest(x, base, step, height, width, 0, 0, buffer)
}

/// The part of a square outside its top left h x w.
fn rest<T: Plain>(
    x: &[T],
    base: isize,
    step: isize,
    height: usize,
    width: usize,
    h: usize,
    w: usize,
    buffer: &mut [T; SQUARE * SQUARE],
) {
    for c in 0..width {
        let from = base + c as isize * step;
        let first = if c < w { h } else { 0 };
        let column = &x[(from + first as isize) as usize..(from + height as isize) as usize];
        for (r, &v) in column.iter().enumerate() {
            buffer[(first + r) * SQUARE + c] = v;
        }
    }
}

/// Whether this machine has `transpose8`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn has_transpose8() -> bool {
    cfg!(target_arch = "aarch64") || simd::level() >= simd::Level::Avx2
}

#[cfg(target_arch = "aarch64")]
pub(crate) use simd::neon::transpose8;

/// An 8 x 8 transpose of 4-byte elements in registers.
///
/// # Safety
/// The processor has AVX2; 8 elements must be readable at each of `from + i * from_step`, and writable at `to + i *
/// to_step`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn transpose8(from: *const f32, from_step: isize, to: *mut f32, to_step: usize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract covers every address.
    unsafe {
        let r: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.offset(i as isize * from_step)));
        let lo = |a, b| _mm256_unpacklo_ps(a, b);
        let hi = |a, b| _mm256_unpackhi_ps(a, b);
        let t = [
            lo(r[0], r[1]),
            hi(r[0], r[1]),
            lo(r[2], r[3]),
            hi(r[2], r[3]),
            lo(r[4], r[5]),
            hi(r[4], r[5]),
            lo(r[6], r[7]),
            hi(r[6], r[7]),
        ];
        let u = [
            _mm256_shuffle_ps::<0x44>(t[0], t[2]),
            _mm256_shuffle_ps::<0xee>(t[0], t[2]),
            _mm256_shuffle_ps::<0x44>(t[1], t[3]),
            _mm256_shuffle_ps::<0xee>(t[1], t[3]),
            _mm256_shuffle_ps::<0x44>(t[4], t[6]),
            _mm256_shuffle_ps::<0xee>(t[4], t[6]),
            _mm256_shuffle_ps::<0x44>(t[5], t[7]),
            _mm256_shuffle_ps::<0xee>(t[5], t[7]),
        ];
        for i in 0..4 {
            _mm256_storeu_ps(to.add(i * to_step), _mm256_permute2f128_ps::<0x20>(u[i], u[i + 4]));
            _mm256_storeu_ps(to.add((i + 4) * to_step), _mm256_permute2f128_ps::<0x31>(u[i], u[i + 4]));
        }
    }
}

/// out = x with its axes permuted: out's axis i is x's axis `perm[i]`.
pub fn transpose<T: Plain>(x: &[T], shape: &[usize], perm: &[usize], out: &mut [T]) {
    let own = crate::shape::strides::strides_of(shape);
    let to: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let strides: Vec<isize> = perm.iter().map(|&p| own[p]).collect();
    strided(x, &to, &strides, 0, out);
}

/// Concatenates parts along an axis. Part i is [outer, lens[i], inner]; `out` is [outer, sum of lens, inner].
pub fn concat<T: Plain>(parts: &[&[T]], lens: &[usize], outer: usize, inner: usize, out: &mut [T]) {
    assert_eq!(parts.len(), lens.len());
    assert!(parts.iter().zip(lens).all(|(p, &l)| p.len() == outer * l * inner));
    let line = lens.iter().sum::<usize>() * inner;
    assert_eq!(out.len(), outer * line);
    let stream = simd::copy_streams(std::mem::size_of_val(out));
    let ends: Vec<usize> = lens
        .iter()
        .scan(0, |end, l| {
            *end += l * inner;
            Some(*end)
        })
        .collect();
    if outer > 1 && line <= GRAIN {
        // Several rows at a time: long sequential reads, and writes close together.
        let rows = (2 * GRAIN / line.max(1)).max(1);
        return pool::parts(out, rows * line, |start, to| {
            let few = (2048 / line.max(1)).max(1);
            for (block, to) in to.chunks_mut(few * line).enumerate() {
                let first = start / line + block * few;
                for ((part, &len), &end) in parts.iter().zip(lens).zip(&ends) {
                    let run = len * inner;
                    for (r, row) in to.chunks_exact_mut(line).enumerate() {
                        let x = &part[(first + r) * run..(first + r + 1) * run];
                        let o = &mut row[end - run..end];
                        if stream && run >= 64 {
                            simd::stream(x, o);
                        } else {
                            copy_short(x, o);
                        }
                    }
                }
            }
            if stream {
                simd::stream_end();
            }
        });
    }
    // In the order of `out`: one stream of writes, one stream of reads per part.
    pool::parts(out, 2 * GRAIN, |start, to| {
        let (mut done, mut row, mut column) = (0, start / line, start % line);
        let mut p = ends.partition_point(|&end| end <= column);
        while done < to.len() {
            let begin = ends[p] - lens[p] * inner;
            let n = (ends[p] - column).min(to.len() - done);
            let from = row * (ends[p] - begin) + column - begin;
            let (x, o) = (&parts[p][from..from + n], &mut to[done..done + n]);
            if stream && n >= 64 {
                simd::stream(x, o);
            } else {
                copy_short(x, o);
            }
            done += n;
            column += n;
            p += 1;
            if column == line {
                (row, column, p) = (row + 1, 0, 0);
            }
            while p < lens.len() - 1 && ends[p] <= column {
                p += 1;
            }
        }
        if stream {
            simd::stream_end();
        }
    });
}

/// out = x repeated `times[i]` times along each axis.
pub fn tile<T: Plain>(x: &[T], shape: &[usize], times: &[usize], out: &mut [T]) {
    assert_eq!(shape.len(), times.len());
    let own = crate::shape::strides::strides_of(shape);
    let dims: Vec<usize> = times.iter().zip(shape).flat_map(|(&t, &d)| [t, d]).collect();
    let strides: Vec<isize> = own.iter().flat_map(|&s| [0, s]).collect();
    strided(x, &dims, &strides, 0, out);
}

/// The part [outer, from..from + len, inner] of x = [outer, total, inner].
pub fn split_one<T: Plain>(x: &[T], outer: usize, total: usize, inner: usize, from: usize, len: usize, out: &mut [T]) {
    assert!(from + len <= total);
    let strides = [(total * inner) as isize, 1];
    strided(x, &[outer, len * inner], &strides, (from * inner) as isize, out);
}

/// out[i] = value.
pub fn fill<T: Plain>(value: T, out: &mut [T]) {
    let stream = simd::streams(std::mem::size_of_val(out));
    let pattern = [value; 1024];
    pool::parts(out, 4 * GRAIN, |_, part| match stream {
        false => part.fill(value),
        true => {
            part.chunks_mut(1024).for_each(|c| simd::stream(&pattern[..c.len()], c));
            simd::stream_end();
        }
    });
}

/// out[i] = if mask[i] { a[i] } else { b[i] }.
pub fn select<T: Plain>(mask: &[bool], a: &[T], b: &[T], out: &mut [T]) {
    assert!(mask.len() == out.len() && a.len() == out.len() && b.len() == out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        let range = start..start + part.len();
        let (mask, a, b) = (&mask[range.clone()], &a[range.clone()], &b[range]);
        // SAFETY: words have the size of T, and T is plain; each result has the bytes of one operand.
        unsafe {
            match std::mem::size_of::<T>() {
                1 => select_u8(mask, words(a), words(b), words_mut(part)),
                2 => select_u16(mask, words(a), words(b), words_mut(part)),
                4 => select_u32(mask, words(a), words(b), words_mut(part)),
                8 => select_u64(mask, words(a), words(b), words_mut(part)),
                _ => part.iter_mut().enumerate().for_each(|(i, o)| *o = if mask[i] { a[i] } else { b[i] }),
            }
        }
    });
}

/// # Safety
/// W must be as large as T and no more aligned, and any bytes of a T must be a W.
unsafe fn words<T, W>(x: &[T]) -> &[W] {
    debug_assert!(std::mem::size_of::<T>() == std::mem::size_of::<W>());
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(x.as_ptr() as *const W, x.len()) }
}

/// # Safety
/// As for `words`; what is written must be the bytes of a T.
unsafe fn words_mut<T, W>(x: &mut [T]) -> &mut [W] {
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr() as *mut W, x.len()) }
}

/// Selects by bit masks: LLVM would compile a condition per element to a branch.
macro_rules! select_words {
    ($($name:ident: $w:ty),*) => {$(
        crate::simd_fn! {
            fn $name(mask: &[bool], a: &[$w], b: &[$w], out: &mut [$w]) {
                let n = out.len();
                let (mask, a, b) = (&mask[..n], &a[..n], &b[..n]);
                for i in 0..n {
                    let m = (mask[i] as $w).wrapping_neg();
                    out[i] = (a[i] & m) | (b[i] & !m);
                }
            }
        }
    )*};
}
select_words!(select_u8: u8, select_u16: u16, select_u32: u32, select_u64: u64);

/// An index is outside 0..limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    pub index: i64,
    pub limit: usize,
}

/// out[i, ids[i]] = 1, all else 0; with `lenient`, indices outside 0..depth result in rows of zeros.
pub fn one_hot<T: Number>(ids: &[i64], depth: usize, lenient: bool, out: &mut [T]) -> Result<(), OutOfRange> {
    assert_eq!(out.len(), ids.len() * depth);
    if !lenient {
        if let Some(&index) = ids.iter().find(|&&i| i < 0 || i as usize >= depth) {
            return Err(OutOfRange { index, limit: depth });
        }
    }
    if depth == 0 {
        return Ok(());
    }
    let rows = (GRAIN / depth).max(1);
    pool::parts(out, rows * depth, |start, part| {
        part.fill(T::ZERO);
        for (row, &id) in part.chunks_exact_mut(depth).zip(&ids[start / depth..]) {
            if id >= 0 && (id as usize) < depth {
                row[id as usize] = T::ONE;
            }
        }
    });
    Ok(())
}
