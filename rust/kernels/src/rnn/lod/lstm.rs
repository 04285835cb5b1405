//! The LSTM over sequences of different lengths, with optional peepholes and projection of the hidden state. Gates are
//! in the order candidate, input, forget, output; rows are those of steps (`Batches`).

use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::activation::Activation;
use crate::rnn::lod::batches::Batches;
use crate::rnn::recurrent::grad::sum_rows;
use crate::rnn::recurrent::part;

pub struct Net<'a, T> {
    pub batches: &'a Batches,
    /// Elements of the cell.
    pub width: usize,
    /// [state, 4 * width]
    pub weight: &'a [T],
    /// Peephole weights of the input, forget and output gates, consecutively.
    pub peepholes: Option<&'a [T]>,
    pub projection: Option<Projection<'a, T>>,
    pub gate: Activation,
    pub cell: Activation,
    pub candidate: Activation,
    /// Bound of the absolute value of the cell, if above 0.
    pub cell_clip: T,
    /// The initial state and cell of each sequence, in the order of steps.
    pub first: (Option<&'a [T]>, Option<&'a [T]>),
}

pub struct Projection<'a, T> {
    /// [width, state]
    pub weight: &'a [T],
    pub state: usize,
    pub act: Activation,
    pub clip: T,
}

/// Results of the forward pass, one row per step of a sequence.
pub struct ForwardResults<'a, T> {
    /// In: sums of the inputs; out: activations.
    pub gates: &'a mut [T],
    pub cells: &'a mut [T],
    /// The activations of the cells.
    pub acts: &'a mut [T],
    pub hidden: &'a mut [T],
    /// The projections; empty if there is none.
    pub states: &'a mut [T],
}

/// Saved results of the forward pass.
pub struct Saved<'a, T> {
    pub gates: &'a [T],
    pub cells: &'a [T],
    pub acts: &'a [T],
    pub hidden: &'a [T],
    pub states: &'a [T],
}

pub struct Grads<'a, T> {
    pub weight: Option<&'a mut [T]>,
    pub projection: Option<&'a mut [T]>,
    /// Gradients of the sums, 4 * width, then of the peepholes, if any.
    pub bias: Option<&'a mut [T]>,
    pub first_state: Option<&'a mut [T]>,
    pub first_cell: Option<&'a mut [T]>,
}

/// Rows per chunk.
fn grain(width: usize) -> usize {
    2048usize.div_ceil(width.max(1))
}

fn clip<T: GemmFloat>(x: &mut [T], to: T) {
    let low = T::ZERO - to;
    x.iter_mut().for_each(|x| {
        *x = if *x < low {
            low
        } else if *x > to {
            to
        } else {
            *x
        }
    });
}

fn is_clipped<T: GemmFloat>(x: T, by: T) -> bool {
    by > T::ZERO && (x >= by || x <= T::ZERO - by)
}

impl<T: GemmFloat> Net<'_, T> {
    /// Elements of the recurrent state.
    pub fn state(&self) -> usize {
        self.projection.as_ref().map_or(self.width, |p| p.state)
    }

    fn peephole(&self, i: usize) -> Option<&[T]> {
        self.peepholes.map(|p| &p[part(i, self.width)])
    }

    fn row(&self, g: &mut [T], before: Option<&[T]>, cell: &mut [T], act: &mut [T], hidden: &mut [T]) {
        let n = self.width;
        let (candidate, rest) = g.split_at_mut(n);
        let (input, rest) = rest.split_at_mut(n);
        let (forget, output) = rest.split_at_mut(n);
        self.candidate.apply(candidate);
        if let Some(before) = before {
            for (i, gate) in [(0, &mut *input), (1, &mut *forget)] {
                if let Some(w) = self.peephole(i) {
                    gate.iter_mut().zip(before.iter().zip(w)).for_each(|(g, (&c, &w))| *g += c * w);
                }
            }
        }
        self.gate.apply(input);
        self.gate.apply(forget);
        for k in 0..n {
            cell[k] = candidate[k] * input[k];
        }
        if let Some(before) = before {
            cell.iter_mut().zip(before.iter().zip(&*forget)).for_each(|(c, (&b, &f))| *c += b * f);
        }
        if self.cell_clip > T::ZERO {
            clip(cell, self.cell_clip);
        }
        if let Some(w) = self.peephole(2) {
            output.iter_mut().zip(cell.iter().zip(w)).for_each(|(g, (&c, &w))| *g += c * w);
        }
        self.gate.apply(output);
        act.copy_from_slice(cell);
        self.cell.apply(act);
        hidden.iter_mut().zip(output.iter().zip(&*act)).for_each(|(h, (&o, &a))| *h = o * a);
    }

    pub fn forward(&self, results: ForwardResults<T>) {
        let (n, state, one, zero) = (self.width, self.state(), T::ONE, T::ZERO);
        let w = View::rows(self.weight, 4 * n, false);
        for s in 0..self.batches.steps() {
            let (at, rows, before) = self.batches.step(s);
            let all = at..at + rows;
            let states = if self.projection.is_some() { &*results.states } else { &*results.hidden };
            let from = match before {
                Some(b) => Some(&states[b * state..(b + rows) * state]),
                None => self.first.0.map(|h| &h[..rows * state]),
            };
            let gates = &mut results.gates[all.start * 4 * n..all.end * 4 * n];
            if let Some(from) = from {
                gemm((rows, 4 * n, state), one, View::rows(from, state, false), w, one, gates, 4 * n, Epilogue::NONE);
            }
            let (earlier, cells) = results.cells.split_at_mut(at * n);
            let cell_before = |i: usize| match before {
                Some(b) => Some(&earlier[part(b + i, n)]),
                None => self.first.1.map(|c| &c[part(i, n)]),
            };
            let (gates, cells) = (Shared::new(gates), Shared::new(cells));
            let (acts, hidden) = (Shared::new(&mut *results.acts), Shared::new(&mut *results.hidden));
            pool::ranges(rows, grain(n), |r| {
                for i in r {
                    // SAFETY: parts of different rows are disjoint.
                    let (g, c, a, h) = unsafe {
                        (
                            gates.part(part(i, 4 * n)),
                            cells.part(part(i, n)),
                            acts.part(part(at + i, n)),
                            hidden.part(part(at + i, n)),
                        )
                    };
                    self.row(g, cell_before(i), c, a, h);
                }
            });
            if let Some(p) = &self.projection {
                let to = &mut results.states[all.start * state..all.end * state];
                let h = View::rows(&results.hidden[all.start * n..all.end * n], n, false);
                gemm((rows, state, n), one, h, View::rows(p.weight, state, false), zero, to, state, Epilogue::NONE);
                p.act.apply(to);
                if p.clip > zero {
                    clip(to, p.clip);
                }
            }
        }
    }

    /// `dh` is the gradient of the hidden row; `dc` is that of the cell, and becomes that of the previous cell.
    fn row_grad(&self, saved: [&[T]; 4], dh: &[T], dc: &mut [T], d: &mut [T]) {
        let (n, one) = (self.width, T::ONE);
        let [gates, before, cell, act] = saved;
        let [candidate, input, forget, output] = [0, 1, 2, 3].map(|i| &gates[part(i, n)]);
        let (d_candidate, rest) = d.split_at_mut(n);
        let (d_input, rest) = rest.split_at_mut(n);
        let (d_forget, d_output) = rest.split_at_mut(n);
        for k in 0..n {
            d_output[k] = dh[k] * act[k];
            d_input[k] = dh[k] * output[k]; // the gradient through the cell's activation
        }
        self.gate.grad(output, d_output);
        self.cell.grad(act, d_input);
        for k in 0..n {
            dc[k] += d_input[k];
        }
        if let Some(w) = self.peephole(2) {
            dc.iter_mut().zip(d_output.iter().zip(w)).for_each(|(c, (&d, &w))| *c += d * w);
        }
        for k in 0..n {
            let own = if is_clipped(cell[k], self.cell_clip) { T::ZERO } else { dc[k] * one };
            d_candidate[k] = own * input[k];
            d_input[k] = own * candidate[k];
            d_forget[k] = own * before[k];
            dc[k] = own * forget[k];
        }
        self.candidate.grad(candidate, d_candidate);
        self.gate.grad(input, d_input);
        self.gate.grad(forget, d_forget);
        for (i, gate) in [(0, &*d_input), (1, &*d_forget)] {
            if let Some(w) = self.peephole(i) {
                dc.iter_mut().zip(gate.iter().zip(w)).for_each(|(c, (&d, &w))| *c += d * w);
            }
        }
    }

    /// `dstates` is the gradient of the recurrent states (hidden states or projections), `dcells` that of the cells;
    /// both are overwritten. `d` becomes the gradients of the sums.
    pub fn backward(&self, saved: &Saved<T>, dstates: &mut [T], dcells: &mut [T], d: &mut [T], grads: Grads<T>) {
        let (n, state, one, zero) = (self.width, self.state(), T::ONE, T::ZERO);
        let total = self.batches.rows.len();
        let mut cells_before = vec![zero; total * n];
        self.batches.befores(saved.cells, self.first.1, n, zero, &mut cells_before);
        let mut dfirst = vec![zero; self.batches.order.len() * n];
        let mut dhidden = vec![zero; if self.projection.is_some() { self.batches.order.len() * n } else { 0 }];
        let back = View::rows(self.weight, 4 * n, true);
        let mut first_state = grads.first_state;
        for s in (0..self.batches.steps()).rev() {
            let (at, rows, before) = self.batches.step(s);
            let own = at * state..(at + rows) * state;
            let dh: &[T] = match &self.projection {
                None => &dstates[own.clone()],
                Some(p) => {
                    let (d, y) = (&mut dstates[own.clone()], &saved.states[own.clone()]);
                    d.iter_mut().zip(y).filter(|(_, &y)| is_clipped(y, p.clip)).for_each(|(d, _)| *d = zero);
                    p.act.grad(y, d);
                    let (d, to) = (View::rows(&*d, state, false), &mut dhidden[..rows * n]);
                    gemm((rows, n, state), one, d, View::rows(p.weight, state, true), zero, to, n, Epilogue::NONE);
                    to
                }
            };
            let step = &mut d[at * 4 * n..(at + rows) * 4 * n];
            let to = Shared::new(&mut *step);
            let dc = Shared::new(&mut dcells[at * n..(at + rows) * n]);
            pool::ranges(rows, grain(n), |r| {
                for i in r {
                    let row = part(at + i, n);
                    let saved = [
                        &saved.gates[part(at + i, 4 * n)],
                        &cells_before[row.clone()],
                        &saved.cells[row.clone()],
                        &saved.acts[row],
                    ];
                    // SAFETY: parts of different rows are disjoint.
                    let (dc, to) = unsafe { (dc.part(part(i, n)), to.part(part(i, 4 * n))) };
                    self.row_grad(saved, &dh[part(i, n)], dc, to);
                }
            });
            let step = View::rows(&*step, 4 * n, false);
            let extents = (rows, state, 4 * n);
            match before {
                Some(b) => {
                    let to = &mut dstates[b * state..(b + rows) * state];
                    gemm(extents, one, step, back, one, to, state, Epilogue::NONE);
                    let (earlier, now) = dcells.split_at_mut(at * n);
                    let to = earlier[b * n..(b + rows) * n].iter_mut();
                    to.zip(&now[..rows * n]).for_each(|(a, &b)| *a += b);
                }
                None => {
                    if let Some(to) = first_state.take() {
                        gemm(extents, one, step, back, zero, to, state, Epilogue::NONE);
                    }
                    dfirst[..rows * n].copy_from_slice(&dcells[..rows * n]);
                }
            }
        }
        if let Some(to) = grads.first_cell {
            let n = to.len().min(dfirst.len());
            to[..n].copy_from_slice(&dfirst[..n]);
        }
        let dx = View::rows(&*d, 4 * n, false);
        if let Some(to) = grads.weight {
            let states = if self.projection.is_some() { saved.states } else { saved.hidden };
            let mut befores = vec![zero; total * state];
            self.batches.befores(states, self.first.0, state, zero, &mut befores);
            let extents = (state, 4 * n, total);
            gemm(extents, one, View::rows(&befores, state, true), dx, zero, to, 4 * n, Epilogue::NONE);
        }
        if let Some(to) = grads.projection {
            let (h, d) = (View::rows(saved.hidden, n, true), View::rows(&*dstates, state, false));
            gemm((n, state, total), one, h, d, zero, to, state, Epilogue::NONE);
        }
        if let Some(to) = grads.bias {
            let (sums, holes) = to.split_at_mut(4 * n);
            sum_rows(d, 4 * n, sums);
            holes.fill(zero);
            if holes.len() < 3 * n {
                return;
            }
            for row in 0..total {
                let d = &d[part(row, 4 * n)];
                let pairs = [(1, &cells_before), (2, &cells_before)].map(|(g, c)| (g, &c[part(row, n)]));
                for (i, (g, c)) in [pairs[0], pairs[1], (3, &saved.cells[part(row, n)])].into_iter().enumerate() {
                    let hole = holes[part(i, n)].iter_mut();
                    hole.zip(d[part(g, n)].iter().zip(c)).for_each(|(h, (&d, &c))| *h += d * c);
                }
            }
        }
    }
}
