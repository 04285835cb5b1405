//! An LSTM that attends to the whole sequence at every step, with weights computed from its cell. Gate order: forget, input,
//! output, candidate.

use crate::gemm::{matmul, GemmFloat};
use crate::rnn::activation::Activation;

/// The parameters; n is the width of the cell.
pub struct AttentionLstm<'a, T> {
    pub inputs: usize,
    /// Of the inputs, then of the cell: [inputs + n].
    pub attention: &'a [T],
    pub bias: Option<T>,
    /// A scale of the attention scores, and a bias after it.
    pub scale: Option<T>,
    pub scale_bias: Option<T>,
    /// Of the hidden state, then of the attended input: [n + inputs, 4 * n].
    pub weight: &'a [T],
    pub gate_bias: &'a [T],
    pub gate: Activation,
    pub cell: Activation,
    pub candidate: Activation,
}

/// The buffers of a step.
struct Buffers<T> {
    attended: Vec<T>,
    sums: Vec<T>,
    from_hidden: Vec<T>,
}

impl<T: GemmFloat> AttentionLstm<'_, T> {
    /// Writes hidden states and cells of each row of `x` [rows, inputs], sequences between the offsets `level`. `h0` and `c0` have
    /// a row for each sequence.
    pub fn forward(
        &self,
        level: &[usize],
        x: &[T],
        (h0, c0): (Option<&[T]>, &[T]),
        n: usize,
        (hidden, cells): (&mut [T], &mut [T]),
    ) {
        let rows = x.chunks_exact(self.inputs.max(1));
        let dot = |row: &[T], w: &[T]| row.iter().zip(w).map(|(&a, &b)| a * b).sum::<T>();
        // Attention scores of the inputs alone.
        let own: Vec<T> = rows.map(|row| dot(row, self.attention) + self.bias.unwrap_or(T::ZERO)).collect();
        let zeros = |n: usize| vec![T::ZERO; n];
        let mut buffers = Buffers { attended: zeros(self.inputs), sums: zeros(4 * n), from_hidden: zeros(4 * n) };
        for (i, seq) in level.windows(2).enumerate() {
            let mut before_c = c0[i * n..(i + 1) * n].to_vec();
            let mut before_h = h0.map(|h| h[i * n..(i + 1) * n].to_vec());
            let xs = &x[seq[0] * self.inputs..seq[1] * self.inputs];
            for row in seq[0]..seq[1] {
                let of_cell = dot(&before_c, &self.attention[self.inputs..]);
                self.attend(&own[seq[0]..seq[1]], of_cell, xs, &mut buffers.attended);
                let state = row * n..(row + 1) * n;
                let (c, h) = (&mut cells[state.clone()], &mut hidden[state]);
                self.step(&mut buffers, (before_h.as_deref(), &before_c), (h, c));
                before_c.copy_from_slice(c);
                before_h = Some(h.to_vec());
            }
        }
    }

    /// The mean of the inputs of a sequence, weighted by the softmax of their scores.
    fn attend(&self, own: &[T], of_cell: T, xs: &[T], attended: &mut [T]) {
        let relu = |v: T| if v > T::ZERO { v } else { T::ZERO };
        let mut scores: Vec<T> = own.iter().map(|&s| relu(s + of_cell)).collect();
        if let Some(scale) = self.scale {
            scores.iter_mut().for_each(|s| *s = relu(*s * scale + self.scale_bias.unwrap_or(T::ZERO)));
        }
        let top = scores.iter().fold(T::lowest(), |m, &s| if s > m { s } else { m });
        scores.iter_mut().for_each(|s| *s = (*s - top).exp());
        let total: T = scores.iter().copied().sum();
        attended.fill(T::ZERO);
        for (&s, x) in scores.iter().zip(xs.chunks_exact(self.inputs.max(1))) {
            attended.iter_mut().zip(x).for_each(|(a, &x)| *a += s / total * x);
        }
    }

    /// The next hidden state and cell from the attended input.
    fn step(&self, buffers: &mut Buffers<T>, (before_h, before_c): (Option<&[T]>, &[T]), (h, c): (&mut [T], &mut [T])) {
        let (n, sums) = (c.len(), &mut buffers.sums);
        let (from_h, from_x) = self.weight.split_at(n * 4 * n);
        matmul((1, 4 * n, self.inputs), &buffers.attended, false, from_x, false, sums);
        if let Some(before) = before_h {
            matmul((1, 4 * n, n), before, false, from_h, false, &mut buffers.from_hidden);
            sums.iter_mut().zip(&buffers.from_hidden).for_each(|(s, &v)| *s += v);
        }
        sums.iter_mut().zip(self.gate_bias).for_each(|(s, &b)| *s += b);
        let (gates, new) = sums.split_at_mut(3 * n);
        self.gate.apply(gates);
        self.candidate.apply(new);
        for k in 0..n {
            c[k] = gates[k] * before_c[k] + gates[n + k] * new[k];
        }
        h.copy_from_slice(c);
        self.cell.apply(h);
        h.iter_mut().zip(&gates[2 * n..]).for_each(|(h, &o)| *h = *h * o);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_equal_a_plain_loop() {
        let (inputs, n, level) = (3, 2, [0, 2, 2, 3]);
        let ramp = |len: usize, k: usize| (0..len).map(|i| (i * k % 11) as f64 / 5.0 - 1.0).collect::<Vec<_>>();
        let (x, c0, h0) = (ramp(9, 7), ramp(6, 5), ramp(6, 3));
        let (attention, weight, gate_bias) = (ramp(5, 4), ramp(5 * 8, 9), ramp(8, 6));
        let net = AttentionLstm {
            inputs,
            attention: &attention,
            bias: Some(0.25),
            scale: Some(1.5),
            scale_bias: Some(0.1),
            weight: &weight,
            gate_bias: &gate_bias,
            gate: Activation::Sigmoid,
            cell: Activation::Tanh,
            candidate: Activation::Tanh,
        };
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        for first in [None, Some(&h0[..])] {
            let (mut hidden, mut cells) = (vec![0.0; 6], vec![0.0; 6]);
            net.forward(&level, &x, (first, &c0), n, (&mut hidden, &mut cells));
            for (i, w) in level.windows(2).enumerate() {
                let (mut c, mut h) =
                    (c0[i * 2..i * 2 + 2].to_vec(), first.map_or(vec![0.0; 2], |h| h[i * 2..i * 2 + 2].to_vec()));
                for row in w[0]..w[1] {
                    let of_cell = c[0] * attention[3] + c[1] * attention[4];
                    let scores: Vec<f64> = (w[0]..w[1])
                        .map(|r| (0..3).map(|k| x[r * 3 + k] * attention[k]).sum::<f64>() + 0.25 + of_cell)
                        .map(|s| (s.max(0.0) * 1.5 + 0.1).max(0.0).exp())
                        .collect();
                    let total: f64 = scores.iter().sum();
                    let looked: Vec<f64> =
                        (0..3).map(|k| (w[0]..w[1]).map(|r| scores[r - w[0]] / total * x[r * 3 + k]).sum()).collect();
                    let sum = |j: usize| {
                        let from_h: f64 = (0..2).map(|k| h[k] * weight[k * 8 + j]).sum();
                        from_h + (0..3).map(|k| looked[k] * weight[(2 + k) * 8 + j]).sum::<f64>() + gate_bias[j]
                    };
                    let sums: Vec<f64> = (0..8).map(sum).collect();
                    for k in 0..2 {
                        c[k] = sigmoid(sums[k]) * c[k] + sigmoid(sums[2 + k]) * sums[6 + k].tanh();
                        h[k] = sigmoid(sums[4 + k]) * c[k].tanh();
                        assert!(
                            (cells[row * 2 + k] - c[k]).abs() < 1e-12 && (hidden[row * 2 + k] - h[k]).abs() < 1e-12
                        );
                    }
                }
            }
        }
    }
}
