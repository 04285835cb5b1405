//! partial_concat and partial_sum: the same columns of several matrices, concatenated or added.

use crate::types::{Number, Plain};
use std::ops::Range;

/// Copies the columns `from` of every row of x, of `width`, to the columns from `at` on of every row of out, of
/// `out_width`; rows without columns are none.
pub fn copy_columns<T: Plain>(x: &[T], width: usize, from: Range<usize>, out: &mut [T], out_width: usize, at: usize) {
    for (x, out) in x.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(out_width.max(1))) {
        out[at..at + from.len()].copy_from_slice(&x[from.clone()]);
    }
}

/// Adds the columns `from` of every row of x, of `width`, to the rows of out, which have as many.
pub fn add_columns<T: Number>(x: &[T], width: usize, from: Range<usize>, out: &mut [T]) {
    for (to, row) in out.chunks_exact_mut(from.len().max(1)).zip(x.chunks_exact(width.max(1))) {
        to.iter_mut().zip(&row[from.clone()]).for_each(|(to, &v)| *to = to.add(v));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_copied_and_added() {
        let x: Vec<i32> = (0..12).collect();
        let mut out = [-1; 15];
        copy_columns(&x, 4, 1..3, &mut out, 5, 2);
        for (k, &got) in out.iter().enumerate() {
            let (row, column) = (k / 5, k % 5);
            assert_eq!(got, if (2..4).contains(&column) { x[row * 4 + column - 1] } else { -1 });
        }
        let mut sums = [10, 20, 30, 40, 50, 60];
        add_columns(&x, 4, 1..3, &mut sums);
        assert_eq!(sums, [11, 22, 35, 46, 59, 70]);
        copy_columns::<u8>(&[], 3, 0..2, &mut [], 2, 0);
        add_columns::<f32>(&[], 3, 1..1, &mut []);
    }
}
