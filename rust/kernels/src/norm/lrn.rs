//! lrn: local response normalization across channels.

use crate::pool::{self, Shared};
use crate::types::Float;

/// The memory layout: channel c of pixel p of image i is at `i * channels * pixels + c * step + p * stride`.
#[derive(Clone, Copy)]
pub struct LrnLayout {
    pub images: usize,
    pub channels: usize,
    pub pixels: usize,
    pub step: usize,
    pub stride: usize,
}

impl LrnLayout {
    /// Calls `f(first, pixels)` for runs of pixels: the offset of their channel 0, and their number.
    fn runs(&self, f: impl Fn(usize, usize) + Sync) {
        const MOST: usize = 256;
        let parts = self.pixels.div_ceil(MOST);
        let image = self.channels * self.pixels;
        pool::ranges(self.images * parts, (1 << 14) / (self.channels * MOST).max(1), |range| {
            for i in range {
                let first = i % parts * MOST;
                f(i / parts * image + first * self.stride, MOST.min(self.pixels - first));
            }
        });
    }

    /// The range of channels within the window of size `n` around `c`.
    fn window(&self, c: usize, n: usize) -> std::ops::Range<usize> {
        let before = (n - 1) / 2;
        c.saturating_sub(before)..(c + (n - before)).min(self.channels)
    }
}

/// The window of channels (odd), and the constants.
#[derive(Clone, Copy)]
pub struct LrnRule<T> {
    pub window: usize,
    pub k: T,
    pub alpha: T,
    pub beta: T,
}

/// mid = k + alpha times the sum of squares in the window of channels; y = x mid^-beta.
pub fn lrn<T: Float>(l: LrnLayout, r: LrnRule<T>, x: &[T], y: &mut [T], mid: &mut [T]) {
    assert!(x.len() == l.images * l.channels * l.pixels && y.len() == x.len() && mid.len() == x.len());
    let (y, m) = (Shared::new(y), Shared::new(mid));
    l.runs(|first, pixels| {
        for c in 0..l.channels {
            let around = l.window(c, r.window);
            for p in 0..pixels {
                let pixel = first + p * l.stride;
                let squares = around.clone().map(|o| x[pixel + o * l.step]).fold(T::ZERO, |sum, v| sum + v * v);
                let (at, scale) = (pixel + c * l.step, r.k + r.alpha * squares);
                // SAFETY: every pixel belongs to exactly one run.
                unsafe {
                    m.part(at..at + 1)[0] = scale;
                    y.part(at..at + 1)[0] = x[at] * scale.pow(T::ZERO - r.beta);
                }
            }
        }
    });
}

/// The gradient of x.
pub fn lrn_grad<T: Float>(l: LrnLayout, r: LrnRule<T>, (x, out, mid, d): (&[T], &[T], &[T], &[T]), dx: &mut [T]) {
    assert!(x.len() == l.images * l.channels * l.pixels && dx.len() == x.len());
    let ratio = T::from_f64(-2.0) * r.alpha * r.beta;
    let dx = Shared::new(dx);
    l.runs(|first, pixels| {
        for c in 0..l.channels {
            // The window is symmetric: the channels whose windows contain c are those of c's window.
            let around = l.window(c, r.window);
            for p in 0..pixels {
                let pixel = first + p * l.stride;
                let at = pixel + c * l.step;
                let sum = around.clone().map(|o| pixel + o * l.step).fold(T::ZERO, |s, o| s + d[o] * out[o] / mid[o]);
                // SAFETY: every pixel belongs to exactly one run.
                unsafe {
                    dx.part(at..at + 1)[0] = d[at] * mid[at].pow(T::ZERO - r.beta) + ratio * x[at] * sum;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_divided_by_their_neighbors() {
        let (images, channels, pixels) = (2, 7, 300);
        let layouts = [
            LrnLayout { images, channels, pixels, step: pixels, stride: 1 },
            LrnLayout { images, channels, pixels, step: 1, stride: channels },
        ];
        let rule = LrnRule { window: 5, k: 1.5, alpha: 0.3, beta: 0.75 };
        let n = images * channels * pixels;
        let x: Vec<f64> = (0..n).map(|i| (i * 7919 % 101) as f64 / 50.0 - 1.0).collect();
        let d: Vec<f64> = (0..n).map(|i| (i * 31 % 17) as f64 / 8.0 - 1.0).collect();
        for l in layouts {
            let (mut y, mut mid, mut dx) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            lrn(l, rule, &x, &mut y, &mut mid);
            lrn_grad(l, rule, (&x, &y, &mid, &d), &mut dx);
            let at = |i: usize, c: usize, p: usize| i * channels * pixels + c * l.step + p * l.stride;
            let value = |x: &dyn Fn(usize) -> f64, i: usize, c: usize, p: usize| {
                let around = c.saturating_sub(2)..(c + 3).min(channels);
                let mid = 1.5 + 0.3 * around.map(|o| x(at(i, o, p)).powi(2)).sum::<f64>();
                (mid, x(at(i, c, p)) * mid.powf(-0.75))
            };
            for (i, c, p) in
                (0..images).flat_map(|i| (0..channels).flat_map(move |c| [0, 255, 256, 299].map(|p| (i, c, p))))
            {
                let (want_mid, want) = value(&|k| x[k], i, c, p);
                assert!((mid[at(i, c, p)] - want_mid).abs() < 1e-12 && (y[at(i, c, p)] - want).abs() < 1e-12);
                let loss = |by: f64| {
                    let moved = |k: usize| x[k] + if k == at(i, c, p) { by } else { 0.0 };
                    (0..channels).map(|o| value(&moved, i, o, p).1 * d[at(i, o, p)]).sum::<f64>()
                };
                let slope = (loss(1e-6) - loss(-1e-6)) / 2e-6;
                assert!((dx[at(i, c, p)] - slope).abs() < 1e-6, "{} {slope}", dx[at(i, c, p)]);
            }
        }
    }
}
