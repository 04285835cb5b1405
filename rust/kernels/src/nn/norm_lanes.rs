//! What the normalisations are made of: sums over a plane, sums down the columns of rows, and linear combinations.

use crate::gemm_simd::Real;
use crate::simd_fn;
use crate::softmax::{lane_sum, W};

/// Most sums that are formed in one pass.
pub const TERMS: usize = 5;

/// What is summed: `K` terms of an element of up to three inputs, given the channel's mean and 1 / deviation.
pub trait Terms: 'static {
    const K: usize;
    fn at<T: Real>(v: [T; 3], mean: T, inv: T) -> [T; TERMS];
}

/// x
pub struct Plain;
impl Terms for Plain {
    const K: usize = 1;
    #[inline(always)]
    fn at<T: Real>(v: [T; 3], _: T, _: T) -> [T; TERMS] {
        let mut t = [T::ZERO; TERMS];
        t[0] = v[0];
        t
    }
}

/// (x - mean)^2
pub struct Squares;
impl Terms for Squares {
    const K: usize = 1;
    #[inline(always)]
    fn at<T: Real>(v: [T; 3], mean: T, _: T) -> [T; TERMS] {
        let mut t = [T::ZERO; TERMS];
        let d = v[0] - mean;
        t[0] = d * d;
        t
    }
}

/// dy and dy * xhat, of (x, dy)
pub struct Gradient;
impl Terms for Gradient {
    const K: usize = 2;
    #[inline(always)]
    fn at<T: Real>(v: [T; 3], mean: T, inv: T) -> [T; TERMS] {
        let mut t = [T::ZERO; TERMS];
        t[0] = v[1];
        t[1] = v[1] * ((v[0] - mean) * inv);
        t
    }
}

/// dy, dy * xhat, ddx, ddx * xhat, ddx * dy, of (x, dy, ddx)
pub struct DoubleGradient;
impl Terms for DoubleGradient {
    const K: usize = 5;
    #[inline(always)]
    fn at<T: Real>(v: [T; 3], mean: T, inv: T) -> [T; TERMS] {
        let xhat = (v[0] - mean) * inv;
        [v[1], v[1] * xhat, v[2], v[2] * xhat, v[2] * v[1]]
    }
}

simd_fn! {
    /// The terms summed over slices of one channel.
    pub fn plane_sums[T: Real, F: Terms](v: [&[T]; 3], mean: T, inv: T) -> [T; TERMS] {
        let n = v[0].len();
        let (a, b, c) = (&v[0][..n], &v[1][..n], &v[2][..n]);
        let mut acc = [[T::ZERO; W]; TERMS];
        let chunks = a.chunks_exact(W).zip(b.chunks_exact(W)).zip(c.chunks_exact(W));
        for ((a, b), c) in chunks {
            for i in 0..W {
                let t = F::at([a[i], b[i], c[i]], mean, inv);
                for k in 0..F::K {
                    acc[k][i] += t[k];
                }
            }
        }
        for (i, e) in (n / W * W..n).enumerate() {
            let t = F::at([a[e], b[e], c[e]], mean, inv);
            for k in 0..F::K {
                acc[k][i] += t[k];
            }
        }
        let _ = FMA;
        acc.map(lane_sum)
    }
}

simd_fn! {
    /// `acc[k * channels + c]` += term k of each row's element c.
    pub fn column_sums[T: Real, F: Terms](v: [&[T]; 3], mean: &[T], inv: &[T], acc: &mut [T]) {
        let n = mean.len();
        let inv = &inv[..n];
        // Columns in blocks whose sums stay in registers.
        let mut i = 0;
        while i + W <= n {
            let mut sums = [[T::ZERO; W]; TERMS];
            let (mut m, mut s) = ([T::ZERO; W], [T::ZERO; W]);
            m.copy_from_slice(&mean[i..i + W]);
            s.copy_from_slice(&inv[i..i + W]);
            for r in 0..v[0].len() / n {
                let [a, b, c] = v.map(|v| &v[r * n + i..r * n + i + W]);
                for e in 0..W {
                    let t = F::at([a[e], b[e], c[e]], m[e], s[e]);
                    for k in 0..F::K {
                        sums[k][e] += t[k];
                    }
                }
            }
            for k in 0..F::K {
                for e in 0..W {
                    acc[k * n + i + e] += sums[k][e];
                }
            }
            i += W;
        }
        for i in i..n {
            for r in 0..v[0].len() / n {
                let t = F::at(v.map(|v| v[r * n + i]), mean[i], inv[i]);
                for k in 0..F::K {
                    acc[k * n + i] += t[k];
                }
            }
        }
        let _ = FMA;
    }
}

/// out = (v0 - shift) * p0 + v1 * p1 + v2 * p2 + p3 with the first `K` inputs.
#[inline(always)]
fn combine<T: Real, const FMA: bool, const K: usize>(v: [T; 3], shift: T, p: [T; 4]) -> T {
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
    pub fn plane_linear[T: Real](v: [&[T]; 3], inputs: usize, shift: T, p: [T; 4], out: &mut [T]) {
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
    /// The same for rows of channels; `p[k]` has one factor a channel.
    pub fn row_linear[T: Real](v: [&[T]; 3], inputs: usize, shift: &[T], p: [&[T]; 4], out: &mut [T]) {
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
