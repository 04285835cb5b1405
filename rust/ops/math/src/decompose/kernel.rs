//! Factors and inverses of small dense matrices, stored row by row.

use oar_kernels::gemm::{self, Gemm};
use oar_kernels::pool;
use oar_kernels::types::Number;

/// A type of these kernels.
pub trait Real: Number + Gemm {
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
}
macro_rules! real {
    ($($t:ty)*) => {$(impl Real for $t {
        fn sqrt(self) -> $t { <$t>::sqrt(self) }
        fn abs(self) -> $t { <$t>::abs(self) }
    })*};
}
real!(f32 f64);

fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::zero(), |s, (&a, &b)| s.add(a.mul(b)))
}

/// Makes of the lower triangle of `a` the L of `a = L L^T`, zeros above it; false where `a` is not positive definite.
pub fn cholesky<T: Real>(a: &mut [T], n: usize) -> bool {
    for i in 0..n {
        let (done, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..n];
        for j in 0..i {
            let of_j = &done[j * n..j * n + j + 1];
            row[j] = row[j].sub(dot(&row[..j], &of_j[..j])).div(of_j[j]);
        }
        let square = row[i].sub(dot(&row[..i], &row[..i]));
        if square <= T::zero() || square.is_nan() {
            return false;
        }
        row[i] = square.sqrt();
        row[i + 1..].fill(T::zero());
    }
    true
}

/// The other triangle: what stands at (i, j) changes places with (j, i).
pub fn transpose<T: Real>(a: &mut [T], n: usize) {
    for i in 0..n {
        for j in 0..i {
            a.swap(i * n + j, j * n + i);
        }
    }
}

/// The inverse of a lower triangle without zeros on its diagonal.
fn invert_lower<T: Real>(l: &[T], n: usize) -> Vec<T> {
    let mut inverse = vec![T::zero(); n * n];
    for i in 0..n {
        let (done, rest) = inverse.split_at_mut(i * n);
        let row = &mut rest[..n];
        for k in 0..i {
            let f = l[i * n + k];
            row[..=k].iter_mut().zip(&done[k * n..]).for_each(|(r, &d)| *r = r.sub(f.mul(d)));
        }
        let pivot = l[i * n + i];
        row[..i].iter_mut().for_each(|r| *r = r.div(pivot));
        row[i] = T::one().div(pivot);
    }
    inverse
}

/// The gradient of a symmetric matrix, given L and the gradient of L (Murray 2016, "Differentiation of the Cholesky
/// decomposition"): (S + S^T) / 2 with S = L^-T phi(L^T dL) L^-1, where phi keeps the lower triangle and half the diagonal.
pub fn cholesky_grad<T: Real>(l: &[T], dl: &[T], n: usize, da: &mut [T]) {
    let (mut phi, inverse) = (vec![T::zero(); n * n], invert_lower(l, n));
    gemm::matmul((n, n, n), l, true, dl, false, &mut phi);
    let half = T::from_f64(0.5);
    for i in 0..n {
        phi[i * n + i] = phi[i * n + i].mul(half);
        phi[i * n + i + 1..(i + 1) * n].fill(T::zero());
    }
    let mut left = vec![T::zero(); n * n];
    gemm::matmul((n, n, n), &inverse, true, &phi, false, &mut left);
    gemm::matmul((n, n, n), &left, false, &inverse, false, &mut phi);
    for i in 0..n {
        for j in 0..n {
            da[i * n + j] = phi[i * n + j].add(phi[j * n + i]).mul(half);
        }
    }
}

/// Rows of a matrix from this size on are worked on by several threads.
const LARGE: usize = 96;

/// Replaces a matrix by its inverse (Gauss and Jordan, the largest element of a column as pivot); false where it has none.
pub fn invert<T: Real>(a: &mut [T], n: usize) -> bool {
    let mut places: Vec<usize> = (0..n).collect();
    let mut pivot_row = vec![T::zero(); n];
    for k in 0..n {
        let larger = |x: usize, y: usize| if a[y * n + k].abs() > a[x * n + k].abs() { y } else { x };
        let best = (k + 1..n).fold(k, larger);
        let pivot = a[best * n + k];
        if pivot == T::zero() || pivot.is_nan() {
            return false;
        }
        if best != k {
            places.swap(k, best);
            let (upper, lower) = a.split_at_mut(best * n);
            upper[k * n..(k + 1) * n].swap_with_slice(&mut lower[..n]);
        }
        pivot_row.copy_from_slice(&a[k * n..(k + 1) * n]);
        pivot_row[k] = T::one();
        pivot_row.iter_mut().for_each(|v| *v = v.div(pivot));
        let eliminate = |start: usize, rows: &mut [T]| {
            for (i, row) in rows.chunks_exact_mut(n).enumerate() {
                if start / n + i == k {
                    row.copy_from_slice(&pivot_row);
                    continue;
                }
                let f = std::mem::replace(&mut row[k], T::zero());
                row.iter_mut().zip(&pivot_row).for_each(|(r, &p)| *r = r.sub(f.mul(p)));
            }
        };
        if n < LARGE {
            eliminate(0, a);
        } else {
            pool::parts(a, (LARGE * LARGE / n).max(8) * n, eliminate);
        }
    }
    // The inverse of the matrix whose rows were exchanged has the columns of the inverse elsewhere.
    let mut row = vec![T::zero(); n];
    for r in a.chunks_exact_mut(n.max(1)) {
        places.iter().enumerate().for_each(|(from, &to)| row[to] = r[from]);
        r.copy_from_slice(&row);
    }
    true
}
