//! row_conv: lookahead convolution along the time steps of sequences.

use crate::types::Float;

/// Sequences by first and end row, rows of `width` elements, filters of `context` rows.
#[derive(Clone, Copy)]
pub struct RowConv<'a> {
    pub spans: &'a [(usize, usize)],
    pub context: usize,
    pub width: usize,
}

impl RowConv<'_> {
    /// Calls `f(output row, row of X, filter row)` for every product.
    fn for_each_term(&self, mut f: impl FnMut(usize, usize, usize)) {
        for &(first, end) in self.spans {
            for row in first..end {
                for w in 0..self.context.min(end - row) {
                    f(row, row + w, w);
                }
            }
        }
    }

    /// Adds the product of two rows to a third.
    fn add<T: Float>(&self, to: &mut [T], at: usize, (a, i): (&[T], usize), (b, k): (&[T], usize)) {
        let n = self.width;
        let terms = a[i * n..][..n].iter().zip(&b[k * n..][..n]);
        to[at * n..][..n].iter_mut().zip(terms).for_each(|(y, (&x, &w))| *y += x * w);
    }

    pub fn forward<T: Float>(&self, x: &[T], w: &[T], y: &mut [T]) {
        y.fill(T::ZERO);
        self.for_each_term(|to, from, k| self.add(y, to, (x, from), (w, k)));
    }

    pub fn x_grad<T: Float>(&self, dy: &[T], w: &[T], dx: &mut [T]) {
        dx.fill(T::ZERO);
        self.for_each_term(|to, from, k| self.add(dx, from, (dy, to), (w, k)));
    }

    pub fn w_grad<T: Float>(&self, dy: &[T], x: &[T], dw: &mut [T]) {
        dw.fill(T::ZERO);
        self.for_each_term(|to, from, k| self.add(dw, k, (dy, to), (x, from)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_those_after_them() {
        let c = RowConv { spans: &[(0, 3), (3, 3), (3, 8)], context: 3, width: 2 };
        let values = |n: usize, seed: usize| (0..n).map(|i| ((i * 7919 + seed) % 11) as f64 - 5.0).collect::<Vec<_>>();
        let (x, w, d) = (values(16, 1), values(6, 2), values(16, 3));
        let (mut y, mut dx, mut dw) = (vec![9.0; 16], vec![9.0; 16], vec![9.0; 6]);
        c.forward(&x, &w, &mut y);
        c.x_grad(&d, &w, &mut dx);
        c.w_grad(&d, &x, &mut dw);
        let [mut want, mut wx, mut ww] = [vec![0.0; 16], vec![0.0; 16], vec![0.0; 6]];
        for (k, j) in (0..16).flat_map(|k| (0..3).map(move |j| (k, j))) {
            let (row, end) = (k / 2, if k / 2 < 3 { 3 } else { 8 });
            if row + j < end {
                want[k] += x[k + j * 2] * w[j * 2 + k % 2];
                wx[k + j * 2] += d[k] * w[j * 2 + k % 2];
                ww[j * 2 + k % 2] += d[k] * x[k + j * 2];
            }
        }
        assert_eq!((y, dx, dw), (want, wx, ww));
    }
}
