//! Bilinear similarities of every step of a sequence with every step of another, for several forms.

use super::spans;
use crate::gemm::{gemm, matmul, Epilogue, GemmFloat, View};
use std::ops::Range;

/// Pairs of sequences of `x` [rows, widths.0] and `y` [rows, widths.1], and the forms `w` [widths.0, forms, widths.1].
#[derive(Clone, Copy)]
pub struct Match<'a, T> {
    pub x: &'a [T],
    pub y: &'a [T],
    pub w: &'a [T],
    pub x_level: &'a [usize],
    pub y_level: &'a [usize],
    pub forms: usize,
    pub widths: (usize, usize),
    /// Offsets of each pair's results [forms, steps of x, steps of y].
    pub ends: &'a [usize],
}

/// A pair of sequences: rows of x, rows of y, offset of the results.
struct Pair {
    x: Range<usize>,
    y: Range<usize>,
    at: usize,
}

/// Requested gradients of x, y and w.
pub struct MatchGrads<'a, T> {
    pub x: Option<&'a mut [T]>,
    pub y: Option<&'a mut [T]>,
    pub w: Option<&'a mut [T]>,
}

impl<T: GemmFloat> Match<'_, T> {
    fn rows(&self) -> usize {
        self.x_level.last().copied().unwrap_or(0)
    }

    /// The pairs of which both sequences have steps, with each form.
    fn each(&self, mut f: impl FnMut(&Pair, usize)) {
        for ((x, y), &at) in spans(self.x_level).zip(spans(self.y_level)).zip(self.ends) {
            let pair = Pair { x, y, at };
            let forms = if pair.x.is_empty() || pair.y.is_empty() { 0 } else { self.forms };
            (0..forms).for_each(|form| f(&pair, form));
        }
    }

    /// x times w: one vector per form for each row of x.
    pub fn turned(&self) -> Vec<T> {
        let (rows, depth) = (self.rows(), self.forms * self.widths.1);
        let mut turned = vec![T::ZERO; rows * depth];
        matmul((rows, depth, self.widths.0), self.x, false, self.w, false, &mut turned);
        turned
    }

    /// The similarities, from the result of [`Match::turned`].
    pub fn forward(&self, turned: &[T]) -> Vec<T> {
        let width = self.widths.1;
        let mut out = vec![T::ZERO; self.ends.last().copied().unwrap_or(0)];
        self.each(|p, form| {
            let (m, n) = (p.x.len(), p.y.len());
            let a = View::new(&turned[(p.x.start * self.forms + form) * width..], self.forms * width, 1);
            let b = View::rows(&self.y[p.y.start * width..p.y.end * width], width, true);
            let out = &mut out[p.at + form * m * n..][..m * n];
            gemm((m, n, width), T::ONE, a, b, T::ZERO, out, n, Epilogue::NONE);
        });
        out
    }

    /// Writes the gradients from that of the similarities.
    pub fn backward(&self, dout: &[T], grads: MatchGrads<T>) {
        let (rows, (inner, width)) = (self.rows(), self.widths);
        let (turned, step, none) = (self.turned(), self.forms * width, Epilogue::NONE);
        let mut dturned = vec![T::ZERO; turned.len()];
        let mut dy = grads.y;
        if let Some(dy) = &mut dy {
            dy.fill(T::ZERO);
        }
        self.each(|p, form| {
            let (m, n) = (p.x.len(), p.y.len());
            let (d, from) = (&dout[p.at + form * m * n..][..m * n], (p.x.start * self.forms + form) * width);
            let own = p.y.start * width..p.y.end * width;
            let b = View::rows(&self.y[own.clone()], width, false);
            gemm((m, width, n), T::ONE, View::rows(d, n, false), b, T::ZERO, &mut dturned[from..], step, none);
            if let Some(dy) = &mut dy {
                let b = View::new(&turned[from..], step, 1);
                gemm((n, width, m), T::ONE, View::rows(d, n, true), b, T::ONE, &mut dy[own], width, none);
            }
        });
        if let Some(dx) = grads.x {
            matmul((rows, inner, step), &dturned, false, self.w, true, dx);
        }
        if let Some(dw) = grads.w {
            matmul((inner, step, rows), self.x, true, &dturned, false, dw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_equal_a_plain_loop() {
        let (x_level, y_level, forms, widths) = ([0, 2, 2, 5], [0, 3, 4, 6], 2, (3, 2));
        let ramp = |n: usize, k: usize| (0..n).map(|i| (i * k % 11) as f64 - 5.0).collect::<Vec<_>>();
        let (x, y, w) = (ramp(5 * 3, 7), ramp(6 * 2, 5), ramp(3 * 2 * 2, 3));
        let ends = [0, 12, 12, 24];
        let m = Match { x: &x, y: &y, w: &w, x_level: &x_level, y_level: &y_level, forms, widths, ends: &ends };
        let out = m.forward(&m.turned());
        let dout = ramp(24, 9);
        let (mut dx, mut dy, mut dw) = (vec![1.0; 15], vec![1.0; 12], vec![1.0; 12]);
        m.backward(&dout, MatchGrads { x: Some(&mut dx), y: Some(&mut dy), w: Some(&mut dw) });
        let (mut want, mut want_dx, mut want_dy, mut want_dw) =
            (vec![0.0; 24], vec![0.0; 15], vec![0.0; 12], vec![0.0; 12]);
        for pair in 0..3 {
            let (first_x, first_y) = (x_level[pair], y_level[pair]);
            let (m, n) = (x_level[pair + 1] - first_x, y_level[pair + 1] - first_y);
            for (form, i, j) in (0..forms).flat_map(|f| (0..m).flat_map(move |i| (0..n).map(move |j| (f, i, j)))) {
                let at = ends[pair] + (form * m + i) * n + j;
                for (a, b) in (0..3).flat_map(|a| (0..2).map(move |b| (a, b))) {
                    let (xa, yb, wf) = ((first_x + i) * 3 + a, (first_y + j) * 2 + b, (a * forms + form) * 2 + b);
                    want[at] += x[xa] * w[wf] * y[yb];
                    want_dx[xa] += dout[at] * w[wf] * y[yb];
                    want_dy[yb] += dout[at] * x[xa] * w[wf];
                    want_dw[wf] += dout[at] * x[xa] * y[yb];
                }
            }
        }
        assert_eq!((out, dx, dy, dw), (want, want_dx, want_dy, want_dw));
    }
}
