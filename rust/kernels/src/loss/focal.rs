//! Focal loss of logits: cross entropy weighted by how wrong a prediction is.

use crate::pool;
use crate::types::Float;

/// Elements per chunk.
const GRAIN: usize = 1 << 12;

/// The labels of the rows (0: background, k + 1: class k, -1: ignored) and the parameters of the loss.
#[derive(Clone, Copy)]
pub struct Focal<'a> {
    pub labels: &'a [i64],
    /// Classes.
    pub width: usize,
    pub alpha: f64,
    pub gamma: f32,
    /// Number of foreground samples, at least 1.
    pub foreground: f64,
}

impl Focal<'_> {
    /// The weights of the two terms of element `i`: alpha or 1 - alpha, over the number of foreground samples.
    fn shares<T: Float>(&self, i: usize) -> (T, T) {
        let (label, k) = (self.labels[i / self.width], i % self.width);
        let own = label == k as i64 + 1;
        let positive = if own { self.alpha / self.foreground } else { 0.0 };
        let negative = if !own && label != -1 { (1.0 - self.alpha) / self.foreground } else { 0.0 };
        (T::from_f64(positive), T::from_f64(negative))
    }

    /// The probability, the logarithms of it and of its complement.
    fn logs<T: Float>(x: T) -> (T, T, T) {
        let p = T::ONE / (T::ONE + (-x).exp());
        let least = T::from_f64(f64::from(f32::MIN_POSITIVE));
        let positive = if x > T::ZERO { x } else { T::ZERO };
        let clipped = if p > least { p } else { least };
        (p, clipped.ln(), -positive - (-x.abs()).exp().ln_1p())
    }

    /// A loss for each logit.
    pub fn loss<T: Float>(&self, x: &[T], out: &mut [T]) {
        let gamma = T::from_f64(f64::from(self.gamma));
        pool::parts(out, GRAIN, |at, out| {
            for (k, o) in out.iter_mut().enumerate() {
                let (positive, negative) = self.shares::<T>(at + k);
                let (p, log, rest) = Self::logs(x[at + k]);
                *o = -(T::ONE - p).pow(gamma) * log * positive - p.pow(gamma) * rest * negative;
            }
        });
    }

    /// The gradient of the logits.
    pub fn grad<T: Float>(&self, x: &[T], dout: &[T], dx: &mut [T]) {
        let gamma = T::from_f64(f64::from(self.gamma));
        pool::parts(dx, GRAIN, |at, dx| {
            for (k, d) in dx.iter_mut().enumerate() {
                let (positive, negative) = self.shares::<T>(at + k);
                let (p, log, rest) = Self::logs(x[at + k]);
                let own = (T::ONE - p).pow(gamma) * (T::ONE - p - p * gamma * log);
                let other = p.pow(gamma) * (rest * (T::ONE - p) * gamma - p);
                *d = (-positive * own - negative * other) * dout[at + k];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_equal_a_plain_loop() {
        let x: Vec<f64> = (0..9).map(|i| i as f64 * 0.7 - 3.0).collect();
        let focal = Focal { labels: &[0, 2, -1], width: 3, alpha: 0.25, gamma: 2.0, foreground: 3.0 };
        let (mut y, mut dx) = ([0.0; 9], [0.0; 9]);
        focal.loss(&x, &mut y);
        focal.grad(&x, &[2.0; 9], &mut dx);
        let plain = |i: usize, x: f64| {
            let p = 1.0 / (1.0 + (-x).exp());
            match (focal.labels[i / 3], i % 3) {
                (-1, _) => 0.0,
                (label, k) if label == k as i64 + 1 => -0.25 / 3.0 * (1.0 - p).powi(2) * p.ln(),
                _ => -0.75 / 3.0 * p.powi(2) * (1.0 - p).ln(),
            }
        };
        for i in 0..9 {
            let slope = (plain(i, x[i] + 1e-6) - plain(i, x[i] - 1e-6)) / 2e-6;
            assert!((y[i] - plain(i, x[i])).abs() < 1e-12 && (dx[i] - 2.0 * slope).abs() < 1e-8, "{i}");
        }
    }
}
