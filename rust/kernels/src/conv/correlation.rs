//! correlation: similarity of the patch around a position in one feature map and patches around displaced positions in
//! another.

use crate::pool;
use crate::types::Float;

/// The sizes of a correlation.
#[derive(Clone, Copy)]
pub struct Correlation {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    /// Output rows and columns.
    pub rows: usize,
    pub columns: usize,
    pub pad: i64,
    /// The side of a patch.
    pub kernel: i64,
    pub max_displacement: i64,
    /// Distances of output positions, and of displacements.
    pub stride: i64,
    pub step: i64,
}

impl Correlation {
    /// Number of displacements to each side.
    pub fn radius(&self) -> i64 {
        self.max_displacement / self.step
    }

    fn displacements(&self) -> usize {
        ((2 * self.radius() + 1) * (2 * self.radius() + 1)) as usize
    }

    /// Displacement number `k`, in rows and columns.
    fn displacement(&self, k: usize) -> (i64, i64) {
        let (side, step) = (2 * self.radius() + 1, self.step);
        ((k as i64 / side - self.radius()) * step, (k as i64 % side - self.radius()) * step)
    }

    /// Calls `each(column, first, second)` for the pairs of elements (of a plane of each input) that contribute to an
    /// output row at one displacement. Padding is 0 and skipped.
    fn pairs(&self, k: usize, row: usize, mut each: impl FnMut(usize, usize, usize)) {
        let (down, right) = self.displacement(k);
        let start = |i: usize| i as i64 * self.stride + self.max_displacement - self.pad;
        let inside = |i: i64, size: usize| (0..size as i64).contains(&i);
        let reach = (self.kernel - 1) / 2;
        // Clip the patch to the image.
        let top = start(row);
        for j in (-reach).max(-top)..=reach.min(self.height as i64 - 1 - top) {
            let y = top + j;
            if !inside(y + down, self.height) {
                continue;
            }
            let (left, right_most) = (start(0), start(self.columns - 1));
            for i in (-reach).max(-right_most)..=reach.min(self.width as i64 - 1 - left) {
                for column in 0..self.columns {
                    let x = start(column) + i;
                    if inside(x, self.width) && inside(x + right, self.width) {
                        let first = y as usize * self.width + x as usize;
                        each(column, first, (y + down) as usize * self.width + (x + right) as usize);
                    }
                }
            }
        }
    }

    /// The divisor of the sums.
    fn elements(&self) -> f64 {
        self.kernel as f64 * self.kernel as f64 * self.channels as f64
    }

    /// out [images, displacements, rows, columns]
    pub fn forward<T: Float>(&self, x: &[T], y: &[T], out: &mut [T]) {
        let (plane, count) = (self.height * self.width, self.displacements());
        let by = T::from_f64(self.elements());
        let mut rows: Vec<&mut [T]> = out.chunks_exact_mut(self.columns.max(1)).collect();
        pool::parts(&mut rows, 1, |at, part| {
            for (n, to) in part.iter_mut().enumerate() {
                let line = at + n;
                let (row, k, image) = (line % self.rows, line / self.rows % count, line / self.rows / count);
                to.fill(T::ZERO);
                for channel in image * self.channels..(image + 1) * self.channels {
                    let (x, y) = (&x[channel * plane..][..plane], &y[channel * plane..][..plane]);
                    self.pairs(k, row, |column, first, second| to[column] += x[first] * y[second]);
                }
                to.iter_mut().for_each(|v| *v = *v / by);
            }
        });
    }

    /// The gradient of the first input (`first`), of which `other` is the second one, or the reverse.
    pub fn backward<T: Float>(&self, d: &[T], other: &[T], first: bool, grad: &mut [T]) {
        let (plane, count) = (self.height * self.width, self.displacements());
        if plane == 0 {
            return;
        }
        let by = T::from_f64(self.elements());
        let mut planes: Vec<&mut [T]> = grad.chunks_exact_mut(plane).collect();
        pool::parts(&mut planes, 1, |at, part| {
            for (n, to) in part.iter_mut().enumerate() {
                let (channel, image) = (at + n, (at + n) / self.channels);
                let other = &other[channel * plane..][..plane];
                to.fill(T::ZERO);
                for line in 0..count * self.rows {
                    let d = &d[(image * count * self.rows + line) * self.columns..][..self.columns];
                    self.pairs(line / self.rows, line % self.rows, |column, of_first, of_second| {
                        let (own, of) = if first { (of_first, of_second) } else { (of_second, of_first) };
                        to[own] += d[column] * other[of];
                    });
                }
                to.iter_mut().for_each(|v| *v = *v / by);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 31) % 41) as f64 / 20.0 - 1.0).collect()
    }

    #[test]
    fn patches_are_compared_at_every_displacement() {
        let c = Correlation {
            channels: 2,
            height: 5,
            width: 6,
            rows: 2,
            columns: 3,
            pad: 2,
            kernel: 3,
            max_displacement: 2,
            stride: 2,
            step: 2,
        };
        let (x, y) = (values(2 * 2 * 30, 1), values(2 * 2 * 30, 2));
        let mut out = vec![9.0; 2 * 9 * 6];
        c.forward(&x, &y, &mut out);
        for (k, got) in out.iter().enumerate() {
            let (image, shift, row, column) = (k / 54, (k / 6 % 9) as i64, (k / 3 % 2) as i64, (k % 3) as i64);
            let at = |v: &[f64], channel: usize, r: i64, c: i64| {
                let inside = (0..5).contains(&r) && (0..6).contains(&c);
                if inside {
                    v[(image * 2 + channel) * 30 + (r * 6 + c) as usize]
                } else {
                    0.0
                }
            };
            let (dr, dc) = ((shift / 3 - 1) * 2, (shift % 3 - 1) * 2);
            let mut want = 0.0;
            for (channel, i) in (0..2).flat_map(|c| (0..9).map(move |i| (c, i))) {
                let (r, c) = (row * 2 + i / 3 - 1, column * 2 + i % 3 - 1);
                want += at(&x, channel, r, c) * at(&y, channel, r + dr, c + dc) / 18.0;
            }
            assert!((got - want).abs() < 1e-12, "{k}");
        }
        // Linear in each input: gradients are adjoint.
        let (d, mut dx, mut dy) = (values(out.len(), 3), vec![9.0; x.len()], vec![9.0; y.len()]);
        c.backward(&d, &y, true, &mut dx);
        c.backward(&d, &x, false, &mut dy);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert!((dot(&out, &d) - dot(&x, &dx)).abs() < 1e-9);
        assert!((dot(&out, &d) - dot(&y, &dy)).abs() < 1e-9);
    }
}
