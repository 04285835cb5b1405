//! The GRU over sequences of different lengths. Gates are in the order update, reset, candidate; rows are those of steps
//! (`Batches`). The reset gate multiplies the state before the product.

use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::activation::Activation;
use crate::rnn::lod::batches::Batches;
use crate::rnn::recurrent::grad::sum_rows;
use crate::rnn::recurrent::part;

pub struct Net<'a, T> {
    pub batches: &'a Batches,
    pub width: usize,
    /// [width, 2 * width] of the update and reset gates, then [width, width] of the candidate.
    pub weight: &'a [T],
    pub gate: Activation,
    pub candidate: Activation,
    /// h = u * before + (1 - u) * c (the original paper) instead of h = (1 - u) * before + u * c.
    pub origin: bool,
    /// The initial state of each sequence, in the order of steps.
    pub first: Option<&'a [T]>,
}

pub struct Grads<'a, T> {
    pub weight: Option<&'a mut [T]>,
    pub bias: Option<&'a mut [T]>,
    pub first: Option<&'a mut [T]>,
}

fn grain(width: usize) -> usize {
    2048usize.div_ceil(width.max(1))
}

impl<T: GemmFloat> Net<'_, T> {
    /// `gates` holds the sums of the inputs and becomes activations; `reset` becomes the states multiplied by the reset
    /// gate.
    pub fn forward(&self, gates: &mut [T], reset: &mut [T], hidden: &mut [T]) {
        let (n, one) = (self.width, T::ONE);
        let (both, own) = self.weight.split_at(2 * n * n);
        let zeros = vec![T::ZERO; if self.first.is_none() { self.batches.order.len() * n } else { 0 }];
        for s in 0..self.batches.steps() {
            let (at, rows, before) = self.batches.step(s);
            let (earlier, now) = hidden.split_at_mut(at * n);
            let from = match (before, self.first) {
                (Some(b), _) => &earlier[b * n..(b + rows) * n],
                (None, first) => &first.unwrap_or(&zeros)[..rows * n],
            };
            let step = &mut gates[at * 3 * n..(at + rows) * 3 * n];
            let reset = &mut reset[at * n..(at + rows) * n];
            if before.is_some() || self.first.is_some() {
                let (h, w) = (View::rows(from, n, false), View::rows(both, 2 * n, false));
                gemm((rows, 2 * n, n), one, h, w, one, step, 3 * n, Epilogue::NONE);
            }
            let (g, r) = (Shared::new(&mut *step), Shared::new(&mut *reset));
            pool::ranges(rows, grain(n), |range| {
                for i in range {
                    // SAFETY: parts of different rows are disjoint.
                    let (g, to) = unsafe { (g.part(i * 3 * n..i * 3 * n + 2 * n), r.part(part(i, n))) };
                    self.gate.apply(g);
                    let from = from[part(i, n)].iter();
                    to.iter_mut().zip(g[n..].iter().zip(from)).for_each(|(o, (&r, &h))| *o = r * h);
                }
            });
            if before.is_some() || self.first.is_some() {
                let (h, w) = (View::rows(&*reset, n, false), View::rows(own, n, false));
                gemm((rows, n, n), one, h, w, one, &mut step[2 * n..], 3 * n, Epilogue::NONE);
            }
            let (g, h) = (Shared::new(step), Shared::new(now));
            pool::ranges(rows, grain(n), |range| {
                for i in range {
                    // SAFETY: as above.
                    let (g, to) = unsafe { (g.part(part(i, 3 * n)), h.part(part(i, n))) };
                    let (u, c) = g.split_at_mut(2 * n);
                    self.candidate.apply(c);
                    let from = &from[part(i, n)];
                    for k in 0..n {
                        let (a, b) = if self.origin { (c[k], from[k]) } else { (from[k], c[k]) };
                        to[k] = (one - u[k]) * a + u[k] * b;
                    }
                }
            });
        }
    }

    /// `dhidden` is the gradient of the states, and is overwritten. `d` becomes the gradients of the sums.
    pub fn backward(
        &self,
        gates: &[T],
        reset: &[T],
        hidden: &[T],
        dhidden: &mut [T],
        d: &mut [T],
        mut grads: Grads<T>,
    ) {
        let (n, one, zero) = (self.width, T::ONE, T::ZERO);
        let (both, own) = self.weight.split_at(2 * n * n);
        let total = self.batches.rows.len();
        let mut befores = vec![zero; total * n];
        self.batches.befores(hidden, self.first, n, zero, &mut befores);
        let most = self.batches.order.len() * n;
        let (mut dreset, mut carry) = (vec![zero; most], vec![zero; most]);
        for s in (0..self.batches.steps()).rev() {
            let (at, rows, before) = self.batches.step(s);
            let step = &mut d[at * 3 * n..(at + rows) * 3 * n];
            let (to, out) = (Shared::new(&mut *step), Shared::new(&mut carry));
            pool::ranges(rows, grain(n), |range| {
                for i in range {
                    let row = at + i;
                    let (g, dh, from) = (&gates[part(row, 3 * n)], &dhidden[part(row, n)], &befores[part(row, n)]);
                    // SAFETY: parts of different rows are disjoint.
                    let (d, out) = unsafe { (to.part(part(i, 3 * n)), out.part(part(i, n))) };
                    for k in 0..n {
                        let (u, c) = (g[k], g[2 * n + k]);
                        let change = dh[k] * (c - from[k]);
                        let (du, dc, left) = match self.origin {
                            true => (zero - change, one - u, u),
                            false => (change, u, one - u),
                        };
                        (d[k], d[2 * n + k], out[k]) = (du, dh[k] * dc, dh[k] * left);
                    }
                    self.candidate.grad(&g[2 * n..], &mut d[2 * n..]);
                }
            });
            let c = View::rows(&step[2 * n..], 3 * n, false);
            gemm((rows, n, n), one, c, View::rows(own, n, true), zero, &mut dreset, n, Epilogue::NONE);
            let (to, out) = (Shared::new(&mut *step), Shared::new(&mut carry));
            pool::ranges(rows, grain(n), |range| {
                for i in range {
                    let row = at + i;
                    let (g, from, dr) = (&gates[part(row, 3 * n)], &befores[part(row, n)], &dreset[part(i, n)]);
                    // SAFETY: as above.
                    let (d, out) = unsafe { (to.part(i * 3 * n..i * 3 * n + 2 * n), out.part(part(i, n))) };
                    for k in 0..n {
                        d[n + k] = dr[k] * from[k];
                        out[k] += dr[k] * g[n + k];
                    }
                    self.gate.grad(&g[..2 * n], d);
                }
            });
            let (gates, w) = (View::rows(&*step, 3 * n, false), View::rows(both, 2 * n, true));
            gemm((rows, n, 2 * n), one, gates, w, one, &mut carry, n, Epilogue::NONE);
            match before {
                Some(b) => {
                    let to = dhidden[b * n..(b + rows) * n].iter_mut();
                    to.zip(&carry).for_each(|(a, &b)| *a += b);
                }
                None => {
                    if let Some(to) = grads.first.take() {
                        to[..rows * n].copy_from_slice(&carry[..rows * n]);
                    }
                }
            }
        }
        if let Some(to) = grads.weight {
            let (to_both, to_own) = to.split_at_mut(2 * n * n);
            let (h, g) = (View::rows(&befores, n, true), View::rows(&*d, 3 * n, false));
            gemm((n, 2 * n, total), one, h, g, zero, to_both, 2 * n, Epilogue::NONE);
            let (h, c) = (View::rows(reset, n, true), View::rows(d.get(2 * n..).unwrap_or(&[]), 3 * n, false));
            gemm((n, n, total), one, h, c, zero, to_own, n, Epilogue::NONE);
        }
        if let Some(to) = grads.bias {
            sum_rows(d, 3 * n, to);
        }
    }
}
