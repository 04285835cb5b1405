//! L2 normalisation along one axis: vectors divided by sqrt(sum of squares + epsilon), and the gradient. The axis is
//! the middle of (outer, n, inner).

use crate::pool::{self, Shared};
use crate::simd_fn;
use crate::softmax::{lane_sum, CHUNK, W};
use crate::types::Float;

/// Columns that are computed together where the axis is not the last.
const COLUMNS: usize = 256;

simd_fn! {
    /// `sums[j]` = sum over k of `a[k * inner + j] * b[k * inner + j]`.
    fn dots[T: Float](a: &[T], b: &[T], inner: usize, sums: &mut [T]) {
        if inner == 1 {
            let mut lanes = [T::ZERO; W];
            for (a, b) in a.chunks(W).zip(b.chunks(W)) {
                for ((l, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
                    *l = a.fma::<FMA>(b, *l);
                }
            }
            sums[0] = lane_sum(lanes);
            return;
        }
        sums.fill(T::ZERO);
        for (a, b) in a.chunks(inner).zip(b.chunks(inner)) {
            for ((s, &a), &b) in sums.iter_mut().zip(a).zip(b) {
                *s = a.fma::<FMA>(b, *s);
            }
        }
    }
}

simd_fn! {
    fn divide[T: Float](x: &[T], norm: &[T], y: &mut [T]) {
        match norm {
            &[norm] => y.iter_mut().zip(x).for_each(|(y, &x)| *y = x / norm),
            _ => y.iter_mut().zip(x).zip(norm).for_each(|((y, &x), &norm)| *y = x / norm),
        }
    }
}

simd_fn! {
    /// dx = (dy - x * sum(x * dy) / norm^2) / norm.
    fn grad_row[T: Float](x: &[T], dy: &[T], sums: &[T], norm: &[T], dx: &mut [T]) {
        let one = |x: T, dy: T, sum: T, norm: T| (dy - sum * x / (norm * norm)) / norm;
        match (sums, norm) {
            (&[sum], &[norm]) => {
                dx.iter_mut().zip(x).zip(dy).for_each(|((dx, &x), &dy)| *dx = one(x, dy, sum, norm))
            }
            _ => {
                let columns = dx.iter_mut().zip(x).zip(dy).zip(sums.iter().zip(norm));
                columns.for_each(|(((dx, &x), &dy), (&sum, &norm))| *dx = one(x, dy, sum, norm))
            }
        }
    }
}

/// Calls `f(first, columns, count)` for groups of vectors: the first element of the first vector, the indices of the
/// vectors, and the number of elements from `first` to the end of the last vector.
fn over((outer, n, inner): (usize, usize, usize), f: impl Fn(usize, std::ops::Range<usize>, usize) + Sync) {
    let width = inner.min(COLUMNS);
    let strips = inner.div_ceil(width.max(1));
    pool::ranges(outer * strips, (CHUNK / (n * width).max(1)).max(1), |range| {
        for at in range {
            let (row, column) = (at / strips, at % strips * width);
            let cols = width.min(inner - column);
            let from = row * inner + column;
            f(row * n * inner + column, from..from + cols, (n - 1) * inner + cols);
        }
    });
}

/// `y = x / norm` with `norm = sqrt(sum of squares + epsilon)`, one per vector.
pub fn normalize<T: Float>(extents: (usize, usize, usize), epsilon: T, x: &[T], y: &mut [T], norm: &mut [T]) {
    let (outer, n, inner) = extents;
    assert!(x.len() == outer * n * inner && y.len() == x.len() && norm.len() == outer * inner);
    if x.is_empty() {
        return norm.fill(epsilon.sqrt());
    }
    let (y, norm) = (Shared::new(y), Shared::new(norm));
    over(extents, |first, columns, reach| {
        let count = columns.len();
        // SAFETY: vectors of different groups are disjoint.
        let norm = unsafe { norm.part(columns) };
        let x = &x[first..first + reach];
        dots(x, x, inner, norm);
        norm.iter_mut().for_each(|s| *s = (*s + epsilon).sqrt());
        let step = if inner == 1 { reach } else { inner };
        for (k, x) in x.chunks(step).enumerate() {
            let (at, len) = (first + k * step, if inner == 1 { reach } else { count });
            // SAFETY: as above.
            divide(&x[..len], norm, unsafe { y.part(at..at + len) });
        }
    });
}

pub fn normalize_grad<T: Float>(extents: (usize, usize, usize), x: &[T], norm: &[T], dy: &[T], dx: &mut [T]) {
    let (outer, n, inner) = extents;
    assert!(x.len() == outer * n * inner && dy.len() == x.len() && dx.len() == x.len());
    assert_eq!(norm.len(), outer * inner);
    if x.is_empty() {
        return;
    }
    let dx = Shared::new(dx);
    over(extents, |first, columns, reach| {
        let count = columns.len();
        let mut sums = [T::ZERO; COLUMNS];
        let (sums, norm) = (&mut sums[..count], &norm[columns]);
        let (x, dy) = (&x[first..first + reach], &dy[first..first + reach]);
        dots(x, dy, inner, sums);
        let step = if inner == 1 { reach } else { inner };
        for (k, (x, dy)) in x.chunks(step).zip(dy.chunks(step)).enumerate() {
            let (at, len) = (first + k * step, if inner == 1 { reach } else { count });
            // SAFETY: vectors of different groups are disjoint.
            grad_row(&x[..len], &dy[..len], sums, norm, unsafe { dx.part(at..at + len) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_one() {
        for extents in [(1, 5, 1), (3, 40, 1), (2, 3, 700), (4, 1, 2), (0, 3, 2), (2, 0, 2), (70, 9, 33)] {
            let (outer, n, inner) = extents;
            let x: Vec<f64> = (0..outer * n * inner).map(|i| (i * 37 % 101) as f64 - 50.5).collect();
            let (mut y, mut norm) = (vec![0.0; x.len()], vec![0.0; outer * inner]);
            normalize(extents, 1e-10, &x, &mut y, &mut norm);
            let mut dx = vec![0.0; x.len()];
            normalize_grad(extents, &x, &norm, &x, &mut dx);
            for o in 0..outer {
                for j in 0..inner {
                    let at = |k| (o * n + k) * inner + j;
                    let squares: f64 = (0..n).map(|k| x[at(k)] * x[at(k)]).sum();
                    assert!((norm[o * inner + j] - (squares + 1e-10f64).sqrt()).abs() < 1e-9 * squares.max(1.0));
                    let length: f64 = (0..n).map(|k| y[at(k)] * y[at(k)]).sum();
                    assert!(n == 0 || (length - 1.0).abs() < 1e-9, "{extents:?} {length}");
                    // Along x the length does not change.
                    assert!((0..n).all(|k| dx[at(k)].abs() < 1e-9));
                }
            }
        }
    }
}
