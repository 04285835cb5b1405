//! The order of rows of sequences of different lengths for step-wise computation: longest sequence first, so that the
//! rows of a step continue the first rows of the step before.

/// Rows of sequences in the order of steps.
pub struct Batches {
    /// The sequences by descending length; equal lengths keep their order.
    pub order: Vec<usize>,
    /// Rows `starts[s]..starts[s + 1]` belong to step `s`.
    pub starts: Vec<usize>,
    /// For each row, its index in the matrix of sequences.
    pub rows: Vec<usize>,
}

impl Batches {
    /// For sequences between ascending offsets; `reverse`: each from its end.
    pub fn new(offsets: &[usize], reverse: bool) -> Batches {
        let length = |i: &usize| offsets[i + 1] - offsets[*i];
        let mut order: Vec<usize> = (0..offsets.len().saturating_sub(1)).collect();
        order.sort_by_key(|i| std::cmp::Reverse(length(i)));
        let steps = order.first().map_or(0, length);
        let (mut starts, mut rows) = (vec![0], Vec::with_capacity(offsets.last().copied().unwrap_or(0)));
        for step in 0..steps {
            let on = order.iter().take_while(|i| length(i) > step);
            rows.extend(on.map(|&i| if reverse { offsets[i + 1] - 1 - step } else { offsets[i] + step }));
            starts.push(rows.len());
        }
        Batches { order, starts, rows }
    }

    /// One step of `n` rows.
    pub fn one(n: usize) -> Batches {
        let starts = if n > 0 { vec![0, n] } else { vec![0] };
        Batches { order: (0..n).collect(), starts, rows: (0..n).collect() }
    }

    pub fn steps(&self) -> usize {
        self.starts.len() - 1
    }

    /// The first row of a step, its number of rows, and the first row of the step before, if any.
    pub fn step(&self, s: usize) -> (usize, usize, Option<usize>) {
        (self.starts[s], self.starts[s + 1] - self.starts[s], s.checked_sub(1).map(|p| self.starts[p]))
    }

    /// Reorders rows of `width` elements from sequences to steps.
    pub fn gather<T: Copy>(&self, x: &[T], width: usize, to: &mut [T]) {
        for (to, &row) in to.chunks_exact_mut(width).zip(&self.rows) {
            to.copy_from_slice(&x[row * width..(row + 1) * width]);
        }
    }

    /// The inverse of `gather`.
    pub fn scatter<T: Copy>(&self, x: &[T], width: usize, to: &mut [T]) {
        for (from, &row) in x.chunks_exact(width).zip(&self.rows) {
            to[row * width..(row + 1) * width].copy_from_slice(from);
        }
    }

    /// Reorders one row per sequence to the order of steps (longest first).
    pub fn gather_first<T: Copy>(&self, x: &[T], width: usize, to: &mut [T]) {
        for (to, &i) in to.chunks_exact_mut(width).zip(&self.order) {
            to.copy_from_slice(&x[i * width..(i + 1) * width]);
        }
    }

    /// The inverse of `gather_first`; rows of empty sequences become zeros (`x` may lack their rows).
    pub fn scatter_first<T: Copy>(&self, x: &[T], width: usize, zero: T, to: &mut [T]) {
        to.fill(zero);
        for (from, &i) in x.chunks_exact(width).zip(&self.order) {
            to[i * width..(i + 1) * width].copy_from_slice(from);
        }
    }

    /// The state before each row: that of the step before, or the initial state (zeros if there is none).
    pub fn befores<T: Copy>(&self, states: &[T], first: Option<&[T]>, width: usize, zero: T, to: &mut [T]) {
        for s in 0..self.steps() {
            let (at, n, before) = self.step(s);
            let to = &mut to[at * width..(at + n) * width];
            match (before, first) {
                (Some(b), _) => to.copy_from_slice(&states[b * width..(b + n) * width]),
                (None, Some(first)) => to.copy_from_slice(&first[..n * width]),
                (None, None) => to.fill(zero),
            }
        }
    }
}
