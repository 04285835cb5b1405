//! Reductions over any set of axes of a contiguous tensor.
//!
//! The axes merge into alternating kept and reduced groups; each reduced group is one pass over [outer, reduced,
//! inner]. Sums of fixed blocks are added in a fixed order: results are equal for any number of threads and at every
//! SIMD level, and more exact than one running sum.

mod fold;
pub mod histogram;
mod rows;

use crate::pool;
use crate::simd_fn;
use crate::types::{Half, Number, Plain};
use fold::{Fold, Max, Min, Prod, Sum, BLOCK};
use half::{bf16, f16};
use rows::rows_pass;

/// Columns that are accumulated together: their sums stay in the first-level cache.
const COLUMNS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Prod,
    Max,
    Min,
}

/// acc[k] = fold of acc[k] with the `rows` rows of `x` (row i starts at i * stride).
#[inline(always)]
fn columns_body<T: Number, F: Fold<T>>(x: &[T], stride: usize, rows: usize, acc: &mut [T]) {
    let n = acc.len();
    let mut r = 0;
    while r + 4 <= rows {
        let row = |i: usize| &x[(r + i) * stride..(r + i) * stride + n];
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let mut done = 0;
        if F::FOURS {
            let acc = acc.as_chunks_mut().0;
            let m = acc.len();
            let [a, b, c, d] = [a, b, c, d].map(|row| &row.as_chunks().0[..m]);
            for k in 0..m {
                acc[k] = F::fold4(acc[k], F::fold4(F::fold4(a[k], b[k]), F::fold4(c[k], d[k])));
            }
            done = 4 * m;
        }
        for k in done..n {
            acc[k] = F::fold(acc[k], F::fold(F::fold(a[k], b[k]), F::fold(c[k], d[k])));
        }
        r += 4;
    }
    while r < rows {
        let a = &x[r * stride..r * stride + n];
        for k in 0..n {
            acc[k] = F::fold(acc[k], a[k]);
        }
        r += 1;
    }
}

simd_fn! {
    fn columns_simd[T: Number, F: Fold<T>](x: &[T], stride: usize, rows: usize, acc: &mut [T]) {
        columns_body::<T, F>(x, stride, rows, acc)
    }
}

fn columns<T: Number, F: Fold<T>>(x: &[T], stride: usize, rows: usize, acc: &mut [T]) {
    if T::HOT {
        columns_simd::<T, F>(x, stride, rows, acc)
    } else {
        columns_body::<T, F>(x, stride, rows, acc)
    }
}

/// One pass: out[o, i] = fold over r of x[o, r, i].
fn pass<T: Number, F: Fold<T>>(x: &[T], outer: usize, reduced: usize, inner: usize, out: &mut [T]) {
    if inner == 1 {
        rows_pass::<T, F>(x, outer, reduced, out)
    } else {
        columns_pass::<T, F>(x, reduced, inner, out)
    }
}

fn columns_pass<T: Number, F: Fold<T>>(x: &[T], reduced: usize, inner: usize, out: &mut [T]) {
    // Blocks of rows of a fixed size, large enough for a chunk.
    let width = inner.min(COLUMNS);
    let rows = (8 * BLOCK / width).clamp(32, 1024);
    let blocks = reduced.div_ceil(rows).max(1);
    let strips = inner.div_ceil(width);
    if blocks == 1 {
        // Short columns: whole slabs [reduced, inner] or strips of them, several per chunk.
        let grain = (BLOCK / (reduced * width).max(1)).max(1);
        let outer = out.len() / inner;
        let shared = pool::Shared::new(out);
        return pool::ranges(outer * strips, grain, |range| {
            for at in range {
                let (o, first) = (at / strips, at % strips * width);
                let n = width.min(inner - first);
                // SAFETY: parts of `out` of different (o, strip) are disjoint.
                let acc = unsafe { shared.part(o * inner + first..o * inner + first + n) };
                acc.fill(F::start());
                columns::<T, F>(&x[o * reduced * inner + first..], inner, reduced, acc);
            }
        });
    }
    for (o, out) in out.chunks_exact_mut(inner).enumerate() {
        let x = &x[o * reduced * inner..(o + 1) * reduced * inner];
        let mut partial = vec![F::start(); blocks * inner];
        let shared = pool::Shared::new(&mut partial);
        pool::chunks(blocks * strips, |at| {
            let (b, first) = (at / strips, at % strips * width);
            let n = width.min(inner - first);
            // SAFETY: parts of `partial` of different (block, strip) are disjoint.
            let acc = unsafe { shared.part(b * inner + first..b * inner + first + n) };
            columns::<T, F>(&x[b * rows * inner + first..], inner, rows.min(reduced - b * rows), acc);
        });
        out.fill(F::start());
        columns::<T, F>(&partial, inner, blocks, out);
    }
}

/// The shape as groups of adjacent axes that are all kept or all reduced: (length, reduced). Axes of length one are
/// dropped.
fn groups(shape: &[usize], axes: &[bool]) -> Vec<(usize, bool)> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (&d, &reduced) in shape.iter().zip(axes) {
        match groups.last_mut() {
            _ if d == 1 => {}
            Some(last) if last.1 == reduced => last.0 *= d,
            _ => groups.push((d, reduced)),
        }
    }
    groups
}

fn over_axes<T: Number, F: Fold<T>>(x: &[T], shape: &[usize], axes: &[bool], out: &mut [T]) {
    if x.is_empty() {
        return out.fill(F::start());
    }
    let mut groups = groups(shape, axes);
    let mut owned: Option<Vec<T>> = None;
    // Innermost group first: it reduces the data with the least memory traffic.
    while let Some(g) = groups.iter().rposition(|g| g.1) {
        let outer: usize = groups[..g].iter().map(|g| g.0).product();
        let inner: usize = groups[g + 1..].iter().map(|g| g.0).product();
        let reduced = groups.remove(g).0;
        let from: &[T] = owned.as_deref().unwrap_or(x);
        if groups.iter().any(|g| g.1) {
            let mut next = vec![T::ZERO; outer * inner];
            pass::<T, F>(from, outer, reduced, inner, &mut next);
            owned = Some(next);
        } else {
            pass::<T, F>(from, outer, reduced, inner, out);
            return;
        }
    }
    out.copy_from_slice(x); // nothing was reduced
}

/// A type with reductions.
pub trait Reducible: Plain {
    fn reduce(op: Reduce, x: &[Self], shape: &[usize], axes: &[bool], out: &mut [Self]);
}

macro_rules! reducible {
    ($($t:ty),*) => {$(
        impl Reducible for $t {
            fn reduce(op: Reduce, x: &[$t], shape: &[usize], axes: &[bool], out: &mut [$t]) {
                match op {
                    Reduce::Sum => over_axes::<$t, Sum>(x, shape, axes, out),
                    Reduce::Prod => over_axes::<$t, Prod>(x, shape, axes, out),
                    Reduce::Max => over_axes::<$t, Max>(x, shape, axes, out),
                    Reduce::Min => over_axes::<$t, Min>(x, shape, axes, out),
                }
            }
        }
    )*};
}
reducible!(u8, i8, i16, i32, i64, f32, f64);

macro_rules! reducible_halves {
    ($($t:ty),*) => {$(
        impl Reducible for $t {
            /// Accumulates in f32; rounds once.
            fn reduce(op: Reduce, x: &[$t], shape: &[usize], axes: &[bool], out: &mut [$t]) {
                let mut wide = vec![0.0f32; x.len()];
                pool::parts(&mut wide, BLOCK, |at, part| <$t>::widen(&x[at..at + part.len()], part));
                let mut result = vec![0.0f32; out.len()];
                f32::reduce(op, &wide, shape, axes, &mut result);
                <$t>::narrow(&result, out);
            }
        }
    )*};
}
reducible_halves!(f16, bf16);

fn check(len: usize, shape: &[usize], axes: &[bool], out: usize) -> usize {
    assert_eq!(shape.len(), axes.len());
    assert_eq!(len, crate::shape::strides::numel(shape));
    let (mut kept, mut reduced) = (1, 1);
    shape.iter().zip(axes).for_each(|(&d, &r)| if r { reduced *= d } else { kept *= d });
    assert_eq!(out, kept, "the output has as many elements as the kept axes");
    reduced
}

/// Reduces the axes marked in `axes`; `out` holds the kept ones, contiguous. Without elements a sum is 0, a product 1,
/// a maximum the lowest value.
pub fn reduce<T: Reducible>(op: Reduce, x: &[T], shape: &[usize], axes: &[bool], out: &mut [T]) {
    check(x.len(), shape, axes, out.len());
    if out.is_empty() {
        return;
    }
    T::reduce(op, x, shape, axes, out)
}

/// The arithmetic mean; integer division truncates, as in Paddle. NaN without elements (0 for integers).
pub fn mean<T: Reducible + Number>(x: &[T], shape: &[usize], axes: &[bool], out: &mut [T]) {
    let n = check(x.len(), shape, axes, out.len());
    reduce(Reduce::Sum, x, shape, axes, out);
    let n = T::from_f64(n as f64);
    out.iter_mut().for_each(|o| *o = o.div(n));
}

/// Whether all (or any) elements are true.
pub fn all_any(all: bool, x: &[bool], shape: &[usize], axes: &[bool], out: &mut [bool]) {
    // SAFETY: a bool is one byte, 0 or 1.
    let bytes = unsafe { std::slice::from_raw_parts(x.as_ptr() as *const u8, x.len()) };
    let mut result = vec![0u8; out.len()];
    let op = if all { Reduce::Min } else { Reduce::Max };
    reduce(op, bytes, shape, axes, &mut result);
    // Without elements a minimum is 255 and a maximum 0: true and false.
    out.iter_mut().zip(&result).for_each(|(o, &v)| *o = v != 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn over_no_elements() {
        for (shape, axes) in
            [([0, 100, 33, 7], [true, false, false, false]), ([50, 0, 99, 2], [false, true, false, true])]
        {
            let n = shape.iter().zip(axes).filter(|(_, r)| !r).map(|(&d, _)| d).product();
            let mut out = vec![7i32; n];
            reduce(Reduce::Sum, &[], &shape, &axes, &mut out);
            assert!(out.iter().all(|&v| v == 0));
            reduce(Reduce::Prod, &[], &shape, &axes, &mut out);
            assert!(out.iter().all(|&v| v == 1));
        }
    }

    fn naive(x: &[f32], shape: &[usize], axes: &[bool], f: fn(f64, f64) -> f64, start: f64) -> Vec<f64> {
        let kept: usize = shape.iter().zip(axes).filter(|(_, &r)| !r).map(|(&d, _)| d).product();
        let mut out = vec![start; kept];
        for (flat, &v) in x.iter().enumerate() {
            let (mut rest, mut at, mut step) = (flat, 0, 1);
            for (&d, &r) in shape.iter().zip(axes).rev() {
                if !r {
                    at += rest % d * step;
                    step *= d;
                }
                rest /= d;
            }
            out[at] = f(out[at], v as f64);
        }
        out
    }

    #[test]
    fn any_axes_at_every_level() {
        let shapes: [&[usize]; 9] =
            [&[1], &[7], &[100_003], &[3, 50_000], &[5000, 3], &[70, 33], &[4, 3, 5, 2], &[2, 40, 3, 41], &[0, 4]];
        let sums = std::sync::Mutex::new(std::collections::HashMap::new());
        at_every_level(|level| {
            for shape in shapes {
                let n: usize = shape.iter().product();
                let x: Vec<f32> = (0..n).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect();
                for mask in 0..1 << shape.len() {
                    let axes: Vec<bool> = (0..shape.len()).map(|a| mask >> a & 1 == 1).collect();
                    let sum = naive(&x, shape, &axes, |a, b| a + b, 0.0);
                    let mut got = vec![0.0f32; sum.len()];
                    reduce(Reduce::Sum, &x, shape, &axes, &mut got);
                    let scale = (n as f64 / sum.len().max(1) as f64).max(1.0);
                    for (g, w) in got.iter().zip(&sum) {
                        assert!(
                            (*g as f64 - w).abs() < 2e-6 * scale.sqrt() * 10.0,
                            "{level:?} {shape:?} {axes:?}: {g} {w}"
                        );
                    }
                    let bits: Vec<u32> = got.iter().map(|g| g.to_bits()).collect();
                    let first = sums.lock().unwrap().entry((shape, mask)).or_insert(bits.clone()).clone();
                    assert_eq!(bits, first, "levels agree: {shape:?} {axes:?}");
                    let max = naive(&x, shape, &axes, f64::max, f64::NEG_INFINITY);
                    reduce(Reduce::Max, &x, shape, &axes, &mut got);
                    assert!(got.iter().zip(&max).all(|(g, w)| *g as f64 == *w));
                    let min = naive(&x, shape, &axes, f64::min, f64::INFINITY);
                    reduce(Reduce::Min, &x, shape, &axes, &mut got);
                    assert!(got.iter().zip(&min).all(|(g, w)| *g as f64 == *w));
                }
            }
        });
    }

    #[test]
    fn threads_do_not_change_a_sum() {
        let x: Vec<f32> = (0..3_000_000).map(|i| (i as f32 * 0.37).sin()).collect();
        for (shape, axes) in [
            (vec![3_000_000], vec![true]),
            (vec![3000, 1000], vec![true, false]),
            (vec![3, 1_000_000], vec![false, true]),
        ] {
            let mut results = Vec::new();
            for threads in [1, 2, 3] {
                pool::set_threads(threads);
                let mut out = vec![0.0; shape.iter().zip(&axes).map(|(&d, &r)| if r { 1 } else { d }).product()];
                reduce(Reduce::Sum, &x, &shape, &axes, &mut out);
                results.push(out);
            }
            assert!(results.windows(2).all(|w| w[0] == w[1]));
        }
        pool::set_threads(0);
    }

    /// Inputs larger than the caches, with rows and blocks of unequal lengths: each row equals its reduction alone.
    #[test]
    fn size_does_not_change_a_row() {
        for (height, width) in [(1100, 1001), (3, 1_600_003), (1, 5_000_011)] {
            let x: Vec<f32> = (0..height * width).map(|i| ((i * 7919) % 1013) as f32 * 0.37 - 99.0).collect();
            for op in [Reduce::Sum, Reduce::Max] {
                let mut all = vec![0.0; height];
                reduce(op, &x, &[height, width], &[false, true], &mut all);
                for (row, want) in x.chunks_exact(width).zip(&all) {
                    let mut one = [0.0];
                    let parts: Vec<f32> = row
                        .chunks(BLOCK)
                        .map(|p| {
                            reduce(op, p, &[p.len()], &[true], &mut one);
                            one[0]
                        })
                        .collect();
                    reduce(op, &parts, &[parts.len()], &[true], &mut one);
                    assert_eq!(one[0].to_bits(), want.to_bits(), "{op:?} {height} x {width}");
                }
            }
        }
    }

    /// NaN at any place, and infinities and zeros of both signs, along rows and columns with whole and partial vectors.
    #[test]
    fn extremes_keep_nan() {
        fn check<T: Reducible + Number + std::fmt::Debug>(n: usize) {
            for at in 0..n {
                for (axes, shape) in [([false, true], [1, n]), ([true, false], [n, 1]), ([true, false], [n, 7])] {
                    let width = if axes[0] { shape[1] } else { 1 };
                    let mut x: Vec<T> = (0..n * width).map(|i| T::from_f64(((i * 37) % 11) as f64 - 5.0)).collect();
                    let mut out = vec![T::ZERO; width];
                    for (value, op, want) in [
                        (f64::NEG_INFINITY, Reduce::Min, f64::NEG_INFINITY),
                        (f64::INFINITY, Reduce::Max, f64::INFINITY),
                        (f64::NAN, Reduce::Max, f64::NAN),
                        (f64::NAN, Reduce::Min, f64::NAN),
                    ] {
                        x[at * width] = T::from_f64(value);
                        reduce(op, &x, &shape, &axes, &mut out);
                        let got = out[0].to_f64();
                        assert!(
                            got == want || got.is_nan() && want.is_nan(),
                            "{op:?} of {value} at {at} of {n}: {got}"
                        );
                        assert!(out[1..].iter().all(|v| v.to_f64().abs() <= 5.0));
                    }
                }
            }
        }
        for n in [1, 5, 64, 70, 131] {
            check::<f32>(n);
            check::<f64>(n);
        }
    }

    #[test]
    fn corner_cases() {
        let mut out = [0.0f32];
        reduce(Reduce::Max, &[1.0, f32::NAN, 3.0], &[3], &[true], &mut out);
        assert!(out[0].is_nan());
        reduce(Reduce::Sum, &[], &[0], &[true], &mut out);
        assert_eq!(out, [0.0]);
        let mut out = [0i32; 2];
        reduce(Reduce::Prod, &[1, 2, 3, 4], &[2, 2], &[true, false], &mut out);
        assert_eq!(out, [3, 8]);
        let mut out = [0.0f32; 2];
        mean(&[1.0, 2.0, 3.0, 4.0], &[2, 2], &[false, true], &mut out);
        assert_eq!(out, [1.5, 3.5]);
        let (mut all, mut any) = ([false; 2], [false; 2]);
        all_any(true, &[true, true, false, true], &[2, 2], &[false, true], &mut all);
        all_any(false, &[false, false, false, true], &[2, 2], &[false, true], &mut any);
        assert_eq!((all, any), ([true, false], [false, true]));
        let x = vec![f16::from_f32(1.0); 5000];
        let mut out = [f16::ZERO];
        reduce(Reduce::Sum, &x, &[5000], &[true], &mut out);
        assert_eq!(out[0].to_f32(), 5000.0);
    }
}
