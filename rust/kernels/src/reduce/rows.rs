//! Reductions along rows: 64 accumulators per block, folded in pairs. Rows in memory are read four at once.

use super::fold::{Fold, BLOCK};
use crate::pool;
use crate::simd::{self, Level};
use crate::simd_fn;
use crate::types::Number;

/// Accumulators of a row's inner loop.
const LANES: usize = 64;
/// Bytes by which a row's loop prefetches ahead with AVX-512: the hardware prefetcher stops at the end of each page.
/// (Without AVX-512 prefetching is slower, measured on AMD Zen 3.)
const AHEAD: usize = 4096;
/// Rows that are read interleaved where memory bandwidth is the limit, and elements per turn: one sequential stream
/// does not reach it (AMD Zen 3: 21 GB/s with one, 25 with four).
const RUNS: usize = 4;
const TURN: usize = 4 * LANES;

#[inline(always)]
fn fold_in<T: Number, F: Fold<T>>(lanes: &mut [T; LANES], x: &[T], prefetches: bool) {
    let mut sums = *lanes;
    let mut chunks = x.chunks_exact(LANES);
    for c in &mut chunks {
        if prefetches {
            simd::prefetch_far(c, AHEAD);
        }
        if F::FOURS {
            sums.as_chunks_mut().0.iter_mut().zip(c.as_chunks().0).for_each(|(s, &c)| *s = F::fold4(*s, c));
            continue;
        }
        for i in 0..LANES {
            sums[i] = F::fold(sums[i], c[i]);
        }
    }
    for (l, &v) in sums.iter_mut().zip(chunks.remainder()) {
        *l = F::fold(*l, v);
    }
    *lanes = sums;
}

#[inline(always)]
fn folded<T: Number, F: Fold<T>>(mut lanes: [T; LANES]) -> T {
    let mut n = LANES / 2;
    while n > 0 {
        for i in 0..n {
            lanes[i] = F::fold(lanes[i], lanes[i + n]);
        }
        n /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn row_body<T: Number, F: Fold<T>>(x: &[T]) -> T {
    let mut lanes = [F::start(); LANES];
    fold_in::<T, F>(&mut lanes, x, simd::level() == Level::Avx512);
    folded::<T, F>(lanes)
}

simd_fn! {
    fn row_simd[T: Number, F: Fold<T>](x: &[T]) -> T {
        row_body::<T, F>(x)
    }
}
simd_fn! {
    /// Folds each of `rows`, which are equally long; equal to `row_simd` bit for bit.
    fn rows_simd[T: Number, F: Fold<T>](rows: [&[T]; RUNS]) -> [T; RUNS] {
        let mut lanes = [[F::start(); LANES]; RUNS];
        for at in (0..rows[0].len()).step_by(TURN) {
            for (lanes, row) in lanes.iter_mut().zip(rows) {
                fold_in::<T, F>(lanes, &row[at..row.len().min(at + TURN)], false);
            }
        }
        lanes.map(folded::<T, F>)
    }
}

pub(super) fn row<T: Number, F: Fold<T>>(x: &[T]) -> T {
    if T::HOT {
        row_simd::<T, F>(x)
    } else {
        row_body::<T, F>(x)
    }
}

/// The rows from number `first` on into `out`, where `at` says where each lies; in `RUNS` runs if that `interleave`.
fn fold_rows<'a, T: Number, F: Fold<T>>(first: usize, out: &mut [T], interleave: bool, at: impl Fn(usize) -> &'a [T]) {
    let apart = if interleave { out.len() / RUNS } else { 0 };
    for i in 0..apart {
        let rows: [&[T]; RUNS] = std::array::from_fn(|r| at(first + i + r * apart));
        let alike = rows.iter().all(|r| r.len() == rows[0].len());
        let sums = if alike { rows_simd::<T, F>(rows) } else { rows.map(row::<T, F>) };
        (0..RUNS).for_each(|r| out[i + r * apart] = sums[r]);
    }
    for (i, o) in out.iter_mut().enumerate().skip(apart * RUNS) {
        *o = row::<T, F>(at(first + i));
    }
}

/// out[o] = the fold of row o of `x`; long rows are folded in blocks.
pub(super) fn rows_pass<T: Number, F: Fold<T>>(x: &[T], outer: usize, reduced: usize, out: &mut [T]) {
    let blocks = reduced.div_ceil(BLOCK).max(1);
    let far = simd::streams(std::mem::size_of_val(x));
    if far {
        pool::from_front();
    }
    let interleave = far && T::HOT && reduced >= TURN && simd::level() == Level::Avx2;
    if blocks == 1 {
        let grain = (pool::grain(x.len(), BLOCK) / reduced.max(1)).max(1);
        return pool::parts(out, grain, |first, part| {
            fold_rows::<T, F>(first, part, interleave, |i| &x[i * reduced..(i + 1) * reduced]);
        });
    }
    let mut partial = vec![T::ZERO; outer * blocks];
    pool::parts(&mut partial, pool::grain(x.len(), BLOCK) / BLOCK, |first, part| {
        fold_rows::<T, F>(first, part, interleave, |i| {
            let (o, b) = (i / blocks, i % blocks);
            let start = o * reduced + b * BLOCK;
            &x[start..(start + BLOCK).min((o + 1) * reduced)]
        });
    });
    for (o, blocks) in out.iter_mut().zip(partial.chunks_exact(blocks)) {
        *o = row::<T, F>(blocks);
    }
}
