//! Passes that normalisations share: sums over a plane, sums down columns, and linear combinations.
#![allow(clippy::needless_range_loop)] // registers are counted, not iterated

use crate::simd_fn;
use crate::softmax::{lane_sum, W};
use crate::types::{Float, Number, Vector};
use std::marker::PhantomData;

/// Largest number of sums in one pass.
pub const TERMS: usize = 5;

/// The terms of a sum: up to `TERMS` terms of elements of up to three inputs, and their channel's mean and 1 /
/// deviation.
pub trait Terms: 'static {
    const K: usize;
    /// # Safety
    /// As for `Vector`.
    unsafe fn at<V: Vector>(v: [V; 3], mean: V, inv: V) -> [V; TERMS];
}

/// x
pub struct Values;
impl Terms for Values {
    const K: usize = 1;
    #[inline(always)]
    unsafe fn at<V: Vector>([x, ..]: [V; 3], _: V, _: V) -> [V; TERMS] {
        [x; TERMS]
    }
}

/// (x - mean)^2
pub struct Squares;
impl Terms for Squares {
    const K: usize = 1;
    #[inline(always)]
    unsafe fn at<V: Vector>([x, ..]: [V; 3], mean: V, _: V) -> [V; TERMS] {
        // SAFETY: the caller's.
        unsafe {
            let d = x.sub(mean);
            [d.mul(d); TERMS]
        }
    }
}

/// dy and dy * xhat, of (x, dy)
pub struct Gradient;
impl Terms for Gradient {
    const K: usize = 2;
    #[inline(always)]
    unsafe fn at<V: Vector>([x, dy, _]: [V; 3], mean: V, inv: V) -> [V; TERMS] {
        // SAFETY: the caller's.
        let product = unsafe { dy.mul(x.sub(mean).mul(inv)) };
        [dy, product, dy, dy, dy]
    }
}

/// dy, dy * xhat, ddx, ddx * xhat, ddx * dy, of (x, dy, ddx)
pub struct DoubleGradient;
impl Terms for DoubleGradient {
    const K: usize = 5;
    #[inline(always)]
    unsafe fn at<V: Vector>([x, dy, ddx]: [V; 3], mean: V, inv: V) -> [V; TERMS] {
        // SAFETY: the caller's.
        unsafe {
            let xhat = x.sub(mean).mul(inv);
            [dy, dy.mul(xhat), ddx, ddx.mul(xhat), ddx.mul(dy)]
        }
    }
}

/// The first `n <= L` elements of `p`.
#[inline(always)]
pub unsafe fn read<V: Vector>(p: *const V::T, n: usize) -> V {
    // SAFETY: the caller's.
    unsafe {
        if n == V::L {
            V::load(p)
        } else {
            V::load_n(p, n)
        }
    }
}

/// Stores the first `n <= L` elements of `v` to `p`.
#[inline(always)]
pub unsafe fn write<V: Vector>(v: V, p: *mut V::T, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        if n == V::L {
            v.store(p)
        } else {
            v.store_n(p, n)
        }
    }
}

/// The summands of `lane_sums`. (A closure might not be inlined into a function with the target features.)
pub trait Adds<V: Vector, const K: usize> {
    /// Adds elements `i..i + len`, at most one vector.
    ///
    /// # Safety
    /// As for `Vector`; the elements are readable.
    unsafe fn add(&self, sums: [V; K], i: usize, len: usize) -> [V; K];
}

/// `K` sums over `n` elements in W lanes, for every width of vectors.
#[inline(always)]
pub unsafe fn lane_sums<V: Vector, const K: usize>(n: usize, of: impl Adds<V, K>) -> [V::T; K] {
    // SAFETY: the caller's instruction set and elements.
    unsafe {
        // One accumulator per vector: W elements are at most W / 2 vectors.
        let mut sums = [[V::zero(); K]; W / 2];
        let head = n / W * W;
        for i in (0..head).step_by(W) {
            for j in 0..W / V::L {
                sums[j] = of.add(sums[j], i + j * V::L, V::L);
            }
        }
        // Constant indices keep the vectors in registers.
        for j in 0..W / V::L {
            let from = head + j * V::L;
            if from < n {
                let len = V::L.min(n - from);
                let more = of.add(sums[j], from, len);
                for k in 0..K {
                    // Lanes after the last element stay unchanged.
                    let mut lanes = [V::T::ZERO; W];
                    sums[j][k].store(lanes.as_mut_ptr());
                    more[k].store_n(lanes.as_mut_ptr(), len);
                    sums[j][k] = V::load(lanes.as_ptr());
                }
            }
        }
        std::array::from_fn(|k| {
            let mut lanes = [V::T::ZERO; W];
            for j in 0..W / V::L {
                sums[j][k].store(lanes.as_mut_ptr().add(j * V::L));
            }
            lane_sum(lanes)
        })
    }
}

/// The terms of a channel's elements.
struct Plane<V: Vector, F> {
    v: [*const V::T; 3],
    mean: V,
    inv: V,
    terms: PhantomData<F>,
}

impl<V: Vector, F: Terms> Adds<V, TERMS> for Plane<V, F> {
    #[inline(always)]
    unsafe fn add(&self, mut sums: [V; TERMS], i: usize, len: usize) -> [V; TERMS] {
        // SAFETY: the caller's elements.
        unsafe {
            let [a, b, c] = self.v;
            let v = [read(a.add(i), len), read(b.add(i), len), read(c.add(i), len)];
            let terms = F::at(v, self.mean, self.inv);
            for k in 0..F::K {
                sums[k] = sums[k].add(terms[k]);
            }
        }
        sums
    }
}

/// Sums of the terms over slices of one channel.
pub fn plane_sums<T: Float, F: Terms>(v: [&[T]; 3], mean: T, inv: T) -> [T; TERMS] {
    let n = v[0].len();
    assert!(v.iter().all(|v| v.len() == n), "inputs of a channel are equally long");
    // SAFETY: as long as was asserted.
    unsafe { plane::<T, F>(v.map(|v| v.as_ptr()), n, mean, inv) }
}

crate::by_level! {
    unsafe fn plane<T; F: Terms>(v: [*const T; 3], n: usize, mean: T, inv: T) -> [T; TERMS] = plane_body
}

/// As `plane_sums`, for `n` elements by pointers, at the level of the vector.
#[inline(always)]
pub unsafe fn plane_body<V: Vector, F: Terms>(v: [*const V::T; 3], n: usize, mean: V::T, inv: V::T) -> [V::T; TERMS] {
    // SAFETY: `n` elements each, by the caller.
    unsafe {
        let of = Plane::<V, F> { v, mean: V::splat(mean), inv: V::splat(inv), terms: PhantomData };
        lane_sums::<V, TERMS>(n, of)
    }
}

/// `acc[k * channels + c]` += the sum over rows of term k of element c.
pub fn column_sums<T: Float, F: Terms>(v: [&[T]; 3], mean: &[T], inv: &[T], acc: &mut [T]) {
    let n = mean.len();
    assert!(v.iter().all(|x| x.len() == v[0].len()), "inputs are equally long");
    assert!(inv.len() >= n && acc.len() >= F::K * n, "one value a channel");
    let Some(rows) = v[0].len().checked_div(n) else { return };
    let of = Columns { v: v.map(|v| v.as_ptr()), rows, n, stats: [mean.as_ptr(), inv.as_ptr()] };
    // SAFETY: as long as was asserted.
    unsafe { columns::<T, F>(of, acc.as_mut_ptr()) }
}

/// Rows of `n` channels.
struct Columns<T> {
    v: [*const T; 3],
    rows: usize,
    n: usize,
    stats: [*const T; 2],
}

crate::by_level! {
    unsafe fn columns<T; F: Terms>(of: Columns<T>, acc: *mut T) = columns_body
}

#[inline(always)]
unsafe fn columns_body<V: Vector, F: Terms>(of: Columns<V::T>, acc: *mut V::T) {
    // Two vectors of columns at a time: their sums stay in registers.
    let head = of.n / (2 * V::L) * (2 * V::L);
    // SAFETY: columns of the caller's.
    unsafe {
        for i in (0..head).step_by(2 * V::L) {
            two_columns::<V, F>(&of, acc, i, [V::L, V::L]);
        }
        if head < of.n {
            let first = V::L.min(of.n - head);
            two_columns::<V, F>(&of, acc, head, [first, of.n - head - first]);
        }
    }
}

/// The sums of two vectors of columns from column `i`, with the given numbers of columns.
#[inline(always)]
unsafe fn two_columns<V: Vector, F: Terms>(of: &Columns<V::T>, acc: *mut V::T, i: usize, lens: [usize; 2]) {
    let (at, [a, b, c], [mean, inv]) = ([i, i + lens[0]], of.v, of.stats);
    // SAFETY: rows and columns within the caller's.
    unsafe {
        let mut sums = [[V::zero(); TERMS]; 2];
        let mean = [read::<V>(mean.add(at[0]), lens[0]), read(mean.add(at[1]), lens[1])];
        let inv = [read::<V>(inv.add(at[0]), lens[0]), read(inv.add(at[1]), lens[1])];
        for r in 0..of.rows {
            for j in 0..2 {
                let (e, len) = (r * of.n + at[j], lens[j]);
                let v = [read(a.add(e), len), read(b.add(e), len), read(c.add(e), len)];
                let terms = F::at(v, mean[j], inv[j]);
                for k in 0..F::K {
                    sums[j][k] = sums[j][k].add(terms[k]);
                }
            }
        }
        for j in 0..2 {
            for k in 0..F::K {
                let to = acc.add(k * of.n + at[j]);
                write(read::<V>(to, lens[j]).add(sums[j][k]), to, lens[j]);
            }
        }
    }
}

/// out = (v0 - shift) * p0 + v1 * p1 + v2 * p2 + p3 with the first `K` inputs.
#[inline(always)]
fn combine<T: Float, const FMA: bool, const K: usize>(v: [T; 3], shift: T, p: [T; 4]) -> T {
    let mut s = (v[0] - shift).fma::<FMA>(p[0], p[3]);
    if K > 1 {
        s = v[1].fma::<FMA>(p[1], s);
    }
    if K > 2 {
        s = v[2].fma::<FMA>(p[2], s);
    }
    s
}

simd_fn! {
    /// A linear combination of `inputs` (1 to 3) slices of one channel.
    pub fn plane_linear[T: Float](v: [&[T]; 3], inputs: usize, shift: T, p: [T; 4], out: &mut [T]) {
        let n = out.len();
        let (a, b, c) = (&v[0][..n], &v[1][..n], &v[2][..n]);
        match inputs {
            1 => (0..n).for_each(|i| out[i] = combine::<T, FMA, 1>([a[i], T::ZERO, T::ZERO], shift, p)),
            2 => (0..n).for_each(|i| out[i] = combine::<T, FMA, 2>([a[i], b[i], T::ZERO], shift, p)),
            _ => (0..n).for_each(|i| out[i] = combine::<T, FMA, 3>([a[i], b[i], c[i]], shift, p)),
        }
    }
}

simd_fn! {
    /// The same for rows of channels; `p[k]` has one factor per channel.
    pub fn row_linear[T: Float](v: [&[T]; 3], inputs: usize, shift: &[T], p: [&[T]; 4], out: &mut [T]) {
        let n = shift.len();
        for (r, out) in out.chunks_exact_mut(n).enumerate() {
            let (a, b, c) = (&v[0][r * n..][..n], &v[1][r * n..][..n], &v[2][r * n..][..n]);
            let (p0, p1, p2, p3) = (&p[0][..n], &p[1][..n], &p[2][..n], &p[3][..n]);
            let z = T::ZERO;
            match inputs {
                1 => {
                    for i in 0..n {
                        out[i] = combine::<T, FMA, 1>([a[i], z, z], shift[i], [p0[i], z, z, p3[i]]);
                    }
                }
                2 => {
                    for i in 0..n {
                        out[i] = combine::<T, FMA, 2>([a[i], b[i], z], shift[i], [p0[i], p1[i], z, p3[i]]);
                    }
                }
                _ => {
                    for i in 0..n {
                        out[i] = combine::<T, FMA, 3>([a[i], b[i], c[i]], shift[i], [p0[i], p1[i], p2[i], p3[i]]);
                    }
                }
            }
        }
    }
}
