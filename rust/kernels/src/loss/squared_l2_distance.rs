//! Squared distances of rows, and their gradients. One row of `y` is broadcast.

use super::huber::row_sums;
use crate::types::Float;

/// Writes the differences and the squared distance of each row.
pub fn distance<T: Float>(x: &[T], y: &[T], diff: &mut [T], out: &mut [T]) {
    diff.iter_mut().enumerate().for_each(|(i, d)| *d = x[i] - y[i % y.len()]);
    let squares: Vec<T> = diff.iter().map(|&v| v * v).collect();
    row_sums(&squares, out);
}

/// The gradient of x.
pub fn distance_grad<T: Float>(diff: &[T], dout: &[T], width: usize, dx: &mut [T]) {
    let two = T::from_f64(2.0);
    dx.iter_mut().enumerate().for_each(|(i, d)| *d = two * dout[i / width] * diff[i]);
}

/// The gradient of y; that of a broadcast row is the sum over the rows.
pub fn distance_grad_y<T: Float>(diff: &[T], dout: &[T], width: usize, dy: &mut [T]) {
    let (two, n) = (T::from_f64(2.0), dy.len().max(1));
    dy.fill(T::ZERO);
    for (i, &v) in diff.iter().enumerate() {
        dy[i % n] = dy[i % n] - two * dout[i / width] * v;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_equal_a_plain_loop() {
        let (x, dout) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, -2.0]);
        for y in [&[0.5, 1.0, 1.5][..], &[0.5, 1.0, 1.5, 2.0, 2.5, 3.0]] {
            let (mut diff, mut out, mut dx, mut dy) = ([0.0; 6], [0.0; 2], [0.0; 6], vec![9.0; y.len()]);
            distance(&x, y, &mut diff, &mut out);
            distance_grad(&diff, &dout, 3, &mut dx);
            distance_grad_y(&diff, &dout, 3, &mut dy);
            let (mut want, mut want_dy) = ([0.0; 2], vec![0.0; y.len()]);
            for i in 0..6 {
                let d = x[i] - y[i % y.len()];
                want[i / 3] += d * d;
                assert_eq!(dx[i], 2.0 * d * dout[i / 3]);
                want_dy[i % y.len()] -= 2.0 * d * dout[i / 3];
            }
            assert_eq!((out, dy), (want, want_dy));
        }
        distance::<f32>(&[], &[], &mut [], &mut []);
    }
}
