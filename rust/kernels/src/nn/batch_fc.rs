//! batch_fc: a product with a bias for each slot of a batch.

use crate::gemm::{matmul, Gemm};
use crate::types::Float;

/// Slots, and the sizes of each: rows, inputs and outputs.
#[derive(Clone, Copy)]
pub struct BatchFc {
    pub slots: usize,
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
}

fn part<T>(all: &[T], i: usize, parts: usize) -> &[T] {
    let each = all.len() / parts;
    &all[i * each..][..each]
}

fn part_mut<T>(all: &mut [T], i: usize, parts: usize) -> &mut [T] {
    let each = all.len() / parts;
    &mut all[i * each..][..each]
}

impl BatchFc {
    /// out [slots, rows, outputs] = x [slots, rows, inputs] w [slots, inputs, outputs] + bias [slots, outputs]
    pub fn forward<T: Float + Gemm>(&self, x: &[T], w: &[T], bias: &[T], out: &mut [T]) {
        let n = self.slots;
        for s in 0..n {
            let out = part_mut(out, s, n);
            matmul((self.rows, self.outputs, self.inputs), part(x, s, n), false, part(w, s, n), false, out);
            for row in out.chunks_exact_mut(self.outputs.max(1)) {
                row.iter_mut().zip(part(bias, s, n)).for_each(|(o, &b)| *o += b);
            }
        }
    }

    pub fn x_grad<T: Float + Gemm>(&self, dout: &[T], w: &[T], dx: &mut [T]) {
        let n = self.slots;
        for s in 0..n {
            let (d, w) = (part(dout, s, n), part(w, s, n));
            matmul((self.rows, self.inputs, self.outputs), d, false, w, true, part_mut(dx, s, n));
        }
    }

    pub fn w_grad<T: Float + Gemm>(&self, x: &[T], dout: &[T], dw: &mut [T]) {
        let n = self.slots;
        for s in 0..n {
            let (x, d) = (part(x, s, n), part(dout, s, n));
            matmul((self.inputs, self.outputs, self.rows), x, true, d, false, part_mut(dw, s, n));
        }
    }

    pub fn bias_grad<T: Float>(&self, dout: &[T], dbias: &mut [T]) {
        dbias.fill(T::ZERO);
        for s in 0..self.slots {
            let to = part_mut(dbias, s, self.slots);
            for row in part(dout, s, self.slots).chunks_exact(self.outputs.max(1)) {
                to.iter_mut().zip(row).for_each(|(to, &d)| *to += d);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_multiplied_apart() {
        let s = BatchFc { slots: 2, rows: 3, inputs: 4, outputs: 5 };
        let values = |n: usize, seed: usize| (0..n).map(|i| ((i * 7919 + seed) % 13) as f64 - 6.0).collect::<Vec<_>>();
        let (x, w, bias, d) = (values(24, 1), values(40, 2), values(10, 3), values(30, 4));
        let (mut out, mut dx, mut dw, mut db) = (vec![9.0; 30], vec![9.0; 24], vec![9.0; 40], vec![9.0; 10]);
        s.forward(&x, &w, &bias, &mut out);
        s.x_grad(&d, &w, &mut dx);
        s.w_grad(&x, &d, &mut dw);
        s.bias_grad(&d, &mut db);
        let [mut wout, mut wdx, mut wdw, mut wdb] = [vec![0.0; 30], vec![0.0; 24], vec![0.0; 40], vec![0.0; 10]];
        for (n, r, o) in (0..2).flat_map(|n| (0..3).flat_map(move |r| (0..5).map(move |o| (n, r, o)))) {
            let at = (n * 3 + r) * 5 + o;
            wout[at] = bias[n * 5 + o];
            wdb[n * 5 + o] += d[at];
            for i in 0..4 {
                let (a, b) = ((n * 3 + r) * 4 + i, (n * 4 + i) * 5 + o);
                wout[at] += x[a] * w[b];
                wdx[a] += d[at] * w[b];
                wdw[b] += x[a] * d[at];
            }
        }
        // Integers: sums are exact.
        assert_eq!((out, dx, dw, db), (wout, wdx, wdw, wdb));
        BatchFc { slots: 0, ..s }.forward::<f32>(&[], &[], &[], &mut []);
    }
}
