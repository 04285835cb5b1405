//! spectral_norm: a weight divided by its largest singular value, which power iteration estimates.

use crate::types::Number;

/// The weight as a matrix of dimension `dim` by all others. Element (i, j) is at i * cols + j if `outer` = 1, else at
/// (j / inner * rows + i) * inner + j % inner.
#[derive(Clone, Copy)]
pub struct WeightMatrix {
    pub rows: usize,
    pub cols: usize,
    pub inner: usize,
}

impl WeightMatrix {
    fn at(&self, i: usize, j: usize) -> usize {
        (j / self.inner * self.rows + i) * self.inner + j % self.inner
    }
}

/// Result of the power iteration.
pub struct PowerIteration {
    pub u: Vec<f64>,
    pub v: Vec<f64>,
    pub sigma: f64,
}

fn unit(x: &mut [f64], eps: f64) {
    let length = x.iter().map(|v| v * v).sum::<f64>().sqrt() + eps;
    x.iter_mut().for_each(|v| *v /= length);
}

/// Iterates from `u` (rows) and `v` (columns).
pub fn iterate<T: Number>(m: WeightMatrix, w: &[T], u: &[T], v: &[T], iterations: i32, eps: f64) -> PowerIteration {
    let vector = |t: &[T]| t.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    let (mut u, mut v) = (vector(u), vector(v));
    let by = |v: &[f64], out: &mut [f64]| {
        for (i, o) in out.iter_mut().enumerate() {
            *o = (0..m.cols).map(|j| w[m.at(i, j)].to_f64() * v[j]).sum();
        }
    };
    for _ in 0..iterations {
        let before = u.clone();
        for (j, o) in v.iter_mut().enumerate() {
            *o = (0..m.rows).map(|i| w[m.at(i, j)].to_f64() * u[i]).sum();
        }
        unit(&mut v, eps);
        by(&v, &mut u);
        unit(&mut u, eps);
        // A fixed point, bit for bit (NaN included): further iterations change nothing.
        if u.iter().zip(&before).all(|(a, b)| a.to_bits() == b.to_bits()) {
            break;
        }
    }
    let mut wv = vec![0.0; m.rows];
    by(&v, &mut wv);
    let sigma = u.iter().zip(&wv).map(|(a, b)| a * b).sum();
    PowerIteration { u, v, sigma }
}

/// out = w / sigma
pub fn normalize<T: Number>(w: &[T], sigma: f64, out: &mut [T]) {
    out.iter_mut().zip(w).for_each(|(o, &w)| *o = T::from_f64(w.to_f64() / sigma));
}

/// The gradient of w: sigma = u' W v has the derivative u v' (changes of u and v are of second order).
pub fn normalize_grad<T: Number>(m: WeightMatrix, found: &PowerIteration, w: &[T], d: &[T], out: &mut [T]) {
    let sigma = found.sigma;
    let along = w.iter().zip(d).map(|(&w, &d)| w.to_f64() / sigma * d.to_f64()).sum::<f64>();
    for (i, &u) in found.u.iter().enumerate() {
        for (j, &v) in found.v.iter().enumerate() {
            let at = m.at(i, j);
            out[at] = T::from_f64((d[at].to_f64() - along * u * v) / sigma);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_singular_value_is_found() {
        // Columns of [2, 3, 2] by the middle dimension: a matrix of rank 1 plus a small one.
        let m = WeightMatrix { rows: 3, cols: 4, inner: 2 };
        let (left, right) = ([0.6, 0.0, 0.8], [0.5, 0.5, 0.5, 0.5]);
        let mut w = [0.0f64; 12];
        for (i, j) in (0..3).flat_map(|i| (0..4).map(move |j| (i, j))) {
            w[m.at(i, j)] = 5.0 * left[i] * right[j] + if i == 1 && j == 0 { 0.1 } else { 0.0 };
        }
        let p = iterate(m, &w, &[1.0, 1.0, 1.0], &[1.0, 0.0, 0.0, 0.0], 50, 1e-12);
        assert!((p.sigma - 5.0).abs() < 1e-2);
        // u' W v, by the definition.
        let plain: f64 = (0..12).map(|k| p.u[k / 4] * p.v[k % 4] * w[m.at(k / 4, k % 4)]).sum();
        assert!((p.sigma - plain).abs() < 1e-12);
        let mut out = [0.0; 12];
        normalize(&w, p.sigma, &mut out);
        assert_eq!(out, w.map(|v| v / p.sigma));
        // With u and v fixed the gradient is the numeric one.
        let d: Vec<f64> = (0..12).map(|i| (i * 7 % 5) as f64 - 2.0).collect();
        let mut got = [9.0; 12];
        normalize_grad(m, &p, &w, &d, &mut got);
        for k in 0..12 {
            let loss = |by: f64| {
                let mut w = w;
                w[k] += by;
                let sigma: f64 = (0..12).map(|k| p.u[k / 4] * p.v[k % 4] * w[m.at(k / 4, k % 4)]).sum();
                w.iter().zip(&d).map(|(w, d)| w / sigma * d).sum::<f64>()
            };
            assert!((got[k] - (loss(1e-6) - loss(-1e-6)) / 2e-6).abs() < 1e-6);
        }
        assert_eq!(iterate(m, &w, &[1.0; 3], &[0.25; 4], 0, 0.0).v, [0.25; 4]);
    }
}
