//! cos_sim: cosine similarity of rows.

use crate::types::Float;

/// Lower bound of a squared norm.
const LEAST: f64 = 1e-8;

/// The norms of rows of `columns` elements, at least sqrt(1e-8).
pub fn norms<T: Float>(x: &[T], rows: usize, columns: usize) -> Vec<T> {
    let least = T::from_f64(LEAST);
    let length = |v: &[T]| {
        let squares = v.iter().fold(T::from_f64(-0.0), |sum, &v| sum + v * v);
        if squares > least { squares } else { least }.sqrt()
    };
    (0..rows).map(|i| length(&x[i * columns..][..columns])).collect()
}

/// Rows of X, and as many of Y or one (`shared`).
#[derive(Clone, Copy)]
pub struct CosineRows<'a, T> {
    pub x: &'a [T],
    pub y: &'a [T],
    pub x_norms: &'a [T],
    pub y_norms: &'a [T],
    pub columns: usize,
    pub shared: bool,
}

impl<T: Float> CosineRows<'_, T> {
    fn rows(&self, i: usize) -> (&[T], &[T], usize) {
        let k = if self.shared { 0 } else { i };
        (&self.x[i * self.columns..][..self.columns], &self.y[k * self.columns..][..self.columns], k)
    }

    pub fn forward(&self, out: &mut [T]) {
        for (i, out) in out.iter_mut().enumerate() {
            let (xs, ys, k) = self.rows(i);
            let product = xs.iter().zip(ys).fold(T::from_f64(-0.0), |sum, (&a, &b)| sum + a * b);
            *out = product / (self.x_norms[i] * self.y_norms[k]);
        }
    }

    /// The requested gradients. A norm at the lower bound does not depend on the row.
    pub fn backward(&self, out: &[T], d: &[T], mut dx: Option<&mut [T]>, mut dy: Option<&mut [T]>) {
        let n = self.columns;
        let least = T::from_f64(LEAST).sqrt();
        let pull = |norm: T| if norm > least { T::ONE / (norm * norm) } else { T::ZERO };
        if let Some(dy) = &mut dy {
            dy.fill(T::ZERO);
        }
        for i in 0..out.len() {
            let (xs, ys, k) = self.rows(i);
            let scale = T::ONE / (self.x_norms[i] * self.y_norms[k]);
            let (of_x, of_y) = (out[i] * pull(self.x_norms[i]), out[i] * pull(self.y_norms[k]));
            if let Some(dx) = &mut dx {
                let dx = &mut dx[i * n..][..n];
                dx.iter_mut().zip(xs.iter().zip(ys)).for_each(|(g, (&x, &y))| *g = d[i] * (y * scale - x * of_x));
            }
            if let Some(dy) = &mut dy {
                let dy = &mut dy[k * n..][..n];
                dy.iter_mut().zip(xs.iter().zip(ys)).for_each(|(g, (&x, &y))| *g += d[i] * (x * scale - y * of_y));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar(x: &[f64], y: &[f64]) -> Vec<f64> {
        let (rows, shared) = (x.len() / 3, y.len() == 3);
        let (x_norms, y_norms) = (norms(x, rows, 3), norms(y, y.len() / 3, 3));
        let mut out = vec![9.0; rows];
        CosineRows { x, y, x_norms: &x_norms, y_norms: &y_norms, columns: 3, shared }.forward(&mut out);
        out
    }

    #[test]
    fn angles_of_rows() {
        // The third row is zero.
        let x = [1.0, 2.0, 2.0, -1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 4.0];
        for y in [vec![0.0, 3.0, 4.0], vec![0.0, 3.0, 4.0, 1.0, 1.0, 1.0, 2.0, 0.0, 1.0, -3.0, 1.0, 2.0]] {
            let out = similar(&x, &y);
            for i in 0..4 {
                let (a, b) = (&x[i * 3..][..3], &y[i * 3 % y.len()..][..3]);
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let want = dot(a, b) / (dot(a, a).max(1e-8) * dot(b, b).max(1e-8)).sqrt();
                assert!((out[i] - want).abs() < 1e-12);
            }
            let (d, shared) = ([1.0, -2.0, 0.5, 3.0], y.len() == 3);
            let (x_norms, y_norms) = (norms(&x, 4, 3), norms(&y, y.len() / 3, 3));
            let rows = CosineRows { x: &x, y: &y, x_norms: &x_norms, y_norms: &y_norms, columns: 3, shared };
            let (mut dx, mut dy) = (vec![9.0; 12], vec![9.0; y.len()]);
            rows.backward(&out, &d, Some(&mut dx), Some(&mut dy));
            let loss = |x: &[f64], y: &[f64]| similar(x, y).iter().zip(&d).map(|(o, d)| o * d).sum::<f64>();
            for k in 0..12 {
                let at = |by: f64| {
                    let mut x = x;
                    x[k] += by;
                    loss(&x, &y)
                };
                assert!((dx[k] - (at(1e-7) - at(-1e-7)) / 2e-7).abs() < 1e-5 * dx[k].abs().max(1.0), "{k}");
            }
            for k in 0..y.len() {
                let at = |by: f64| {
                    let mut y = y.clone();
                    y[k] += by;
                    loss(&x, &y)
                };
                assert!((dy[k] - (at(1e-7) - at(-1e-7)) / 2e-7).abs() < 1e-5, "{k}");
            }
            rows.backward(&out, &d, None, None);
        }
    }
}
