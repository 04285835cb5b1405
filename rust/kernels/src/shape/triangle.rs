//! Triangles of matrices, zeros elsewhere.

use crate::pool;
use crate::types::Plain;

/// Elements per chunk of rows.
const GRAIN: usize = 16 * 1024;

/// The elements of matrices of `height` x `width` (above 0) on and below (`lower`) or on and above the diagonal number
/// `diagonal`.
pub fn triangle<T: Plain>(x: &[T], height: usize, width: usize, diagonal: i64, lower: bool, out: &mut [T]) {
    pool::parts(out, (GRAIN / width).max(1) * width, |start, part| {
        for (i, row) in part.chunks_exact_mut(width).enumerate() {
            let at = start / width + i;
            // Columns before `edge` are kept below the diagonal and zeroed above it.
            let edge = (at % height) as i64 + diagonal + lower as i64;
            let cut = edge.clamp(0, width as i64) as usize;
            row.copy_from_slice(&x[at * width..(at + 1) * width]);
            if lower { &mut row[cut..] } else { &mut row[..cut] }.fill(T::default());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_one_side_are_kept() {
        let x: Vec<i32> = (1..=2 * 3 * 4).collect();
        for (diagonal, lower) in [(0, true), (0, false), (2, true), (-1, false), (-9, true), (9, false)] {
            let mut out = vec![99; x.len()];
            triangle(&x, 3, 4, diagonal, lower, &mut out);
            for (k, &got) in out.iter().enumerate() {
                let off = (k % 4) as i64 - (k / 4 % 3) as i64;
                let kept = if lower { off <= diagonal } else { off >= diagonal };
                assert_eq!(got, if kept { x[k] } else { 0 });
            }
        }
    }
}
