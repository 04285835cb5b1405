//! Cholesky factors and inverses of small dense square matrices, stored row by row.

use crate::gemm::{matmul, GemmFloat};
use crate::pool;

fn dot<T: GemmFloat>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::ZERO, |s, (&a, &b)| s + a * b)
}

/// Replaces `a` by the L of `a = L L^T`, read from its lower triangle, with zeros above the diagonal; false where `a` is not
/// positive definite.
pub fn cholesky<T: GemmFloat>(a: &mut [T], n: usize) -> bool {
    for i in 0..n {
        let (done, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..n];
        for j in 0..i {
            let of_j = &done[j * n..j * n + j + 1];
            row[j] = (row[j] - dot(&row[..j], &of_j[..j])) / of_j[j];
        }
        let square = row[i] - dot(&row[..i], &row[..i]);
        if square <= T::ZERO || square.is_nan() {
            return false;
        }
        row[i] = square.sqrt();
        row[i + 1..].fill(T::ZERO);
    }
    true
}

/// Transposes a square matrix in place.
pub fn transpose<T: GemmFloat>(a: &mut [T], n: usize) {
    for i in 0..n {
        for j in 0..i {
            a.swap(i * n + j, j * n + i);
        }
    }
}

/// The inverse of a lower triangle without zeros on its diagonal.
fn invert_lower<T: GemmFloat>(l: &[T], n: usize) -> Vec<T> {
    let mut inverse = vec![T::ZERO; n * n];
    for i in 0..n {
        let (done, rest) = inverse.split_at_mut(i * n);
        let row = &mut rest[..n];
        for k in 0..i {
            let f = l[i * n + k];
            row[..=k].iter_mut().zip(&done[k * n..]).for_each(|(r, &d)| *r = *r - f * d);
        }
        let pivot = l[i * n + i];
        row[..i].iter_mut().for_each(|r| *r = *r / pivot);
        row[i] = T::ONE / pivot;
    }
    inverse
}

/// The gradient of a symmetric matrix, given L and the gradient of L (Murray 2016, "Differentiation of the Cholesky
/// decomposition"): (S + S^T) / 2 with S = L^-T phi(L^T dL) L^-1, where phi keeps the lower triangle and half the diagonal.
pub fn cholesky_grad<T: GemmFloat>(l: &[T], dl: &[T], n: usize, da: &mut [T]) {
    let (mut phi, inverse) = (vec![T::ZERO; n * n], invert_lower(l, n));
    matmul((n, n, n), l, true, dl, false, &mut phi);
    let half = T::from_f64(0.5);
    for i in 0..n {
        phi[i * n + i] = phi[i * n + i] * half;
        phi[i * n + i + 1..(i + 1) * n].fill(T::ZERO);
    }
    let mut left = vec![T::ZERO; n * n];
    matmul((n, n, n), &inverse, true, &phi, false, &mut left);
    matmul((n, n, n), &left, false, &inverse, false, &mut phi);
    for i in 0..n {
        for j in 0..n {
            da[i * n + j] = (phi[i * n + j] + phi[j * n + i]) * half;
        }
    }
}

/// Size from which rows are eliminated on several threads.
const LARGE: usize = 96;

/// Replaces a matrix by its inverse (Gauss-Jordan elimination, partial pivoting); false where it is singular.
pub fn invert<T: GemmFloat>(a: &mut [T], n: usize) -> bool {
    let mut places: Vec<usize> = (0..n).collect();
    let mut pivot_row = vec![T::ZERO; n];
    for k in 0..n {
        let larger = |x: usize, y: usize| if a[y * n + k].abs() > a[x * n + k].abs() { y } else { x };
        let best = (k + 1..n).fold(k, larger);
        let pivot = a[best * n + k];
        if pivot == T::ZERO || pivot.is_nan() {
            return false;
        }
        if best != k {
            places.swap(k, best);
            let (upper, lower) = a.split_at_mut(best * n);
            upper[k * n..(k + 1) * n].swap_with_slice(&mut lower[..n]);
        }
        pivot_row.copy_from_slice(&a[k * n..(k + 1) * n]);
        pivot_row[k] = T::ONE;
        pivot_row.iter_mut().for_each(|v| *v = *v / pivot);
        let eliminate = |start: usize, rows: &mut [T]| {
            for (i, row) in rows.chunks_exact_mut(n).enumerate() {
                if start / n + i == k {
                    row.copy_from_slice(&pivot_row);
                    continue;
                }
                let f = std::mem::replace(&mut row[k], T::ZERO);
                row.iter_mut().zip(&pivot_row).for_each(|(r, &p)| *r = *r - f * p);
            }
        };
        if n < LARGE {
            eliminate(0, a);
        } else {
            pool::parts(a, (LARGE * LARGE / n).max(8) * n, eliminate);
        }
    }
    // Rows exchanged in the matrix are columns exchanged in the inverse.
    let mut row = vec![T::ZERO; n];
    for r in a.chunks_exact_mut(n.max(1)) {
        places.iter().enumerate().for_each(|(from, &to)| row[to] = r[from]);
        r.copy_from_slice(&row);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symmetric positive definite matrix: B B^T + n I.
    fn positive(n: usize) -> Vec<f64> {
        let b: Vec<f64> = (0..n * n).map(|i| ((i * 37 + 11) % 23) as f64 / 23.0 - 0.5).collect();
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let dot: f64 = (0..n).map(|k| b[i * n + k] * b[j * n + k]).sum();
                a[i * n + j] = dot + if i == j { n as f64 } else { 0.0 };
            }
        }
        a
    }

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        (0..n * n).map(|e| (0..n).map(|k| a[e / n * n + k] * b[k * n + e % n]).sum()).collect()
    }

    #[test]
    fn a_factor_times_its_transpose_is_the_matrix() {
        for n in [1, 2, 5, 17] {
            let a = positive(n);
            let mut l = a.clone();
            assert!(cholesky(&mut l, n));
            assert!((0..n).all(|i| (i + 1..n).all(|j| l[i * n + j] == 0.0)));
            let mut upper = l.clone();
            transpose(&mut upper, n);
            assert!(product(&l, &upper, n).iter().zip(&a).all(|(x, y)| (x - y).abs() < 1e-9));
        }
        assert!(!cholesky(&mut [1.0, 0.0, 2.0, 1.0], 2));
        assert!(!cholesky(&mut [f64::NAN], 1));
    }

    #[test]
    fn the_gradient_of_a_factor_is_that_of_differences() {
        let n = 4;
        let a = positive(n);
        let seed: Vec<f64> = (0..n * n).map(|i| if i % n <= i / n { (i % 5) as f64 - 1.5 } else { 0.0 }).collect();
        let loss = |a: &[f64]| {
            let mut l = a.to_vec();
            assert!(cholesky(&mut l, n));
            l.iter().zip(&seed).map(|(x, s)| x * s).sum::<f64>()
        };
        let mut l = a.clone();
        assert!(cholesky(&mut l, n));
        let mut da = vec![0.0; n * n];
        cholesky_grad(&l, &seed, n, &mut da);
        for i in 0..n {
            for j in 0..=i {
                let step = |h: f64| {
                    let mut moved = a.clone();
                    moved[i * n + j] += h;
                    loss(&moved)
                };
                // The lower triangle is read for both halves of the symmetric matrix.
                let want = (step(1e-6) - step(-1e-6)) / 2e-6;
                let got = if i == j { da[i * n + j] } else { 2.0 * da[i * n + j] };
                assert!((got - want).abs() < 1e-6, "{i} {j}: {got} {want}");
            }
        }
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        for n in [1, 3, 8, LARGE + 5] {
            let mut a: Vec<f64> = (0..n * n).map(|i| ((i * 53 + 7) % 31) as f64 / 31.0).collect();
            (0..n).for_each(|i| a[(n - 1 - i) * n + i] += n as f64); // pivots off the diagonal
            let mut inverse = a.clone();
            assert!(invert(&mut inverse, n));
            let identity = product(&a, &inverse, n);
            assert!((0..n * n).all(|e| (identity[e] - if e / n == e % n { 1.0 } else { 0.0 }).abs() < 1e-8), "{n}");
        }
        assert!(!invert(&mut [1.0, 2.0, 2.0, 4.0], 2));
    }
}
