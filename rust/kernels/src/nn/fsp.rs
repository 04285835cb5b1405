//! fsp (flow of the solution procedure): channel-wise inner products of two feature maps, averaged over positions.

use crate::gemm::{gemm, Epilogue, Gemm, View};
use crate::types::Float;

/// out [images, m, n] = the inner products of the channels of x [images, m, places] and y [images, n, places], divided
/// by `places`.
pub fn fsp<T: Float + Gemm>(x: &[T], y: &[T], images: usize, places: usize, [m, n]: [usize; 2], out: &mut [T]) {
    let share = T::ONE / T::from_f64(places.max(1) as f64);
    for i in 0..images {
        let a = View::rows(&x[i * m * places..][..m * places], places, false);
        let b = View::rows(&y[i * n * places..][..n * places], places, true);
        let to = &mut out[i * m * n..][..m * n];
        gemm((m, n, places), share, a, b, T::ZERO, to, n, Epilogue::NONE);
    }
}

/// The gradient of x (of y if `transposed`), from that of out and the other input.
pub fn fsp_grad<T: Float + Gemm>(
    d: &[T],
    other: &[T],
    images: usize,
    places: usize,
    [m, n]: [usize; 2],
    transposed: bool,
    out: &mut [T],
) {
    let share = T::ONE / T::from_f64(places.max(1) as f64);
    let (rows, inner) = if transposed { (n, m) } else { (m, n) };
    for i in 0..images {
        let a = View::rows(&d[i * m * n..][..m * n], n, transposed);
        let b = View::rows(&other[i * inner * places..][..inner * places], places, false);
        let to = &mut out[i * rows * places..][..rows * places];
        gemm((rows, places, inner), share, a, b, T::ZERO, to, places, Epilogue::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_channels_are_averaged() {
        let values = |n: usize, seed: usize| (0..n).map(|i| ((i * 7919 + seed) % 11) as f64 - 5.0).collect::<Vec<_>>();
        let (x, y, d) = (values(2 * 2 * 4, 1), values(2 * 3 * 4, 2), values(2 * 6, 3));
        let (mut out, mut dx, mut dy) = (vec![9.0; 12], vec![9.0; 16], vec![9.0; 24]);
        fsp(&x, &y, 2, 4, [2, 3], &mut out);
        fsp_grad(&d, &y, 2, 4, [2, 3], false, &mut dx);
        fsp_grad(&d, &x, 2, 4, [2, 3], true, &mut dy);
        let [mut want, mut wx, mut wy] = [vec![0.0; 12], vec![0.0; 16], vec![0.0; 24]];
        for (k, p) in (0..12).flat_map(|k| (0..4).map(move |p| (k, p))) {
            let (a, b) = ((k / 6 * 2 + k / 3 % 2) * 4 + p, (k / 6 * 3 + k % 3) * 4 + p);
            want[k] += x[a] * y[b] / 4.0;
            wx[a] += d[k] * y[b] / 4.0;
            wy[b] += d[k] * x[a] / 4.0;
        }
        // Quarters of integers: sums are exact.
        assert_eq!((out, dx, dy), (want, wx, wy));
    }
}
