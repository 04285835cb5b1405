//! conv_shift: circular convolution of the rows of two matrices.

use crate::types::Float;

/// Rows of X and of Y: their number and lengths (`n` is odd and at most `m`).
#[derive(Clone, Copy)]
pub struct ConvShift {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
}

impl ConvShift {
    /// Calls `f(offset in Out, offset in X, offset in Y)` for every product.
    fn for_each_term(&self, mut f: impl FnMut(usize, usize, usize)) {
        let &ConvShift { batch, m, n } = self;
        for b in 0..batch {
            for i in 0..m {
                for j in 0..n {
                    f(b * m + i, b * m + (i + j + m - n / 2) % m, b * n + j);
                }
            }
        }
    }

    pub fn forward<T: Float>(&self, x: &[T], y: &[T], out: &mut [T]) {
        out.fill(T::ZERO);
        self.for_each_term(|to, at, k| out[to] += x[at] * y[k]);
    }

    pub fn x_grad<T: Float>(&self, dout: &[T], y: &[T], dx: &mut [T]) {
        dx.fill(T::ZERO);
        self.for_each_term(|to, at, k| dx[at] += dout[to] * y[k]);
    }

    pub fn y_grad<T: Float>(&self, dout: &[T], x: &[T], dy: &mut [T]) {
        dy.fill(T::ZERO);
        self.for_each_term(|to, at, k| dy[k] += dout[to] * x[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_circular() {
        let c = ConvShift { batch: 2, m: 4, n: 3 };
        let (x, y, d) = (
            [1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            [1.0, 10.0, 100.0, 2.0, 0.0, 3.0],
            [1.0, 0.0, -1.0, 2.0, 3.0, 1.0, 0.0, 5.0],
        );
        let (mut out, mut dx, mut dy) = ([9.0; 8], [9.0; 8], [9.0; 6]);
        c.forward(&x, &y, &mut out);
        c.x_grad(&d, &y, &mut dx);
        c.y_grad(&d, &x, &mut dy);
        assert_eq!(out[..4], [4.0 + 10.0 + 200.0, 1.0 + 20.0 + 300.0, 2.0 + 30.0 + 400.0, 3.0 + 40.0 + 100.0]);
        assert_eq!(
            out[4..],
            [2.0 * 8.0 + 3.0 * 6.0, 2.0 * 5.0 + 3.0 * 7.0, 2.0 * 6.0 + 3.0 * 8.0, 2.0 * 7.0 + 3.0 * 5.0]
        );
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert_eq!(dot(&out, &d), dot(&x, &dx));
        assert_eq!(dot(&out, &d), dot(&y, &dy));
    }
}
