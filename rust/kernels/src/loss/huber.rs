//! The Huber loss and the smooth L1 loss, and their gradients.

use crate::elementwise::{zip, zip3};
use crate::types::Float;

/// out = r^2 / 2 where |r| <= delta, else delta * (|r| - delta / 2).
pub fn huber<T: Float>(residual: &[T], delta: T, out: &mut [T]) {
    let half = T::from_f64(0.5);
    zip(residual, residual, out, |v, _| if v.abs() <= delta { half * v * v } else { delta * (v.abs() - half * delta) });
}

/// out = dout * sign * r clipped to -delta..=delta.
pub fn huber_grad<T: Float>(residual: &[T], dout: &[T], delta: T, sign: T, out: &mut [T]) {
    let low = T::from_f64(-1.0) * delta;
    zip(residual, dout, out, |v, d| {
        let slope = if v.abs() <= delta {
            v
        } else if v > T::ZERO {
            delta
        } else {
            low
        };
        d * (sign * slope)
    });
}

/// diff = (x - y) * inside, out = loss(diff) * outside, where loss(v) = v^2 * square / 2 if |v| < 1 / square, else
/// |v| - 1 / (2 * square). `square` is sigma^2; weights (inside, outside) default to 1.
pub fn smooth_l1<T: Float>(x: &[T], y: &[T], weights: Option<(&[T], &[T])>, square: T, diff: &mut [T], out: &mut [T]) {
    let (half, bound) = (T::from_f64(0.5), T::ONE / square);
    let loss = |v: T| if v.abs() < bound { half * v * v * square } else { v.abs() - half / square };
    match weights {
        Some((inside, outside)) => {
            zip3(x, y, inside, diff, |x, y, w| (x - y) * w);
            zip(diff, outside, out, |v, w| loss(v) * w);
        }
        None => {
            zip(x, y, diff, |x, y| x - y);
            zip(diff, diff, out, |v, _| loss(v));
        }
    }
}

/// out = sign * dout[row] * inside * outside * loss'(diff); `dout` has one value per row.
pub fn smooth_l1_grad<T: Float>(
    diff: &[T],
    dout: &[T],
    weights: Option<(&[T], &[T])>,
    square: T,
    sign: T,
    out: &mut [T],
) {
    let (width, bound) = (diff.len() / dout.len().max(1), T::ONE / square);
    let unit = |b: bool| T::from_f64(f64::from(u8::from(b)));
    let slope = |v: T| if v.abs() < bound { square * v } else { unit(v > T::ZERO) - unit(v < T::ZERO) };
    for (i, (to, &v)) in out.iter_mut().zip(diff).enumerate() {
        let w = weights.map_or(T::ONE, |(a, b)| a[i] * b[i]);
        *to = sign * (dout[i / width] * w * slope(v));
    }
}

/// The sums of the rows of a matrix in f64, in eight lanes.
pub fn row_sums<T: Float>(values: &[T], out: &mut [T]) {
    let width = values.len() / out.len().max(1);
    for (i, o) in out.iter_mut().enumerate() {
        let mut lanes = [0.0; 8];
        for some in values[i * width..(i + 1) * width].chunks(lanes.len()) {
            lanes.iter_mut().zip(some).for_each(|(l, &v)| *l += v.to_f64());
        }
        *o = T::from_f64(lanes.iter().sum::<f64>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + 13) % 201) as f64 / 50.0 - 2.0).collect()
    }

    #[test]
    fn huber_is_quadratic_near_zero_and_linear_beyond() {
        let (r, dout) = (noise(300), noise(300));
        let (mut out, mut grad) = (vec![0.0; 300], vec![0.0; 300]);
        huber(&r, 0.75, &mut out);
        huber_grad(&r, &dout, 0.75, -1.0, &mut grad);
        for i in 0..300 {
            let (v, size) = (r[i], r[i].abs());
            assert_eq!(out[i], if size <= 0.75 { 0.5 * v * v } else { 0.75 * (size - 0.375) });
            assert_eq!(grad[i], dout[i] * -v.clamp(-0.75, 0.75));
        }
    }

    #[test]
    fn smooth_l1_and_its_gradient_agree() {
        let (rows, width, square) = (6, 5, 2.25);
        let n = rows * width;
        let (x, y, a, b) = (noise(n), noise(2 * n)[n..].to_vec(), noise(3 * n)[2 * n..].to_vec(), noise(n));
        let dout = noise(rows);
        for weights in [None, Some((&a[..], &b[..]))] {
            let run = |x: &[f64]| {
                let (mut diff, mut losses, mut sums) = (vec![0.0; n], vec![0.0; n], vec![0.0; rows]);
                smooth_l1(x, &y, weights, square, &mut diff, &mut losses);
                row_sums(&losses, &mut sums);
                (diff, sums)
            };
            let (diff, sums) = run(&x);
            for (r, sum) in sums.iter().enumerate() {
                let plain: f64 = (r * width..(r + 1) * width)
                    .map(|i| {
                        let (inside, outside) = weights.map_or((1.0, 1.0), |(a, b)| (a[i], b[i]));
                        let v: f64 = (x[i] - y[i]) * inside;
                        outside * if v.abs() < 1.0 / square { 0.5 * v * v * square } else { v.abs() - 0.5 / square }
                    })
                    .sum();
                assert!((sum - plain).abs() < 1e-12);
            }
            let mut dx = vec![0.0; n];
            smooth_l1_grad(&diff, &dout, weights, square, 1.0, &mut dx);
            for i in 0..n {
                let at = |h: f64| {
                    let mut x = x.clone();
                    x[i] += h;
                    run(&x).1.iter().zip(&dout).map(|(s, d)| s * d).sum::<f64>()
                };
                assert!((dx[i] - (at(1e-6) - at(-1e-6)) / 2e-6).abs() < 1e-5, "{i}");
            }
        }
    }
}
