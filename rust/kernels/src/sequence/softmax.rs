//! Softmax over the steps of each sequence, one element a step.

use super::spans;
use crate::types::Float;

/// Softmax of each sequence. Its maximum is subtracted first, so that no exponential overflows.
pub fn softmax<T: Float>(level: &[usize], x: &[T], out: &mut [T]) {
    for span in spans(level) {
        let (from, to) = (&x[span.clone()], &mut out[span]);
        let most = from.iter().fold(T::lowest(), |m, &v| if v > m { v } else { m });
        let mut sum = T::ZERO;
        for (to, &v) in to.iter_mut().zip(from) {
            *to = (v - most).exp();
            sum += *to;
        }
        to.iter_mut().for_each(|to| *to = *to / sum);
    }
}

/// The gradient of the input from the result `y` and its gradient.
pub fn softmax_grad<T: Float>(level: &[usize], y: &[T], dout: &[T], dx: &mut [T]) {
    for span in spans(level) {
        let (y, d) = (&y[span.clone()], &dout[span.clone()]);
        let sum: T = y.iter().zip(d).map(|(&y, &d)| y * d).sum();
        dx[span].iter_mut().zip(y.iter().zip(d)).for_each(|(dx, (&y, &d))| *dx = (d - sum) * y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_equals_a_plain_loop() {
        let (level, x) = ([0, 3, 3, 4, 7], [1.0f64, -2.0, 0.5, 1000.0, 3.0, 3.0, f64::NEG_INFINITY]);
        let dout = [1.0, 2.0, -3.0, 4.0, 0.5, -1.0, 2.0];
        let (mut y, mut dx) = ([0.0; 7], [0.0; 7]);
        softmax(&level, &x, &mut y);
        softmax_grad(&level, &y, &dout, &mut dx);
        for w in level.windows(2) {
            let top = x[w[0]..w[1]].iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = (w[0]..w[1]).map(|i| (x[i] - top).exp()).sum();
            let dot: f64 = (w[0]..w[1]).map(|i| (x[i] - top).exp() / total * dout[i]).sum();
            for i in w[0]..w[1] {
                let p = (x[i] - top).exp() / total;
                assert!((y[i] - p).abs() < 1e-15 && (dx[i] - (dout[i] - dot) * p).abs() < 1e-14);
            }
        }
    }
}
