//! The gradient of one direction of one layer: the steps from the last to the first, then one product for each of the
//! input, and the two weights.

use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::gates;
use crate::rnn::recurrent::{part, Cell, Pass, Weights};

/// What the forward pass had and left.
pub struct Came<'a, T> {
    pub x: &'a [T],
    pub gates: &'a [T],
    pub extra: &'a [T],
    pub out: &'a [T],
    pub h: &'a [T],
    /// The first cell of an LSTM.
    pub c: &'a [T],
}

/// Gradients that are wanted.
pub struct Grads<'a, T> {
    /// With whether it holds a sum already that this one is added to.
    pub x: Option<(&'a mut [T], bool)>,
    pub ih: Option<&'a mut [T]>,
    pub hh: Option<&'a mut [T]>,
    pub bias_ih: Option<&'a mut [T]>,
    pub bias_hh: Option<&'a mut [T]>,
}

/// Columns of one part of a sum over rows.
const COLUMNS: usize = 256;

/// The sum of the rows.
pub(crate) fn sum_rows<T: GemmFloat>(x: &[T], width: usize, to: &mut [T]) {
    pool::parts(to, COLUMNS, |at, to| {
        to.fill(T::ZERO);
        for row in x.chunks_exact(width) {
            to.iter_mut().zip(&row[at..]).for_each(|(o, &v)| *o += v);
        }
    });
}

impl Pass<'_> {
    /// Scratch that [`backward`] asks for.
    pub fn scratch_back(&self) -> usize {
        self.rows() * (self.width() * if self.cell == Cell::Gru { 2 } else { 1 } + self.hidden)
    }
}

/// `dh` and `dc` hold the gradients of the last states and get those of the first ones.
pub fn backward<T: GemmFloat>(
    p: &Pass,
    w: &Weights<T>,
    came: &Came<T>,
    dout: &[T],
    (dh, dc): (&mut [T], &mut [T]),
    grads: Grads<T>,
    scratch: &mut [T],
) {
    let (batch, n, width) = (p.batch, p.hidden, p.width());
    assert!(came.gates.len() == p.rows() * width && dh.len() == batch * n && scratch.len() >= p.scratch_back());
    assert!(came.extra.len() == p.rows() * n * p.cell.extra() && (p.cell != Cell::Lstm || dc.len() == dh.len()));
    let (d, rest) = scratch.split_at_mut(p.rows() * width);
    // The GRU's sums of input and state have different gradients.
    let (inner, rest) = rest.split_at_mut(if p.cell == Cell::Gru { d.len() } else { 0 });
    let befores = &mut rest[..p.rows() * n];
    states_before(p, came, befores);
    let (one, zero) = (T::ONE, T::ZERO);
    for s in (0..p.steps).rev() {
        let t = p.step(s);
        let rows = t * batch;
        let (dh_all, dc_all) = (Shared::new(dh), Shared::new(dc));
        let (d_all, inner_all) = (Shared::new(d), Shared::new(inner));
        p.each_row(|b| {
            let row = rows + b;
            // SAFETY: every row has a part of its own of each.
            let (dh, d) = unsafe { (dh_all.part(part(b, n)), d_all.part(part(row, width))) };
            let (gates, dout) = (&came.gates[part(row, width)], &dout[p.place(t, b)]);
            // SAFETY: as above.
            let inner = (p.cell == Cell::Gru).then(|| unsafe { inner_all.part(part(row, width)) });
            if !p.is_on(t, b) {
                d.fill(zero);
                inner.into_iter().for_each(|i| i.fill(zero));
                return;
            }
            match (p.cell, inner) {
                (Cell::Tanh, _) => gates::tanh_step_grad(gates, dout, dh, d),
                (Cell::Relu, _) => gates::relu_step_grad(gates, dout, dh, d),
                (Cell::Lstm, _) => {
                    let before = match p.before(t).filter(|&t| p.is_on(t, b)) {
                        Some(t) => &came.extra[part(t * batch + b, n)],
                        None => &came.c[part(b, n)],
                    };
                    // SAFETY: as above.
                    let dc = unsafe { dc_all.part(part(b, n)) };
                    gates::lstm_step_grad(gates, before, &came.extra[part(row, n)], dout, dh, dc, d);
                }
                (Cell::Gru, Some(inner)) => {
                    gates::gru_step_grad(gates, &came.extra[part(row, n)], &befores[part(row, n)], dout, dh, d, inner)
                }
                (Cell::Gru, None) => unreachable!("a GRU has both"),
            }
        });
        let step = if p.cell == Cell::Gru { &inner[..] } else { &d[..] };
        let step = View::rows(&step[rows * width..(rows + batch) * width], width, false);
        gemm((batch, n, width), one, step, View::rows(w.hh, n, false), one, dh, n, Epilogue::NONE);
    }
    let own = if p.cell == Cell::Gru { &inner[..] } else { &d[..] };
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
        by(d, came.x, p.input, to);
    }
    if let Some(to) = grads.hh {
        by(own, befores, n, to);
    }
    match (grads.bias_ih, grads.bias_hh) {
        (Some(a), Some(b)) => {
            sum_rows(d, width, a);
            match p.cell {
                Cell::Gru => sum_rows(own, width, b),
                _ => b.copy_from_slice(a),
            }
        }
        (Some(a), None) => sum_rows(d, width, a),
        (None, Some(b)) => sum_rows(own, width, b),
        (None, None) => {}
    }
}

/// For each row of each step the state that it began with. Rows of ended sequences get something, which nobody multiplies
/// by anything but zero.
fn states_before<T: GemmFloat>(p: &Pass, came: &Came<T>, to: &mut [T]) {
    let n = p.hidden;
    pool::parts(to, p.batch.max(1) * n.max(1), |at, to| {
        let t = at / (p.batch * n);
        for (b, to) in to.chunks_exact_mut(n).enumerate() {
            to.copy_from_slice(match p.before(t).filter(|&t| p.is_on(t, b)) {
                Some(before) => &came.out[p.place(before, b)],
                None => &came.h[part(b, n)],
            });
        }
    });
}
