//! The gradient of one direction of one layer: steps from last to first, then one product each for the input and the
//! two weights.

use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::gates;
use crate::rnn::recurrent::{part, Pass, RecurrentCell, Weights};

/// Inputs and saved results of the forward pass.
pub struct Saved<'a, T> {
    pub x: &'a [T],
    pub gates: &'a [T],
    pub extra: &'a [T],
    pub out: &'a [T],
    pub h: &'a [T],
    /// The initial cell of an LSTM.
    pub c: &'a [T],
}

/// The requested gradients.
pub struct Grads<'a, T> {
    /// The flag says whether the gradient is added to the content.
    pub x: Option<(&'a mut [T], bool)>,
    pub ih: Option<&'a mut [T]>,
    pub hh: Option<&'a mut [T]>,
    pub bias_ih: Option<&'a mut [T]>,
    pub bias_hh: Option<&'a mut [T]>,
}

/// Columns of one chunk of a sum over rows.
const COLUMNS: usize = 256;

/// `to` = the sum of the rows of `x`.
pub(crate) fn sum_rows<T: GemmFloat>(x: &[T], width: usize, to: &mut [T]) {
    pool::parts(to, COLUMNS, |at, to| {
        to.fill(T::ZERO);
        for row in x.chunks_exact(width) {
            to.iter_mut().zip(&row[at..]).for_each(|(o, &v)| *o += v);
        }
    });
}

impl Pass<'_> {
    /// Elements of scratch that [`backward`] needs.
    pub fn scratch_back(&self) -> usize {
        self.rows() * (self.width() * if self.cell == RecurrentCell::Gru { 2 } else { 1 } + self.hidden)
    }
}

/// `dh` and `dc` hold the gradients of the final states, and become those of the initial states.
pub fn backward<T: GemmFloat>(
    p: &Pass,
    w: &Weights<T>,
    saved: &Saved<T>,
    dout: &[T],
    (dh, dc): (&mut [T], &mut [T]),
    grads: Grads<T>,
    scratch: &mut [T],
) {
    let (batch, n, width) = (p.batch, p.hidden, p.width());
    assert!(saved.gates.len() == p.rows() * width && dh.len() == batch * n && scratch.len() >= p.scratch_back());
    assert!(
        saved.extra.len() == p.rows() * n * p.cell.extra() && (p.cell != RecurrentCell::Lstm || dc.len() == dh.len())
    );
    let (d, rest) = scratch.split_at_mut(p.rows() * width);
    // The GRU's input and state sums have different gradients.
    let (inner, rest) = rest.split_at_mut(if p.cell == RecurrentCell::Gru { d.len() } else { 0 });
    let befores = &mut rest[..p.rows() * n];
    states_before(p, saved, befores);
    let (one, zero) = (T::ONE, T::ZERO);
    for s in (0..p.steps).rev() {
        let t = p.step(s);
        let rows = t * batch;
        let (dh_all, dc_all) = (Shared::new(dh), Shared::new(dc));
        let (d_all, inner_all) = (Shared::new(d), Shared::new(inner));
        p.each_row(|b| {
            let row = rows + b;
            // SAFETY: parts of different rows are disjoint.
            let (dh, d) = unsafe { (dh_all.part(part(b, n)), d_all.part(part(row, width))) };
            let (gates, dout) = (&saved.gates[part(row, width)], &dout[p.place(t, b)]);
            // SAFETY: as above.
            let inner = (p.cell == RecurrentCell::Gru).then(|| unsafe { inner_all.part(part(row, width)) });
            if !p.is_on(t, b) {
                d.fill(zero);
                inner.into_iter().for_each(|i| i.fill(zero));
                return;
            }
            match (p.cell, inner) {
                (RecurrentCell::Tanh, _) => gates::tanh_step_grad(gates, dout, dh, d),
                (RecurrentCell::Relu, _) => gates::relu_step_grad(gates, dout, dh, d),
                (RecurrentCell::Lstm, _) => {
                    let before = match p.before(t).filter(|&t| p.is_on(t, b)) {
                        Some(t) => &saved.extra[part(t * batch + b, n)],
                        None => &saved.c[part(b, n)],
                    };
                    // SAFETY: as above.
                    let dc = unsafe { dc_all.part(part(b, n)) };
                    gates::lstm_step_grad(gates, before, &saved.extra[part(row, n)], dout, dh, dc, d);
                }
                (RecurrentCell::Gru, Some(inner)) => {
                    gates::gru_step_grad(gates, &saved.extra[part(row, n)], &befores[part(row, n)], dout, dh, d, inner)
                }
                (RecurrentCell::Gru, None) => unreachable!("a GRU has both"),
            }
        });
        let step = if p.cell == RecurrentCell::Gru { &inner[..] } else { &d[..] };
        let step = View::rows(&step[rows * width..(rows + batch) * width], width, false);
        gemm((batch, n, width), one, step, View::rows(w.hh, n, false), one, dh, n, Epilogue::NONE);
    }
    let own = if p.cell == RecurrentCell::Gru { &inner[..] } else { &d[..] };
    let (d, all) = (&d[..], p.rows());
    if let Some((dx, add)) = grads.x {
        let beta = if add { one } else { zero };
        let (d, ih) = (View::rows(d, width, false), View::rows(w.ih, p.input, false));
        gemm((all, p.input, width), one, d, ih, beta, dx, p.input, Epilogue::NONE);
    }
    let by = |d: &[T], x: &[T], cols: usize, to: &mut [T]| {
        let (d, x) = (View::rows(d, width, true), View::rows(x, cols, false));
        gemm((width, cols, all), one, d, x, zero, to, cols, Epilogue::NONE);
    };
    if let Some(to) = grads.ih {
        by(d, saved.x, p.input, to);
    }
    if let Some(to) = grads.hh {
        by(own, befores, n, to);
    }
    match (grads.bias_ih, grads.bias_hh) {
        (Some(a), Some(b)) => {
            sum_rows(d, width, a);
            match p.cell {
                RecurrentCell::Gru => sum_rows(own, width, b),
                _ => b.copy_from_slice(a),
            }
        }
        (Some(a), None) => sum_rows(d, width, a),
        (None, Some(b)) => sum_rows(own, width, b),
        (None, None) => {}
    }
}

/// The state before each step, for each row. Rows of ended sequences have arbitrary finite values: their gradients are
/// zero.
fn states_before<T: GemmFloat>(p: &Pass, saved: &Saved<T>, to: &mut [T]) {
    let n = p.hidden;
    pool::parts(to, p.batch.max(1) * n.max(1), |at, to| {
        let t = at / (p.batch * n);
        for (b, to) in to.chunks_exact_mut(n).enumerate() {
            to.copy_from_slice(match p.before(t).filter(|&t| p.is_on(t, b)) {
                Some(before) => &saved.out[p.place(before, b)],
                None => &saved.h[part(b, n)],
            });
        }
    });
}
