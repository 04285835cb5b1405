//! similarity_focus: marks the largest elements of matrices, at most one per row and column.

use crate::pool;
use crate::ranking;
use crate::types::Float;
use std::cmp::Ordering;

/// Positions of the selected elements, in descending order: no two share a row or column.
fn largest<T: PartialOrd + Copy>(matrix: &[T], columns: usize) -> Vec<usize> {
    let nan = |x: &T| x.partial_cmp(x).is_none();
    // NaN sorts last.
    let mut order = ranking::positions(matrix.len(), |a, b| {
        let (a, b) = (&matrix[a], &matrix[b]);
        b.partial_cmp(a).unwrap_or_else(|| match (nan(a), nan(b)) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => Ordering::Equal,
        })
    });
    let (mut rows, mut taken) = (vec![false; matrix.len() / columns.max(1)], vec![false; columns]);
    order.retain(|k| {
        let (row, column) = (&mut rows[k / columns], &mut taken[k % columns]);
        let free = !*row && !*column;
        if free {
            (*row, *column) = (true, true);
        }
        free
    });
    order
}

/// Marks (1, else 0) in every image of sizes `d`, along all of axis `axis`, the largest elements of the matrices at
/// `indexes` of that axis.
pub fn focus<T: Float>(x: &[T], d: [usize; 3], axis: usize, indexes: &[i32], out: &mut [T]) {
    let strides = [d[1] * d[2], d[2], 1];
    let others: Vec<usize> = (0..3).filter(|&k| k != axis).collect();
    let (rows, columns) = (d[others[0]], d[others[1]]);
    let place = |k: usize| k / columns * strides[others[0]] + k % columns * strides[others[1]];
    let image = d[0] * d[1] * d[2];
    out.fill(T::ZERO);
    if image == 0 {
        return;
    }
    let mut images: Vec<&mut [T]> = out.chunks_exact_mut(image).collect();
    pool::parts(&mut images, 1, |at, part| {
        for (n, to) in part.iter_mut().enumerate() {
            let own = &x[(at + n) * image..][..image];
            for &index in indexes {
                let from = index as usize * strides[axis];
                let matrix: Vec<T> = (0..rows * columns).map(|k| own[from + place(k)]).collect();
                for k in largest(&matrix, columns) {
                    (0..d[axis]).for_each(|i| to[place(k) + i * strides[axis]] = T::ONE);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_free_elements_are_marked() {
        let d = [2, 3, 4];
        let x: Vec<f32> = (0..48).map(|i| (i * 7919 % 53) as f32).collect();
        for axis in 0..3 {
            let mut out = vec![9.0; 48];
            focus(&x, d, axis, &[1, 0], &mut out);
            let mut want = vec![0.0; 48];
            for (image, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let inside = |k: usize| [k / 12, k / 4 % 3, k % 4];
                let own = |k: &usize| inside(*k)[axis] == index;
                let mut free: Vec<usize> = (0..24).filter(own).collect();
                while !free.is_empty() {
                    let best =
                        free.iter()
                            .copied()
                            .fold(free[0], |a, b| if x[image * 24 + b] > x[image * 24 + a] { b } else { a });
                    let same = |k: usize| (0..3).filter(|&a| a != axis && inside(k)[a] == inside(best)[a]).count();
                    (0..24).filter(|&k| same(k) == 2).for_each(|k| want[image * 24 + k] = 1.0);
                    free.retain(|&k| same(k) == 0);
                }
            }
            assert_eq!(out, want, "{axis}");
        }
        assert_eq!(largest(&[f32::NAN, 1.0, 2.0, 0.5], 2), [2, 1]);
        focus::<f64>(&[], [0, 1, 2], 0, &[], &mut []);
    }
}
