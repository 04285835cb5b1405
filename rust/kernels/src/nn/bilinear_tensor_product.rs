//! bilinear_tensor_product: out[b, k] = x[b] W[k] y[b] + bias[k].

use crate::gemm::{gemm, Epilogue, Gemm, View};
use crate::types::Float;

/// The operands.
#[derive(Clone, Copy)]
pub struct BilinearProduct<'a, T> {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub size: usize,
    /// [batch, m]
    pub x: &'a [T],
    /// [batch, n]
    pub y: &'a [T],
    /// [size, m, n]
    pub w: &'a [T],
}

impl<'a, T: Gemm + Float> BilinearProduct<'a, T> {
    fn matrix(&self, k: usize) -> &'a [T] {
        &self.w[k * self.m * self.n..][..self.m * self.n]
    }

    /// out [batch, size]
    pub fn forward(&self, bias: Option<&[T]>, out: &mut [T]) {
        let (m, n, size) = (self.m, self.n, self.size);
        let mut part = vec![T::ZERO; self.batch * n];
        for k in 0..size {
            let (a, b) = (View::rows(self.x, m, false), View::rows(self.matrix(k), n, false));
            gemm((self.batch, n, m), T::ONE, a, b, T::ZERO, &mut part, n, Epilogue::NONE);
            for i in 0..self.batch {
                let terms = part[i * n..][..n].iter().zip(&self.y[i * n..][..n]);
                let sum = terms.fold(T::ZERO, |s, (&a, &b)| s + a * b);
                out[i * size + k] = sum + bias.map_or(T::ZERO, |b| b[k]);
            }
        }
    }

    /// Rows of `from`, of `width` elements, scaled by column `k` of `dout`.
    fn scaled(&self, from: &[T], width: usize, dout: &[T], k: usize, to: &mut [T]) {
        for i in 0..self.batch {
            let factor = dout[i * self.size + k];
            let row = from[i * width..][..width].iter().zip(&mut to[i * width..][..width]);
            row.for_each(|(&v, t)| *t = v * factor);
        }
    }

    /// The requested gradients.
    pub fn backward(&self, dout: &[T], dx: Option<&mut [T]>, dy: Option<&mut [T]>, dw: Option<&mut [T]>) {
        let (batch, m, n) = (self.batch, self.m, self.n);
        let (mut dx, mut dy, mut dw) = (dx, dy, dw);
        dx.iter_mut().for_each(|d| d.fill(T::ZERO));
        dy.iter_mut().for_each(|d| d.fill(T::ZERO));
        let mut part = vec![T::ZERO; batch * m.max(n)];
        for k in 0..self.size {
            let w = self.matrix(k);
            if dx.is_some() || dw.is_some() {
                self.scaled(self.y, n, dout, k, &mut part);
            }
            let scaled = View::rows(&part[..batch * n], n, false);
            if let Some(dx) = &mut dx {
                gemm((batch, m, n), T::ONE, scaled, View::rows(w, n, true), T::ONE, dx, m, Epilogue::NONE);
            }
            if let Some(dw) = &mut dw {
                let (a, to) = (View::rows(self.x, m, true), &mut dw[k * m * n..][..m * n]);
                let scaled = View::rows(&part[..batch * n], n, false);
                gemm((m, n, batch), T::ONE, a, scaled, T::ZERO, to, n, Epilogue::NONE);
            }
            if let Some(dy) = &mut dy {
                self.scaled(self.x, m, dout, k, &mut part);
                let scaled = View::rows(&part[..batch * m], m, false);
                gemm((batch, n, m), T::ONE, scaled, View::rows(w, n, false), T::ONE, dy, n, Epilogue::NONE);
            }
        }
    }

    /// The sums of the columns of `dout`.
    pub fn bias_grad(&self, dout: &[T], sums: &mut [T]) {
        sums.fill(T::ZERO);
        for row in dout.chunks_exact(self.size.max(1)) {
            sums.iter_mut().zip(row).for_each(|(s, &v)| *s += v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_rows_with_every_matrix() {
        let values = |n: usize, seed: usize| (0..n).map(|i| ((i * 7919 + seed) % 11) as f64 - 5.0).collect::<Vec<_>>();
        let (x, y, w, bias, d) = (values(6, 1), values(12, 2), values(2 * 2 * 4, 3), values(2, 4), values(6, 5));
        let p = BilinearProduct { batch: 3, m: 2, n: 4, size: 2, x: &x, y: &y, w: &w };
        let (mut out, mut plain) = (vec![9.0; 6], vec![9.0; 6]);
        p.forward(Some(&bias), &mut out);
        p.forward(None, &mut plain);
        let [mut dx, mut dy, mut dw, mut db] = [vec![9.0; 6], vec![9.0; 12], vec![9.0; 16], vec![9.0; 2]];
        p.backward(&d, Some(&mut dx), Some(&mut dy), Some(&mut dw));
        p.bias_grad(&d, &mut db);
        let [mut wx, mut wy, mut ww, mut wb] = [vec![0.0; 6], vec![0.0; 12], vec![0.0; 16], vec![0.0; 2]];
        for (b, k) in (0..3).flat_map(|b| (0..2).map(move |k| (b, k))) {
            let mut sum = 0.0;
            for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
                let (xi, yj, at) = (b * 2 + i, b * 4 + j, (k * 2 + i) * 4 + j);
                sum += x[xi] * w[at] * y[yj];
                wx[xi] += d[b * 2 + k] * w[at] * y[yj];
                wy[yj] += d[b * 2 + k] * w[at] * x[xi];
                ww[at] += d[b * 2 + k] * x[xi] * y[yj];
            }
            wb[k] += d[b * 2 + k];
            assert_eq!((out[b * 2 + k], plain[b * 2 + k]), (sum + bias[k], sum));
        }
        // Integers: sums are exact.
        assert_eq!((dx, dy, dw, db), (wx, wy, ww, wb));
        p.backward(&d, None, None, None);
    }
}
