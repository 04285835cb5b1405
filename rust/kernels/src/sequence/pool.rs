//! Pooling and expansion of sequences of rows: rows `starts[i]..starts[i + 1]` of a matrix are sequence `i`. Offsets
//! must ascend and lie within the matrix.

use crate::pool::{self, Shared};
use crate::types::Float;

/// Elements per chunk.
const CHUNK: usize = 1 << 14;

/// The kind of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    Average,
    Sum,
    /// The sum divided by the square root of the length.
    Sqrt,
    Last,
    First,
    Max,
}

impl Pooling {
    fn scale<T: Float>(self, length: usize) -> T {
        match self {
            Pooling::Average => T::ONE / T::from_f64(length as f64),
            Pooling::Sqrt => T::ONE / T::from_f64((length as f64).sqrt()),
            _ => T::ONE,
        }
    }
}

/// Sequences per chunk.
fn grain(starts: &[usize], width: usize) -> usize {
    let sequences = starts.len() - 1;
    let elements = (starts[sequences] - starts[0]) * width;
    (CHUNK * sequences / elements.max(1)).max(1)
}

/// One row per sequence; `pad` for empty sequences. `index` receives the row of each maximum (-1 for an empty
/// sequence).
pub fn pool<T: Float>(
    kind: Pooling,
    starts: &[usize],
    width: usize,
    pad: T,
    x: &[T],
    out: &mut [T],
    index: Option<&mut [i32]>,
) {
    let sequences = starts.len().saturating_sub(1);
    assert!(out.len() == sequences * width && index.as_ref().is_none_or(|i| i.len() == out.len()));
    if out.is_empty() {
        return;
    }
    let (out, index) = (Shared::new(out), index.map(Shared::new));
    pool::ranges(sequences, grain(starts, width), |r| {
        for i in r {
            let at = i * width..(i + 1) * width;
            // SAFETY: rows of different sequences are disjoint.
            let (out, index) = unsafe { (out.part(at.clone()), index.map(|x| x.part(at))) };
            one(kind, starts[i]..starts[i + 1], width, pad, x, out, index);
        }
    });
}

fn one<T: Float>(
    kind: Pooling,
    rows: std::ops::Range<usize>,
    width: usize,
    pad: T,
    x: &[T],
    out: &mut [T],
    mut index: Option<&mut [i32]>,
) {
    if rows.is_empty() {
        out.fill(pad);
        index.into_iter().for_each(|i| i.fill(-1));
        return;
    }
    let row = |r: usize| &x[r * width..(r + 1) * width];
    out.copy_from_slice(row(if kind == Pooling::Last { rows.end - 1 } else { rows.start }));
    match kind {
        Pooling::Last | Pooling::First => {}
        Pooling::Max => {
            if let Some(i) = &mut index {
                i.fill(rows.start as i32);
            }
            for r in rows.skip(1) {
                match &mut index {
                    Some(index) => {
                        for ((o, &v), i) in out.iter_mut().zip(row(r)).zip(index.iter_mut()) {
                            if v > *o {
                                (*o, *i) = (v, r as i32);
                            }
                        }
                    }
                    None => out.iter_mut().zip(row(r)).for_each(|(o, &v)| *o = if v > *o { v } else { *o }),
                }
            }
        }
        _ => {
            let length = rows.len();
            for r in rows.skip(1) {
                out.iter_mut().zip(row(r)).for_each(|(o, &v)| *o += v);
            }
            match kind {
                Pooling::Average => {
                    let n = T::from_f64(length as f64);
                    out.iter_mut().for_each(|o| *o = *o / n);
                }
                Pooling::Sqrt => {
                    let n = T::from_f64((length as f64).sqrt());
                    out.iter_mut().for_each(|o| *o = *o / n);
                }
                _ => {}
            }
        }
    }
}

/// The gradient of `pool`. `index` is needed for `Max`.
pub fn pool_grad<T: Float>(
    kind: Pooling,
    starts: &[usize],
    width: usize,
    dout: &[T],
    index: Option<&[i32]>,
    dx: &mut [T],
) {
    let sequences = starts.len().saturating_sub(1);
    assert!(dout.len() == sequences * width && index.is_none_or(|i| i.len() == dout.len()));
    let covered = sequences > 0 && starts[0] == 0 && starts[sequences] * width == dx.len();
    if !covered || matches!(kind, Pooling::Last | Pooling::First | Pooling::Max) {
        dx.fill(T::ZERO);
    }
    if dout.is_empty() || dx.is_empty() {
        return;
    }
    let to = Shared::new(dx);
    pool::ranges(sequences, grain(starts, width), |r| {
        for i in r {
            let rows = starts[i]..starts[i + 1];
            // SAFETY: sequences are disjoint rows.
            let dx = unsafe { to.part(rows.start * width..rows.end * width) };
            let d = &dout[i * width..(i + 1) * width];
            if rows.is_empty() {
                continue;
            }
            match kind {
                Pooling::First => dx[..width].copy_from_slice(d),
                Pooling::Last => dx[(rows.len() - 1) * width..].copy_from_slice(d),
                Pooling::Max => {
                    let index = &index.expect("the rows of the maxima")[i * width..(i + 1) * width];
                    for (k, (&d, &at)) in d.iter().zip(index).enumerate() {
                        if at >= rows.start as i32 && at < rows.end as i32 {
                            dx[(at as usize - rows.start) * width + k] = d;
                        }
                    }
                }
                _ => {
                    let scale = kind.scale::<T>(rows.len());
                    for dx in dx.chunks_exact_mut(width) {
                        dx.iter_mut().zip(d).for_each(|(o, &d)| *o = d * scale);
                    }
                }
            }
        }
    });
}

/// Writes sequence `i` `times(i)` times, consecutively. `width` and the slices are in bytes.
pub fn expand(starts: &[usize], times: impl Fn(usize) -> usize, width: usize, x: &[u8], out: &mut [u8]) {
    let mut at = 0;
    for i in 0..starts.len().saturating_sub(1) {
        let part = &x[starts[i] * width..starts[i + 1] * width];
        for _ in 0..times(i) {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }
}

/// The gradient of `expand`: the sum over the copies of each sequence, zeros without copies.
pub fn expand_grad<T: Copy + Default + std::ops::AddAssign>(
    starts: &[usize],
    times: impl Fn(usize) -> usize,
    width: usize,
    dout: &[T],
    dx: &mut [T],
) {
    let mut at = 0;
    dx.fill(T::default());
    for i in 0..starts.len().saturating_sub(1) {
        let dx = &mut dx[starts[i] * width..starts[i + 1] * width];
        for _ in 0..times(i) {
            dx.iter_mut().zip(&dout[at..]).for_each(|(o, &d)| *o += d);
            at += dx.len();
        }
    }
}

/// Writes pooled rows [sequences, width] to the columns from `at` on of a matrix with `columns` columns.
pub fn place_columns<T: Copy>(rows: &[T], width: usize, at: usize, columns: usize, out: &mut [T]) {
    for (i, row) in rows.chunks_exact(width.max(1)).enumerate() {
        out[i * columns + at..][..width].copy_from_slice(row);
    }
}

/// The logarithms of show and of the rate of clicks in the first two columns of rows that begin with show and click.
pub fn show_and_click<T: Float>(rows: &mut [T], width: usize) {
    for row in rows.chunks_exact_mut(width.max(1)) {
        row[0] = (row[0] + T::ONE).ln();
        row[1] = (row[1] + T::ONE).ln() - row[0];
    }
}

/// Adds row i of `x` to each row of sequence i.
pub fn add_to_sequences<T: Float>(starts: &[usize], width: usize, x: &[T], out: &mut [T]) {
    for (i, w) in starts.windows(2).enumerate() {
        for row in out[w[0] * width..w[1] * width].chunks_exact_mut(width.max(1)) {
            row.iter_mut().zip(&x[i * width..]).for_each(|(o, &v)| *o += v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_placed_transformed_and_added() {
        let mut out = [0.0; 8];
        place_columns(&[1.0, 2.0, 3.0, 4.0], 2, 1, 4, &mut out);
        assert_eq!(out, [0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
        let mut rows = [3.0f64, 1.0, 9.0];
        show_and_click(&mut rows, 3);
        assert_eq!(rows, [4f64.ln(), 2f64.ln() - 4f64.ln(), 9.0]);
        let mut sums = [1.0; 6];
        add_to_sequences(&[0, 2, 2, 3], 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut sums);
        assert_eq!(sums, [2.0, 3.0, 2.0, 3.0, 6.0, 7.0]);
        add_to_sequences::<f32>(&[0], 0, &[], &mut []);
    }

    #[test]
    fn pools_equal_a_plain_loop() {
        let (starts, width) = ([0, 2, 2, 5], 3);
        let x: Vec<f64> = (0..15).map(|i| (i * 7 % 11) as f64 - 4.0).collect();
        for kind in [Pooling::Average, Pooling::Sum, Pooling::Sqrt, Pooling::Last, Pooling::First, Pooling::Max] {
            let (mut out, mut index) = (vec![0.0; 9], vec![9; 9]);
            pool(kind, &starts, width, -1.5, &x, &mut out, Some(&mut index));
            for (i, w) in starts.windows(2).enumerate() {
                for c in 0..width {
                    let column: Vec<f64> = (w[0]..w[1]).map(|r| x[r * width + c]).collect();
                    let (sum, n) = (column.iter().sum::<f64>(), column.len() as f64);
                    let want = match kind {
                        _ if column.is_empty() => -1.5,
                        Pooling::Average => sum / n,
                        Pooling::Sum => sum,
                        Pooling::Sqrt => sum / n.sqrt(),
                        Pooling::Last => column[column.len() - 1],
                        Pooling::First => column[0],
                        Pooling::Max => column.iter().copied().fold(f64::MIN, f64::max),
                    };
                    assert_eq!(out[i * width + c], want, "{kind:?}");
                }
            }
        }
    }
}
