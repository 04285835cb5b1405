//! affine_grid: sampling positions of an affine transform.

use crate::pool;
use crate::types::{Float, Number};

/// Pixel positions along an axis in [-1, 1]: between the outermost centers (align_corners) or the image's borders.
#[derive(Clone, Copy)]
pub struct Places {
    pub n: usize,
    start: f64,
    step: f64,
}

impl Places {
    pub fn new(n: usize, align_corners: bool) -> Places {
        let (start, step) = match align_corners {
            // A single pixel is at -1.
            true => (-1.0, if n > 1 { 2.0 / (n - 1) as f64 } else { 0.0 }),
            false => (-(n as f64 - 1.0) / n as f64, 2.0 / n as f64),
        };
        Places { n, start, step }
    }

    fn at(self, i: usize) -> f64 {
        self.start + i as f64 * self.step
    }
}

/// out [images, ys, xs, 2] = theta [images, 2, 3] times (x, y, 1).
pub fn affine_grid<T: Float>(theta: &[T], [ys, xs]: [Places; 2], out: &mut [T]) {
    let row = 2 * xs.n;
    if out.is_empty() {
        return;
    }
    pool::parts(out, ((1 << 13) / row).max(1) * row, |start, out| {
        for (i, out) in out.chunks_exact_mut(row).enumerate() {
            let (image, y) = ((start / row + i) / ys.n, T::from_f64(ys.at((start / row + i) % ys.n)));
            let m = &theta[image * 6..image * 6 + 6];
            for (k, o) in out.chunks_exact_mut(2).enumerate() {
                let x = T::from_f64(xs.at(k));
                o[0] = m[0] * x + m[1] * y + m[2];
                o[1] = m[3] * x + m[4] * y + m[5];
            }
        }
    });
}

/// The gradient of theta, summed in f64.
pub fn affine_grid_grad<T: Number>(d: &[T], [ys, xs]: [Places; 2], dtheta: &mut [T]) {
    let grid = 2 * ys.n * xs.n;
    pool::parts(dtheta, 6, |start, out| {
        let d = &d[start / 6 * grid..][..grid];
        let mut sums = [0.0f64; 6];
        for (i, row) in d.chunks_exact((2 * xs.n).max(1)).enumerate() {
            for (j, d) in row.chunks_exact(2).enumerate() {
                let place = [xs.at(j), ys.at(i), 1.0];
                for (k, s) in sums.iter_mut().enumerate() {
                    *s += d[k / 3].to_f64() * place[k % 3];
                }
            }
        }
        out.iter_mut().zip(sums).for_each(|(o, s)| *o = T::from_f64(s));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_transformed() {
        let theta: Vec<f64> = (0..12).map(|i| (i * 7 % 5) as f64 / 4.0 - 0.5).collect();
        for align in [true, false] {
            let axes = [Places::new(3, align), Places::new(4, align)];
            let place = |n: usize, i: usize| match align {
                true => -1.0 + 2.0 * i as f64 / (n - 1) as f64,
                false => (2.0 * i as f64 + 1.0) / n as f64 - 1.0,
            };
            let mut out = vec![9.0; 2 * 12 * 2];
            affine_grid(&theta, axes, &mut out);
            let (mut dtheta, mut want) = (vec![9.0; 12], vec![0.0; 12]);
            let d: Vec<f64> = (0..48).map(|i| (i * 31 % 13) as f64 - 6.0).collect();
            affine_grid_grad(&d, axes, &mut dtheta);
            for k in 0..48 {
                let (image, y, x, row) = (k / 24, place(3, k / 8 % 3), place(4, k / 2 % 4), k % 2);
                let m = &theta[image * 6 + row * 3..][..3];
                assert!((out[k] - (m[0] * x + m[1] * y + m[2])).abs() < 1e-12);
                [x, y, 1.0].iter().enumerate().for_each(|(c, v)| want[image * 6 + row * 3 + c] += d[k] * v);
            }
            assert!(dtheta.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9));
        }
        assert_eq!(Places::new(1, true).at(0), -1.0);
        affine_grid::<f32>(&[], [Places::new(0, false), Places::new(2, true)], &mut []);
    }
}
