//! The vector product.

use crate::types::Number;

/// out = a x b along the middle axis of [outer, 3, inner]; `inner` is above 0.
pub fn cross<T: Number>(a: &[T], b: &[T], inner: usize, out: &mut [T]) {
    let slabs = a.chunks_exact(3 * inner).zip(b.chunks_exact(3 * inner));
    for (out, (a, b)) in out.chunks_exact_mut(3 * inner).zip(slabs) {
        for j in 0..3 {
            let (p, q) = ((j + 1) % 3 * inner, (j + 2) % 3 * inner);
            for (k, o) in out[j * inner..(j + 1) * inner].iter_mut().enumerate() {
                *o = a[p + k].mul(b[q + k]).sub(a[q + k].mul(b[p + k]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_perpendicular() {
        let (a, b): (Vec<i64>, Vec<i64>) = (0..24).map(|i| (i * 7919 % 23 - 11, i * 31 % 17 - 8)).unzip();
        let mut out = vec![99; 24];
        cross(&a, &b, 4, &mut out);
        for (outer, k) in (0..2).flat_map(|o| (0..4).map(move |k| (o, k))) {
            let at = |v: &[i64]| [0, 1, 2].map(|j| v[(outer * 3 + j) * 4 + k]);
            let ([x, y, z], [u, v, w]) = (at(&a), at(&b));
            assert_eq!(at(&out), [y * w - z * v, z * u - x * w, x * v - y * u]);
        }
    }
}
