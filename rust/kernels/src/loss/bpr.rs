//! Bayesian personalised ranking: the mean of `ln(1 + exp(x[k] - x[label]))` over the other classes.

use crate::types::Float;

/// Infinities become +-1e20.
fn tolerable<T: Float>(v: T) -> T {
    let big = T::from_f64(1e20);
    match v.abs() == T::highest() {
        true if v > T::ZERO => big,
        true => -big,
        false => v,
    }
}

/// A loss for each row of `width` scores.
pub fn bpr<T: Float>(x: &[T], labels: &[i64], width: usize, out: &mut [T]) {
    let others = T::from_f64(width as f64) - T::ONE;
    for ((i, o), &label) in out.iter_mut().enumerate().zip(labels) {
        let (row, own) = (&x[i * width..(i + 1) * width], label as usize);
        let mut sum = T::ZERO;
        for (_, &v) in row.iter().enumerate().filter(|&(k, _)| k != own) {
            sum += tolerable((T::ONE + tolerable((v - row[own]).exp())).ln());
        }
        *o = sum / others;
    }
}

/// The gradient of the scores from those of the losses.
pub fn bpr_grad<T: Float>(x: &[T], labels: &[i64], width: usize, dout: &[T], dx: &mut [T]) {
    let others = T::from_f64(width as f64) - T::ONE;
    for (i, &label) in labels.iter().enumerate() {
        let (row, dx) = (&x[i * width..(i + 1) * width], &mut dx[i * width..(i + 1) * width]);
        let own = label as usize;
        let mut sum = T::ZERO;
        for (k, (&v, d)) in row.iter().zip(dx.iter_mut()).enumerate() {
            if k != own {
                *d = dout[i] / (others * (T::ONE + tolerable((row[own] - v).exp())));
                sum += *d;
            }
        }
        dx[own] = -sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_equal_a_plain_loop() {
        let (x, labels, dout) = ([0.5f64, -1.0, 2.0, 1e5, 0.0, -1e5], [2, 1], [1.0, 2.0]);
        let (mut y, mut dx) = ([0.0; 2], [0.0; 6]);
        bpr(&x, &labels, 3, &mut y);
        bpr_grad(&x, &labels, 3, &dout, &mut dx);
        let want = ((1.0 + (-1.5f64).exp()).ln() + (1.0 + (-3.0f64).exp()).ln()) / 2.0;
        assert!((y[0] - want).abs() < 1e-15);
        // exp(1e5) counts as 1e20.
        assert_eq!(y[1], (1.0 + 1e20f64).ln() / 2.0);
        let slope = |d: f64| 1.0 / (2.0 * (1.0 + (-d).exp()));
        assert!((dx[0] - slope(-1.5)).abs() < 1e-15 && (dx[1] - slope(-3.0)).abs() < 1e-15);
        assert_eq!(dx[2], -(dx[0] + dx[1]));
        assert_eq!(dx[4], -(dx[3] + dx[5]));
        bpr::<f32>(&[], &[], 3, &mut []);
    }
}
