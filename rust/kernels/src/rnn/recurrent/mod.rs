//! One direction of one layer of a recurrent network. The input products of all steps are one product; a step
//! multiplies the state and applies the gates.
//!
//! Steps are outermost: x is [steps, batch, input]. After the end of its sequence, a row keeps its state and outputs
//! zeros.

pub mod forward;
pub mod grad;
mod single;

use crate::pool;

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
    /// The transpose of `ih`, if it was packed at load.
    pub ih_columns: Option<&'a [T]>,
    /// `hh` packed at load, for a batch of 1.
    pub state: Option<PackedState<'a, T>>,
}

/// State weights as blocks of `units` hidden units: [hidden / units, hidden, gates, units], where element (b, k, g, u) is
/// the weight of the state's unit k in gate g of unit `b * units + u`.
#[derive(Clone, Copy)]
pub struct PackedState<'a, T> {
    pub data: &'a [T],
    pub units: usize,
}

/// Most units of a block.
pub(crate) const UNITS: usize = 64;
impl<T> PackedState<'_, T> {
    /// Whether the weights are packed for this pass.
    pub fn fits(&self, p: &Pass) -> bool {
        let n = p.hidden;
        (1..=UNITS).contains(&self.units) && n.is_multiple_of(self.units) && self.data.len() == p.width() * n
    }
}

/// Elements of a step per chunk.
pub(crate) const CHUNK: usize = 2048;

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
