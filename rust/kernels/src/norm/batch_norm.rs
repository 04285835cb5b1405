//! Batch normalisation and its gradients. Variances are biased, and computed around the mean.

use crate::norm::lanes::{
    column_sums, plane_linear, plane_sums, row_linear, DoubleGradient, Gradient, Squares, Terms, Values, TERMS,
};
use crate::pool::SharedPtr;
use crate::softmax::CHUNK;
use crate::types::Float;

/// A tensor as images of channels of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    pub images: usize,
    pub channels: usize,
    pub pixels: usize,
    /// [images, pixels, channels] instead of [images, channels, pixels].
    pub last: bool,
}

impl Channels {
    pub fn len(&self) -> usize {
        self.images * self.channels * self.pixels
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Elements of one channel.
    pub fn count(&self) -> usize {
        self.images * self.pixels
    }
    /// Rows of one part of a sum over rows; the number of parts does not depend on threads.
    fn part(&self) -> usize {
        (CHUNK / self.channels.max(1)).max(self.count().div_ceil(64)).max(1)
    }

    /// The sums of `F`'s terms for each channel: term k of channel c at [k][c].
    pub(crate) fn sums<T: Float, F: Terms>(&self, v: [&[T]; 3], mean: &[T], inv: &[T]) -> [Vec<T>; TERMS] {
        let (c, n) = (self.channels, self.pixels);
        let mut out: [Vec<T>; TERMS] = std::array::from_fn(|k| vec![T::ZERO; if k < F::K { c } else { 0 }]);
        if self.is_empty() {
            return out;
        }
        if self.last {
            let part = self.part();
            let parts = self.count().div_ceil(part);
            let mut sums = vec![T::ZERO; parts * F::K * c];
            crate::pool::parts(&mut sums, F::K * c, |at, acc| {
                let first = at / (F::K * c) * part;
                let r = first * c..(first + part).min(self.count()) * c;
                column_sums::<T, F>(v.map(|v| &v[r.clone()]), mean, inv, acc);
            });
            for acc in sums.chunks_exact(F::K * c) {
                for (out, acc) in out.iter_mut().zip(acc.chunks_exact(c)) {
                    out.iter_mut().zip(acc).for_each(|(o, &s)| *o += s);
                }
            }
            return out;
        }
        let planes = self.images * c;
        let mut sums = vec![[T::ZERO; TERMS]; planes];
        crate::pool::parts(&mut sums, (CHUNK / n).max(1), |at, sums| {
            for (i, s) in sums.iter_mut().enumerate() {
                let (p, ch) = (at + i, (at + i) % c);
                *s = plane_sums::<T, F>(v.map(|v| &v[p * n..(p + 1) * n]), mean[ch], inv[ch]);
            }
        });
        for (p, s) in sums.iter().enumerate() {
            for k in 0..F::K {
                out[k][p % c] += s[k];
            }
        }
        out
    }

    /// `out = (v0 - shift) * p0 + v1 * p1 + v2 * p2 + p3` with one factor per channel, for the first `inputs` inputs.
    pub(crate) fn linear<T: Float>(&self, v: [&[T]; 3], inputs: usize, shift: &[T], p: [&[T]; 4], out: &mut [T]) {
        let (c, n) = (self.channels, self.pixels);
        assert!(out.len() == self.len() && v.iter().all(|v| v.len() == out.len()), "sizes do not fit the channels");
        if out.is_empty() {
            return;
        }
        if self.last {
            crate::pool::parts(out, (CHUNK / c).max(1) * c, |at, out| {
                let r = at..at + out.len();
                row_linear(v.map(|v| &v[r.clone()]), inputs, shift, p, out);
            });
        } else {
            crate::pool::parts(out, (CHUNK / n).max(1) * n, |at, out| {
                for (i, out) in out.chunks_exact_mut(n).enumerate() {
                    let (plane, ch) = (at / n + i, (at / n + i) % c);
                    let v = v.map(|v| &v[plane * n..(plane + 1) * n]);
                    plane_linear(v, inputs, shift[ch], p.map(|p| p[ch]), out);
                }
            });
        }
    }
}

fn each<T: Float>(n: usize, f: impl Fn(usize) -> T) -> Vec<T> {
    (0..n).map(f).collect()
}

/// Mean and variance of each channel; NaN for channels without elements.
pub fn batch_stats<T: Float>(d: &Channels, x: &[T], mean: &mut [T], var: &mut [T]) {
    let c = d.channels;
    assert!(x.len() == d.len() && mean.len() == c && var.len() == c, "sizes do not fit the channels");
    let count = T::from_f64(d.count() as f64);
    let zeros = vec![T::ZERO; c];
    let sums = d.sums::<T, Values>([x; 3], &zeros, &zeros);
    mean.iter_mut().zip(&sums[0]).for_each(|(m, &s)| *m = s / count);
    let sums = d.sums::<T, Squares>([x; 3], mean, &zeros);
    var.iter_mut().zip(&sums[0]).for_each(|(v, &s)| *v = s / count);
}

pub(crate) fn inverse_sqrt<T: Float>(var: T, epsilon: f64) -> T {
    T::from_f64(1.0 / (var + T::from_f64(epsilon)).to_f64().sqrt())
}

/// `1 / sqrt(var + epsilon)`.
pub fn inverse_deviation<T: Float>(var: &[T], epsilon: f64) -> Vec<T> {
    var.iter().map(|&v| inverse_sqrt(v, epsilon)).collect()
}

/// `y = (x - mean) * inv * scale + bias`: batch normalisation with given statistics, `inv` = 1 / deviation.
pub fn batch_norm<T: Float>(d: &Channels, x: &[T], mean: &[T], inv: &[T], scale: &[T], bias: &[T], y: &mut [T]) {
    let p = each(d.channels, |c| inv[c] * scale[c]);
    d.linear([x; 3], 1, mean, [&p, &p, &p, &bias[..d.channels]], y);
}

/// Number of channels from which each channel is a chunk of its own.
const MANY: usize = 16;

/// `batch_stats`, then `batch_norm` with these statistics, equal bit for bit; returns 1 / deviation. A channel that
/// fits a core's cache is read from memory once instead of three times.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm_train<T: Float>(
    d: &Channels,
    x: &[T],
    scale: &[T],
    bias: &[T],
    epsilon: f64,
    mean: &mut [T],
    var: &mut [T],
    y: &mut [T],
) -> Vec<T> {
    let (c, n) = (d.channels, d.pixels);
    if d.last || d.is_empty() || c < MANY || d.count() * size_of::<T>() > crate::simd::core_cache_size() / 2 {
        batch_stats(d, x, mean, var);
        let inv = inverse_deviation(var, epsilon);
        batch_norm(d, x, mean, &inv, scale, bias, y);
        return inv;
    }
    assert!(x.len() == d.len() && y.len() == d.len(), "sizes do not fit the channels");
    assert!([mean.len(), var.len(), scale.len(), bias.len()] == [c; 4], "sizes do not fit the channels");
    let (zero, count) = (T::ZERO, T::from_f64(d.count() as f64));
    let mut inv = vec![zero; c];
    let out = [mean, var, &mut inv, y].map(|s| SharedPtr(s.as_mut_ptr()));
    crate::pool::ranges(c, (CHUNK / d.count()).max(1), |channels| {
        for ch in channels {
            let planes = || (0..d.images).map(|i| (i * c + ch) * n).map(|at| at..at + n);
            let sum = |term: fn([&[T]; 3], T, T) -> [T; TERMS], m: T| {
                planes().fold(zero, |s, p| s + term([&x[p]; 3], m, zero)[0]) / count
            };
            let m = sum(plane_sums::<T, Values>, zero);
            let v = sum(plane_sums::<T, Squares>, m);
            let i = inverse_sqrt(v, epsilon);
            for (value, to) in [m, v, i].into_iter().zip(&out) {
                // SAFETY: each channel belongs to one part.
                unsafe { *to.get().add(ch) = value };
            }
            let a = i * scale[ch];
            for p in planes() {
                // SAFETY: as above, for its planes.
                let y = unsafe { std::slice::from_raw_parts_mut(out[3].get().add(p.start), n) };
                plane_linear([&x[p]; 3], 1, m, [a, a, a, bias[ch]], y);
            }
        }
    });
    inv
}

/// Results of `batch_norm_grad`.
pub struct BatchNormGrad<'a, T> {
    pub dx: Option<&'a mut [T]>,
    pub dscale: Option<&'a mut [T]>,
    pub dbias: Option<&'a mut [T]>,
}

/// The gradient of batch normalisation. `global`: the statistics are constants, not those of `x`.
pub fn batch_norm_grad<T: Float>(
    d: &Channels,
    x: &[T],
    dy: &[T],
    mean: &[T],
    inv: &[T],
    scale: &[T],
    global: bool,
    out: BatchNormGrad<T>,
) {
    assert!(x.len() == d.len() && dy.len() == d.len(), "sizes do not fit the channels");
    let c = d.channels;
    let [sum, product, ..] = d.sums::<T, Gradient>([x, dy, dy], mean, inv);
    if let Some(dx) = out.dx {
        if global {
            let (a, zeros) = (each(c, |c| scale[c] * inv[c]), vec![T::ZERO; c]);
            d.linear([dy; 3], 1, &zeros, [&a, &a, &a, &zeros], dx);
        } else {
            batch_norm_dx(d, x, dy, mean, inv, scale, (&sum, &product, d.count() as f64), dx);
        }
    }
    if let Some(dscale) = out.dscale {
        dscale.copy_from_slice(&product);
    }
    if let Some(dbias) = out.dbias {
        dbias.copy_from_slice(&sum);
    }
}

/// The gradient with respect to `x` of a batch of `count` elements per channel, of which `x` may be a part: `sum` and
/// `product` are the sums of dy and dy * xhat over the whole batch.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm_dx<T: Float>(
    d: &Channels,
    x: &[T],
    dy: &[T],
    mean: &[T],
    inv: &[T],
    scale: &[T],
    (sum, product, count): (&[T], &[T], f64),
    dx: &mut [T],
) {
    let (c, count) = (d.channels, T::from_f64(count));
    let a = each(c, |c| scale[c] * inv[c]);
    let p0 = each(c, |c| T::ZERO - a[c] * inv[c] * (product[c] / count));
    let p3 = each(c, |c| T::ZERO - a[c] * (sum[c] / count));
    d.linear([x, dy, dy], 2, mean, [&p0, &a, &a, &p3], dx);
}

/// Inputs of the double gradient of batch normalisation: the gradients of `dx`, `dscale` and `dbias`; zeros if there is
/// none.
#[derive(Clone, Copy)]
pub struct BatchNormSeeds<'a, T> {
    pub ddx: &'a [T],
    pub ddscale: &'a [T],
    pub ddbias: &'a [T],
}

/// Gradients of `batch_norm_grad`'s results with respect to `x`, `scale` and `dy`.
pub fn batch_norm_double_grad<T: Float>(
    d: &Channels,
    x: &[T],
    dy: &[T],
    mean: &[T],
    inv: &[T],
    scale: &[T],
    global: bool,
    seeds: BatchNormSeeds<T>,
    dx: Option<&mut [T]>,
    dscale: Option<&mut [T]>,
    ddy: Option<&mut [T]>,
) {
    let (c, ddx) = (d.channels, seeds.ddx);
    assert!(x.len() == d.len() && dy.len() == d.len() && ddx.len() == d.len(), "sizes do not fit the channels");
    let sums = d.sums::<T, DoubleGradient>([x, dy, ddx], mean, inv);
    let n = T::from_f64(d.count() as f64);
    // Means of dy, dy * xhat, ddx, ddx * xhat, ddx * dy.
    let m = |k: usize, c: usize| sums[k][c] / n;
    let zeros = vec![T::ZERO; c];
    // The mean of ddx * dy, with the projections of dy on 1 and xhat removed if the statistics are the batch's.
    let inner = |c: usize| {
        if global {
            m(4, c)
        } else {
            m(4, c) - m(0, c) * m(2, c) - m(1, c) * m(3, c)
        }
    };
    if let Some(dscale) = dscale {
        dscale.iter_mut().enumerate().for_each(|(c, v)| *v = inv[c] * inner(c) * n);
    }
    if let Some(ddy) = ddy {
        let a = each(c, |c| scale[c] * inv[c]);
        let p0 = each(c, |c| {
            let along = if global { T::ZERO } else { a[c] * m(3, c) };
            (seeds.ddscale[c] - along) * inv[c]
        });
        let p3 = each(c, |c| seeds.ddbias[c] - if global { T::ZERO } else { a[c] * m(2, c) });
        d.linear([x, ddx, ddx], 2, mean, [&p0, &a, &a, &p3], ddy);
    }
    if let Some(dx) = dx {
        if global {
            let p1 = each(c, |c| seeds.ddscale[c] * inv[c]);
            return d.linear([dy; 3], 1, &zeros, [&p1, &p1, &p1, &zeros], dx);
        }
        let g = each(c, |c| scale[c] * inv[c] * inv[c]);
        let s = each(c, |c| seeds.ddscale[c] * inv[c]);
        let p0 = each(c, |c| {
            let xhat = g[c] * (m(1, c) * m(3, c) + m(3, c) * m(1, c) - inner(c)) - s[c] * m(1, c);
            xhat * inv[c]
        });
        let p1 = each(c, |c| s[c] - g[c] * m(3, c));
        let p2 = each(c, |c| T::ZERO - g[c] * m(1, c));
        let p3 = each(c, |c| g[c] * (m(1, c) * m(2, c) + m(3, c) * m(0, c)) - s[c] * m(0, c));
        d.linear([x, dy, ddx], 3, mean, [&p0, &p1, &p2, &p3], dx);
    }
}

/// running = running * old + batch * new
pub fn mix_running<T: Float>(running: &mut [T], batch: &[T], old: T, new: T) {
    running.iter_mut().zip(batch).for_each(|(r, &b)| *r = *r * old + b * new);
}

/// The sums over images of `all`, [images, channels], per channel.
pub fn over_images<T: Float>(all: &[T], out: &mut [T]) {
    out.fill(T::ZERO);
    for image in all.chunks_exact(out.len().max(1)) {
        out.iter_mut().zip(image).for_each(|(o, &v)| *o += v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_statistics_are_mixed() {
        let mut running = [1.0f64, -2.0];
        mix_running(&mut running, &[3.0, 4.0], 0.75, 0.25);
        assert_eq!(running, [1.5, -0.5]);
        let mut sums = [9.0f32; 2];
        over_images(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut sums);
        assert_eq!(sums, [9.0, 12.0]);
        over_images::<f32>(&[], &mut []);
    }
}
