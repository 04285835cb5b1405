//! One direction of one layer of a recurrent network. The input products of all steps are one product; a step
//! multiplies the state and applies the gates.
//!
//! Steps are outermost: x is [steps, batch, input]. After the end of its sequence, a row keeps its state and outputs
//! zeros.

pub mod grad;

use crate::gemm::{gemm, Epilogue, GemmFloat, View};
use crate::pool::{self, Shared};
use crate::rnn::gates;

/// The kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    Tanh,
    Relu,
    Lstm,
    Gru,
}

impl RecurrentCell {
    /// Rows of the weights for each hidden unit.
    pub fn gates(self) -> usize {
        match self {
            RecurrentCell::Tanh | RecurrentCell::Relu => 1,
            RecurrentCell::Lstm => 4,
            RecurrentCell::Gru => 3,
        }
    }

    /// Elements per hidden unit and step that the gradient needs in addition to the gates: the LSTM's cell, or the
    /// state's sum in the GRU's candidate.
    pub fn extra(self) -> usize {
        matches!(self, RecurrentCell::Lstm | RecurrentCell::Gru) as usize
    }
}

/// A direction of a layer: `out` has rows of `stride` elements; those from `at` belong to this direction.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub cell: RecurrentCell,
    pub steps: usize,
    pub batch: usize,
    pub input: usize,
    pub hidden: usize,
    pub reverse: bool,
    /// Steps of each sequence, at most `steps`; `None`: all.
    pub lengths: Option<&'a [usize]>,
    pub stride: usize,
    pub at: usize,
}

/// [gates * hidden, input], [gates * hidden, hidden], and a bias per row of each.
#[derive(Clone, Copy)]
pub struct Weights<'a, T> {
    pub ih: &'a [T],
    pub hh: &'a [T],
    pub bias_ih: &'a [T],
    pub bias_hh: &'a [T],
}

/// Elements of a step per chunk.
const CHUNK: usize = 2048;

impl Pass<'_> {
    pub fn rows(&self) -> usize {
        self.steps * self.batch
    }

    /// Elements of the gates of one row in one step.
    pub fn width(&self) -> usize {
        self.cell.gates() * self.hidden
    }

    /// Elements of `gates` and `extra` together.
    pub fn kept(&self) -> usize {
        self.rows() * (self.width() + self.cell.extra() * self.hidden)
    }

    /// The step at position `s` of the order of computation.
    pub(crate) fn step(&self, s: usize) -> usize {
        if self.reverse {
            self.steps - 1 - s
        } else {
            s
        }
    }

    pub(crate) fn is_on(&self, step: usize, row: usize) -> bool {
        self.lengths.is_none_or(|l| step < l[row])
    }

    /// The step computed before `step`, if any: its state is the initial state of `step`.
    pub(crate) fn before(&self, step: usize) -> Option<usize> {
        let before = if self.reverse { step + 1 } else { step.wrapping_sub(1) };
        (before < self.steps).then_some(before)
    }

    /// Calls `f` for every row of a step.
    pub(crate) fn each_row(&self, f: impl Fn(usize) + Sync) {
        pool::ranges(self.batch, CHUNK.div_ceil(self.hidden), |r| r.for_each(&f));
    }

    /// The range in `out` of the row of a step.
    pub(crate) fn place(&self, step: usize, row: usize) -> std::ops::Range<usize> {
        let at = (step * self.batch + row) * self.stride + self.at;
        at..at + self.hidden
    }
}

/// Part `i` of `width` elements.
pub(crate) fn part(i: usize, width: usize) -> std::ops::Range<usize> {
    i * width..(i + 1) * width
}

/// Transposes [rows, cols].
fn transposed<T: GemmFloat>(x: &[T], rows: usize, cols: usize, to: &mut [T]) {
    const TILE: usize = 16;
    let shared = Shared::new(to);
    pool::ranges(cols.div_ceil(TILE), (CHUNK * 4 / (rows * TILE).max(1)).max(1), |tiles| {
        for j0 in tiles.map(|t| t * TILE) {
            let j1 = (j0 + TILE).min(cols);
            // SAFETY: rows of different tiles are disjoint.
            let to = unsafe { shared.part(j0 * rows..j1 * rows) };
            for i0 in (0..rows).step_by(TILE) {
                for i in i0..(i0 + TILE).min(rows) {
                    for (j, &v) in x[i * cols + j0..i * cols + j1].iter().enumerate() {
                        to[j * rows + i] = v;
                    }
                }
            }
        }
    });
}

/// Elements of scratch that [`forward`] needs.
pub fn scratch(p: &Pass) -> usize {
    p.width() * p.hidden + if p.cell == RecurrentCell::Gru { p.batch * p.width() } else { 0 }
}

/// Computes `out` from `x`. `h` and `c` (of an LSTM) hold the initial states and become the final ones; values for the
/// gradient are written to `gates` and `extra`.
pub fn forward<T: GemmFloat>(
    p: &Pass,
    x: &[T],
    w: &Weights<T>,
    (gates, extra): (&mut [T], &mut [T]),
    (h, c): (&mut [T], &mut [T]),
    out: &mut [T],
    scratch: &mut [T],
) {
    let (batch, n, width) = (p.batch, p.hidden, p.width());
    assert!(gates.len() == p.rows() * width && h.len() == batch * n && extra.len() == p.rows() * n * p.cell.extra());
    assert!(p.lengths.is_none_or(|l| l.len() == batch) && (p.cell != RecurrentCell::Lstm || c.len() == h.len()));
    if p.rows() == 0 || n == 0 {
        return;
    }
    let gru = p.cell == RecurrentCell::Gru;
    // The GRU's reset gate multiplies the state's sum, bias included: that bias is not merged into the input's.
    let both: Vec<T> = match gru {
        true => w.bias_ih.to_vec(),
        false => w.bias_ih.iter().zip(w.bias_hh).map(|(&a, &b)| a + b).collect(),
    };
    let bias = Epilogue { col_bias: Some(&both), ..Epilogue::NONE };
    let (one, zero) = (T::ONE, T::ZERO);
    let (xs, ih) = (View::rows(x, p.input, false), View::rows(w.ih, p.input, true));
    gemm((p.rows(), width, p.input), one, xs, ih, zero, gates, width, bias);

    let (weights, own) = scratch.split_at_mut(width * n);
    // The product packs rows of the transpose; a single row of states is multiplied by rows of the weights instead.
    let weights = if batch > 1 {
        transposed(w.hh, width, n, weights);
        View::rows(&*weights, width, false)
    } else {
        View::rows(w.hh, n, true)
    };
    for s in 0..p.steps {
        let t = p.step(s);
        let step = &mut gates[part(t, batch * width)];
        if gru {
            let bias = Epilogue { col_bias: Some(w.bias_hh), ..Epilogue::NONE };
            gemm((batch, width, n), one, View::rows(h, n, false), weights, zero, own, width, bias);
        } else {
            gemm((batch, width, n), one, View::rows(h, n, false), weights, one, step, width, Epilogue::NONE);
        }
        let (own, step) = (&*own, Shared::new(step));
        let inner = if p.cell.extra() > 0 { &mut extra[part(t, batch * n)] } else { &mut extra[..] };
        let (inner, h, c, out) = (Shared::new(inner), Shared::new(h), Shared::new(c), Shared::new(out));
        p.each_row(|b| {
            // SAFETY: parts of different rows are disjoint.
            let (out, h, g) = unsafe { (out.part(p.place(t, b)), h.part(part(b, n)), step.part(part(b, width))) };
            let on = p.is_on(t, b);
            match p.cell {
                RecurrentCell::Tanh if on => gates::tanh_step(g),
                RecurrentCell::Relu if on => gates::relu_step(g),
                RecurrentCell::Lstm => {
                    // SAFETY: as above.
                    let (cell, c) = unsafe { (inner.part(part(b, n)), c.part(part(b, n))) };
                    if on {
                        gates::lstm_step(g, c, cell, h);
                        c.copy_from_slice(cell);
                    } else {
                        cell.copy_from_slice(c);
                    }
                }
                RecurrentCell::Gru => {
                    // SAFETY: as above.
                    let inner = unsafe { inner.part(part(b, n)) };
                    if on {
                        gates::gru_step(g, &own[part(b, width)], inner, h);
                    } else {
                        inner.fill(zero);
                    }
                }
                _ => {}
            }
            if on && p.cell.extra() == 0 {
                h.copy_from_slice(g);
            }
            if on {
                out.copy_from_slice(h);
            } else {
                out.fill(zero);
            }
        });
    }
}
