//! One step of an LSTM from the sums of its gates. Gate order: input, forget, output, candidate.

use crate::rnn::activation::Activation;
use crate::types::Float;

/// The activated gates of a row.
fn activated<T: Float>(x: &[T], forget_bias: T, n: usize, to: &mut Vec<T>) {
    to.clear();
    to.extend_from_slice(x);
    to[n..2 * n].iter_mut().for_each(|f| *f += forget_bias);
    Activation::Sigmoid.apply(&mut to[..3 * n]);
    Activation::Tanh.apply(&mut to[3 * n..]);
}

/// Cells and hidden states, rows of `n` elements, from sums [rows, 4 * n] and the cells before.
pub fn forward<T: Float>((x, before): (&[T], &[T]), forget_bias: T, n: usize, (c, h): (&mut [T], &mut [T])) {
    let mut gates = Vec::new();
    for (i, x) in x.chunks_exact(4 * n).enumerate() {
        activated(x, forget_bias, n, &mut gates);
        let (c, h, before) = (&mut c[i * n..][..n], &mut h[i * n..][..n], &before[i * n..][..n]);
        for k in 0..n {
            c[k] = gates[n + k] * before[k] + gates[k] * gates[3 * n + k];
        }
        h.copy_from_slice(c);
        Activation::Tanh.apply(h);
        h.iter_mut().zip(&gates[2 * n..]).for_each(|(h, &o)| *h = *h * o);
    }
}

/// The gradients of the sums and of the cells before, from the cells and the gradients of hidden states and cells.
pub fn backward<T: Float>(
    (x, before, c): (&[T], &[T], &[T]),
    forget_bias: T,
    n: usize,
    (dh, dc): (&[T], &[T]),
    (dx, dbefore): (&mut [T], &mut [T]),
) {
    let (mut gates, mut tanh) = (Vec::new(), vec![T::ZERO; n]);
    for (row, x) in x.chunks_exact(4 * n).enumerate() {
        let own = row * n..(row + 1) * n;
        activated(x, forget_bias, n, &mut gates);
        let (before, dh, dc) = (&before[own.clone()], &dh[own.clone()], &dc[own.clone()]);
        tanh.copy_from_slice(&c[own.clone()]);
        Activation::Tanh.apply(&mut tanh);
        let (to, dbefore) = (&mut dx[row * 4 * n..][..4 * n], &mut dbefore[own]);
        for k in 0..n {
            let [i, f, o, g] = [0, 1, 2, 3].map(|gate| gates[gate * n + k]);
            let d = dc[k] + dh[k] * o * (T::ONE - tanh[k] * tanh[k]);
            dbefore[k] = d * f;
            to[k] = d * g * i * (T::ONE - i);
            to[n + k] = d * before[k] * f * (T::ONE - f);
            to[2 * n + k] = dh[k] * tanh[k] * o * (T::ONE - o);
            to[3 * n + k] = d * i * (T::ONE - g * g);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(x: &[f64], before: &[f64], bias: f64, n: usize) -> (Vec<f64>, Vec<f64>) {
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let (mut c, mut h) = (Vec::new(), Vec::new());
        for (row, before) in before.chunks(n).enumerate() {
            for k in 0..n {
                let gate = |g: usize| x[(row * 4 + g) * n + k];
                let cell = sigmoid(gate(1) + bias) * before[k] + sigmoid(gate(0)) * gate(3).tanh();
                c.push(cell);
                h.push(sigmoid(gate(2)) * cell.tanh());
            }
        }
        (c, h)
    }

    #[test]
    fn steps_equal_a_plain_loop_and_gradients_differences() {
        let (n, bias) = (3, 0.5);
        let x: Vec<f64> = (0..24).map(|i| (i * 7 % 13) as f64 / 4.0 - 1.5).collect();
        let before: Vec<f64> = (0..6).map(|i| i as f64 / 3.0 - 1.0).collect();
        let (mut c, mut h) = (vec![0.0; 6], vec![0.0; 6]);
        forward((&x, &before), bias, n, (&mut c, &mut h));
        let (want_c, want_h) = plain(&x, &before, bias, n);
        let near = |a: &[f64], b: &[f64], by: f64| a.iter().zip(b).all(|(a, b)| (a - b).abs() < by);
        assert!(near(&c, &want_c, 1e-12) && near(&h, &want_h, 1e-12));
        let (dh, dc): (Vec<f64>, Vec<f64>) = (0..6).map(|i| (i as f64 - 2.0, 1.0 - i as f64 / 2.0)).unzip();
        let (mut dx, mut dbefore) = (vec![0.0; 24], vec![0.0; 6]);
        backward((&x, &before, &c), bias, n, (&dh, &dc), (&mut dx, &mut dbefore));
        let total = |x: &[f64], before: &[f64]| -> f64 {
            let (c, h) = plain(x, before, bias, n);
            (0..6).map(|i| c[i] * dc[i] + h[i] * dh[i]).sum()
        };
        let moved = |v: &[f64], i: usize, by: f64| {
            let mut v = v.to_vec();
            v[i] += by;
            v
        };
        let e = 1e-6;
        let slopes =
            (0..24).map(|i| (total(&moved(&x, i, e), &before) - total(&moved(&x, i, -e), &before)) / (2.0 * e));
        assert!(near(&dx, &slopes.collect::<Vec<_>>(), 1e-7));
        let slopes = (0..6).map(|i| (total(&x, &moved(&before, i, e)) - total(&x, &moved(&before, i, -e))) / (2.0 * e));
        assert!(near(&dbefore, &slopes.collect::<Vec<_>>(), 1e-7));
    }
}
