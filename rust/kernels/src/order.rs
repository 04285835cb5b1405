//! Argmax and argmin, top-k and sorting along an axis.
//!
//! Equal values keep the order of their positions everywhere. NaN counts as the greatest value.

use crate::pool;
use crate::ranking::sort_keys;
use crate::simd_fn;
use crate::types::{Number, Plain};
use half::{bf16, f16};

/// Elements per chunk.
const GRAIN: usize = 16 * 1024;

/// Positions of the greatest (or least) values of x = [outer, n, inner] along n: the first of equal values, or the
/// first NaN. `n` is not zero.
pub fn arg_extreme<T: Number>(greatest: bool, x: &[T], n: usize, inner: usize, out: &mut [i64]) {
    assert!(n > 0 && x.len() == out.len() * n);
    if out.is_empty() {
        return;
    }
    if inner == 1 {
        let rows = (GRAIN / n).max(1);
        return pool::parts(out, rows, |start, part| {
            for (i, o) in part.iter_mut().enumerate() {
                let row = &x[(start + i) * n..(start + i + 1) * n];
                *o = if T::HOT { first_simd(greatest, row) } else { first_body(greatest, row) } as i64;
            }
        });
    }
    // Columns, strip by strip: the best value of each column so far.
    let width = inner.min(if n * inner > GRAIN { 256 } else { 1024 });
    let strips = inner.div_ceil(width);
    let outer = out.len() / inner;
    let shared = pool::Shared::new(out);
    let grain = (GRAIN / (n * width)).max(1);
    pool::ranges(outer * strips, grain, |range| {
        for at in range {
            let (o, first) = (at / strips, at % strips * width);
            let w = width.min(inner - first);
            // SAFETY: parts of `out` of different (outer, strip) are disjoint.
            let best_at = unsafe { shared.part(o * inner + first..o * inner + first + w) };
            let row = |r: usize| &x[(o * n + r) * inner + first..][..w];
            let mut best = row(0).to_vec();
            best_at.fill(0);
            for r in 1..n {
                for ((b, at), &v) in best.iter_mut().zip(best_at.iter_mut()).zip(row(r)) {
                    let better = if greatest { v > *b } else { v < *b };
                    if better || (v.is_nan() && !b.is_nan()) {
                        (*b, *at) = (v, r as i64);
                    }
                }
            }
        }
    });
}

simd_fn! {
    fn first_simd[T: Number](greatest: bool, x: &[T]) -> usize {
        first_body(greatest, x)
    }
}

/// Finds the extreme value first (vectorised), then its position, in a second pass over the cached row.
#[inline(always)]
fn first_body<T: Number>(greatest: bool, x: &[T]) -> usize {
    const LANES: usize = 64;
    let mut lanes = [x[0]; LANES];
    let better = |a: T, b: T| {
        let take = (if greatest { a > b } else { a < b }) | a.is_nan();
        if take {
            a
        } else {
            b
        }
    };
    let mut chunks = x.chunks_exact(LANES);
    for c in &mut chunks {
        for i in 0..LANES {
            lanes[i] = better(c[i], lanes[i]);
        }
    }
    let best = lanes.iter().chain(chunks.remainder()).fold(x[0], |b, &v| if b.is_nan() { b } else { better(v, b) });
    let nan = best.is_nan();
    for (i, c) in x.chunks(LANES).enumerate() {
        let mut hit = false;
        for &v in c {
            hit |= if nan { v.is_nan() } else { v == best };
        }
        if hit {
            let at = c.iter().position(|&v| if nan { v.is_nan() } else { v == best });
            return i * LANES + at.unwrap_or(0);
        }
    }
    0
}

/// Whether `a` comes strictly before `b` in the wanted order.
#[inline(always)]
fn before<T: Number>(largest: bool, a: T, b: T) -> bool {
    if largest {
        a > b || (a.is_nan() && !b.is_nan())
    } else {
        a < b || (b.is_nan() && !a.is_nan())
    }
}

/// The `k` largest (or smallest) elements of each row of x = [rows, n], best first, and their positions.
pub fn topk<T: Number + Sortable>(largest: bool, x: &[T], n: usize, k: usize, values: &mut [T], indices: &mut [i64]) {
    assert!(k <= n && values.len() == indices.len());
    if k == 0 || x.is_empty() {
        return;
    }
    let rows = x.len() / n;
    assert!(x.len() == rows * n && values.len() == rows * k);
    let (values, indices) = (pool::Shared::new(values), pool::Shared::new(indices));
    pool::ranges(rows, (GRAIN / n).max(1), |range| {
        let mut best: Vec<(T, u32)> = Vec::with_capacity(k + 1);
        for r in range {
            let row = &x[r * n..(r + 1) * n];
            // SAFETY: parts of different rows are disjoint.
            let (v, i) = unsafe { (values.part(r * k..(r + 1) * k), indices.part(r * k..(r + 1) * k)) };
            if k <= 128 {
                best.clear();
                if T::HOT {
                    scan_simd(largest, row, k, &mut best);
                } else {
                    scan_body(largest, row, k, &mut best);
                }
            } else {
                let mut keys = keys(largest, row);
                sort_keys(&mut keys, k);
                best = keys.iter().map(|&(_, i)| (row[i as usize], i)).collect();
            }
            for (j, b) in best.iter().enumerate() {
                (v[j], i[j]) = (b.0, b.1 as i64);
            }
        }
    });
}

/// Keys that ascend in the wanted order, with their positions.
fn keys<T: Sortable>(descending: bool, row: &[T]) -> Vec<(u64, u32)> {
    row.iter().map(|v| if descending { !v.key() } else { v.key() }).zip(0u32..).collect()
}

simd_fn! {
    fn scan_simd[T: Number](largest: bool, row: &[T], k: usize, best: &mut Vec<(T, u32)>) {
        scan_body(largest, row, k, best)
    }
}

/// Keeps the `k` best values, sorted; skips blocks without a value better than the worst of them.
#[inline(always)]
fn scan_body<T: Number>(largest: bool, row: &[T], k: usize, best: &mut Vec<(T, u32)>) {
    const BLOCK: usize = 64;
    let insert = |v: T, at: usize, best: &mut Vec<(T, u32)>| {
        let mut place = best.len();
        while place > 0 && before(largest, v, best[place - 1].0) {
            place -= 1;
        }
        best.insert(place, (v, at as u32));
        best.truncate(k);
    };
    for (at, &v) in row[..k].iter().enumerate() {
        insert(v, at, best);
    }
    for (b, block) in row[k..].chunks(BLOCK).enumerate() {
        let worst = best[k - 1].0;
        let mut any = false;
        if largest {
            block.iter().for_each(|&v| any |= (v > worst) | v.is_nan());
        } else {
            block.iter().for_each(|&v| any |= (v < worst) | worst.is_nan());
        }
        if !any {
            continue;
        }
        for (i, &v) in block.iter().enumerate() {
            if before(largest, v, best[k - 1].0) {
                insert(v, k + b * BLOCK + i, best);
            }
        }
    }
}

/// A type whose order maps to that of unsigned integers.
pub trait Sortable: Plain {
    /// Number of bits of the key.
    const BITS: u32;
    fn key(self) -> u64;
}

macro_rules! sortable_integers {
    ($($t:ty, $u:ty);*) => {$(
        impl Sortable for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn key(self) -> u64 { (self as $u ^ <$t>::MIN as $u) as u64 }
        }
    )*};
}
sortable_integers!(u8, u8; i8, u8; i16, u16; i32, u32; i64, u64);

impl Sortable for bool {
    const BITS: u32 = 8;
    #[inline(always)]
    fn key(self) -> u64 {
        self as u64
    }
}

macro_rules! sortable_floats {
    ($($t:ty, $u:ty, $zero:expr);*) => {$(
        impl Sortable for $t {
            const BITS: u32 = <$u>::BITS;
            /// Negative numbers with all bits inverted, others with the sign bit set; both zeros are equal; NaN is
            /// last.
            #[inline(always)]
            fn key(self) -> u64 {
                if self.is_nan() {
                    return <$u>::MAX as u64;
                }
                let bits = if self == $zero { 0 } else { self.to_bits() };
                (if bits >> (<$u>::BITS - 1) == 1 { !bits } else { bits | 1 << (<$u>::BITS - 1) }) as u64
            }
        }
    )*};
}
sortable_floats!(f32, u32, 0.0; f64, u64, 0.0; f16, u16, f16::ZERO; bf16, u16, bf16::ZERO);

/// Sorts each row of x = [rows, n], stably: the sorted values and their positions in the row.
pub fn sort<T: Sortable>(descending: bool, x: &[T], n: usize, values: &mut [T], indices: &mut [i64]) {
    assert!(x.len() == values.len() && x.len() == indices.len());
    if x.is_empty() {
        return;
    }
    assert!(x.len().is_multiple_of(n) && n < u32::MAX as usize);
    let (values, indices) = (pool::Shared::new(values), pool::Shared::new(indices));
    pool::ranges(x.len() / n, (GRAIN / 8 / n).max(1), |range| {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for r in range {
            let row = &x[r * n..(r + 1) * n];
            // SAFETY: parts of different rows are disjoint.
            let (v, at) = unsafe { (values.part(r * n..(r + 1) * n), indices.part(r * n..(r + 1) * n)) };
            if T::BITS > 32 {
                let mut wide = keys(descending, row);
                sort_keys(&mut wide, n);
                at.iter_mut().zip(&wide).for_each(|(o, w)| *o = w.1 as i64);
            } else {
                let order = if descending { u32::MAX } else { 0 };
                a.clear();
                a.extend(row.iter().zip(0u64..).map(|(&v, i)| ((v.key() as u32 ^ order) as u64) << 32 | i));
                if n < 512 {
                    a.sort_unstable();
                } else {
                    b.resize(n, 0);
                    radix(&mut a, &mut b);
                }
                at.iter_mut().zip(&a).for_each(|(o, &w)| *o = (w & 0xffff_ffff) as i64);
            }
            v.iter_mut().zip(at.iter()).for_each(|(o, &i)| *o = row[i as usize]);
        }
    });
}

/// Sorts by the upper 32 bits, 11 at a time, the least first; `b` is scratch of the same length.
fn radix(a: &mut Vec<u64>, b: &mut Vec<u64>) {
    const BUCKETS: usize = 2048;
    let digit = |v: u64, pass: usize| (v >> (32 + 11 * pass)) as usize & (BUCKETS - 1);
    let mut counts = [[0u32; BUCKETS]; 3];
    for &v in a.iter() {
        for (pass, c) in counts.iter_mut().enumerate() {
            c[digit(v, pass)] += 1;
        }
    }
    for (pass, counts) in counts.iter_mut().enumerate() {
        if counts.iter().any(|&c| c as usize == a.len()) {
            continue; // equal in this digit
        }
        let mut at = 0;
        for c in counts.iter_mut() {
            at += std::mem::replace(c, at);
        }
        for &v in a.iter() {
            let place = &mut counts[digit(v, pass)];
            b[*place as usize] = v;
            *place += 1;
        }
        std::mem::swap(a, b);
    }
}

/// dx[o, indices[o, j, i], i] = dout[o, j, i], zeros elsewhere; sizes of the axis are `n` and `k`. Panics if an index
/// is out of range.
pub fn put_back<T: Plain>(indices: &[i64], dout: &[T], (n, k, inner): (usize, usize, usize), dx: &mut [T]) {
    if dx.is_empty() {
        return;
    }
    let slab = n * inner;
    let slabs = (GRAIN / slab).max(1);
    pool::parts(dx, slabs * slab, |start, part| {
        for (o, dx) in part.chunks_mut(slab).enumerate() {
            let from = (start / slab + o) * k * inner;
            dx.fill(T::default());
            for j in 0..k {
                for i in 0..inner {
                    let at = from + j * inner + i;
                    dx[indices[at] as usize * inner + i] = dout[at];
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    fn data(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + i * i % 77) % 1013) as f32 - 500.0).collect()
    }

    #[test]
    fn extremes() {
        at_every_level(|_| {
            for (outer, n, inner) in [(1, 1, 1), (7, 100, 1), (3, 1000, 1), (2, 5, 1), (3, 9, 4), (2, 40, 1500)] {
                let x = data(outer * n * inner);
                for greatest in [true, false] {
                    let mut got = vec![-1; outer * inner];
                    arg_extreme(greatest, &x, n, inner, &mut got);
                    for o in 0..outer {
                        for i in 0..inner {
                            let column: Vec<f32> = (0..n).map(|r| x[(o * n + r) * inner + i]).collect();
                            let best = if greatest {
                                column.iter().cloned().fold(f32::MIN, f32::max)
                            } else {
                                column.iter().cloned().fold(f32::MAX, f32::min)
                            };
                            assert_eq!(got[o * inner + i] as usize, column.iter().position(|&v| v == best).unwrap());
                        }
                    }
                }
            }
            let mut x = data(300);
            x[70] = f32::NAN;
            x[200] = f32::NAN;
            let mut got = [0];
            arg_extreme(true, &x, 300, 1, &mut got);
            assert_eq!(got, [70]);
            arg_extreme(false, &x, 300, 1, &mut got);
            assert_eq!(got, [70]);
            let mut got = [0, 0];
            arg_extreme(true, &[1.0, f32::NAN, 2.0, 3.0], 2, 2, &mut got);
            assert_eq!(got, [1, 0]);
        });
    }

    #[test]
    fn top_and_sort_keep_order_of_equals() {
        at_every_level(|_| {
            for (rows, n) in [(1, 1), (5, 70), (3, 2000), (2, 5000)] {
                let mut x = data(rows * n);
                if n > 50 {
                    x[20] = f32::NAN;
                    x[30] = -0.0;
                    x[31] = 0.0;
                    x[40] = f32::INFINITY;
                    x[41] = f32::NEG_INFINITY;
                }
                for largest in [true, false] {
                    let (mut v, mut i) = (vec![0.0; x.len()], vec![0; x.len()]);
                    sort(largest, &x, n, &mut v, &mut i);
                    for r in 0..rows {
                        let row = &x[r * n..(r + 1) * n];
                        let mut want: Vec<usize> = (0..n).collect();
                        want.sort_by(|&a, &b| match before(largest, row[a], row[b]) {
                            true => std::cmp::Ordering::Less,
                            false if before(largest, row[b], row[a]) => std::cmp::Ordering::Greater,
                            _ => std::cmp::Ordering::Equal,
                        });
                        assert!(
                            i[r * n..(r + 1) * n].iter().zip(&want).all(|(a, b)| *a as usize == *b),
                            "{n} {largest}"
                        );
                        assert!(v[r * n..(r + 1) * n].iter().zip(&want).all(|(a, b)| a.to_bits() == row[*b].to_bits()));
                        for k in [1, 10, 200, n].into_iter().filter(|&k| k <= n) {
                            let (mut tv, mut ti) = (vec![0.0; k], vec![0; k]);
                            topk(largest, row, n, k, &mut tv, &mut ti);
                            assert!(ti.iter().zip(&want).all(|(a, b)| *a as usize == *b), "{n} {k} {largest}");
                            assert!(tv.iter().zip(&want).all(|(a, b)| a.to_bits() == row[*b].to_bits()));
                        }
                    }
                }
            }
        });
        let x: Vec<i64> = vec![3, -1, i64::MIN, i64::MAX, 3];
        let (mut v, mut i) = (vec![0; 5], vec![0; 5]);
        sort(true, &x, 5, &mut v, &mut i);
        assert_eq!((v, i), (vec![i64::MAX, 3, 3, -1, i64::MIN], vec![3, 0, 4, 1, 2]));
        let x: Vec<i8> = vec![3, -1, -128, 127];
        let (mut v, mut i) = (vec![0; 4], vec![0; 4]);
        sort(false, &x, 4, &mut v, &mut i);
        assert_eq!(v, [-128, -1, 3, 127]);
    }

    #[test]
    fn gradients_go_back_to_their_positions() {
        let (outer, n, k, inner) = (3, 5, 2, 4);
        let indices: Vec<i64> = (0..outer * k * inner).map(|i| (i * 7 % 3 + i / inner % k * 2) as i64).collect();
        let dout: Vec<i32> = (1..=indices.len() as i32).collect();
        let (mut dx, mut want) = (vec![99; outer * n * inner], vec![0; outer * n * inner]);
        put_back(&indices, &dout, (n, k, inner), &mut dx);
        for (at, &index) in indices.iter().enumerate() {
            want[(at / (k * inner) * n + index as usize) * inner + at % inner] = dout[at];
        }
        assert_eq!(dx, want);
        put_back::<u8>(&[], &[], (0, 0, 1), &mut []);
    }
}
