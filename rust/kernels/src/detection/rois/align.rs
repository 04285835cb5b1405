//! roi_align: the mean of bilinear samples in each bin of a RoI. Samples of a bin form a grid, so row and column
//! weights are computed separately.

use super::{between, ceil, real, Bins, Feature, Line, RoiGrid};
use crate::detection::boxes::most;
use crate::types::Float;
use std::ops::Range;

/// How RoIs are sampled.
#[derive(Clone, Copy)]
pub struct AlignedRois {
    pub grid: RoiGrid,
    /// Samples of a bin along each axis; if not positive, as many as the bin has elements.
    pub samples: i32,
    /// Coordinates are shifted by half an element, and RoIs may be smaller than an element.
    pub aligned: bool,
}

/// A RoI along one axis.
struct Side<R> {
    start: R,
    bin: R,
    samples: i64,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new<T: Feature<W = R>>(a: &AlignedRois, (from, to): (T, T), pooled: usize, size: usize) -> Side<R> {
        let cut = |v: R| if T::WHOLE { real(v.to_f64().trunc()) } else { v };
        let (scale, offset) = (real::<R>(a.grid.scale as f64), real(if a.aligned { 0.5 } else { 0.0 }));
        let start = cut(from.wide() * scale - cut(offset));
        let mut length = cut(to.wide() * scale - cut(offset)) - start;
        if !a.aligned {
            length = most(length, R::ONE);
        }
        let bin = cut(length / real(pooled as f64));
        let samples = if a.samples > 0 { a.samples as i64 } else { ceil(bin) };
        Side { start, bin, samples, size }
    }

    /// The range of samples of a bin that can lie within the map; the others count with weight 0.
    fn near(&self, begin: R) -> Range<i64> {
        let all = 0..self.samples.max(0);
        let step = self.bin.to_f64() / self.samples as f64;
        if step.is_nan() || step <= 0.0 {
            return all;
        }
        let sample = |place: f64| ((place - begin.to_f64()) / step) as i64;
        sample(-1.0).saturating_sub(3).clamp(0, all.end)..sample(self.size as f64).saturating_add(3).clamp(0, all.end)
    }

    fn weights<T: Feature>(&self, bin: usize, to: &mut Line<R>) {
        let cut = |v: R| if T::WHOLE { real(v.to_f64().trunc()) } else { v };
        let begin = self.start + real::<R>(bin as f64) * self.bin;
        for i in self.near(begin) {
            let part = cut(real(i as f64 + 0.5)) * self.bin / real(self.samples as f64);
            let place = begin + cut(part);
            if place < real(-1.0) || place > real(self.size as f64) {
                continue;
            }
            let Some((low, high, part)) = between(place, self.size) else { continue };
            to.add(low, R::ONE - part);
            to.add(high, part);
        }
    }
}

/// The bins of a RoI [xmin, ymin, xmax, ymax] on a map of `(height, width)`.
pub fn bins<T: Feature>(a: &AlignedRois, roi: &[T], (height, width): (usize, usize), to: &mut Bins<T::W>) {
    let down = Side::new(a, (roi[1], roi[3]), a.grid.rows, height);
    let across = Side::new(a, (roi[0], roi[2]), a.grid.cols, width);
    let cols: Vec<_> = (0..a.grid.cols).map(|p| to.line(|l| across.weights::<T>(p, l))).collect();
    let samples = real(down.samples as f64 * across.samples as f64);
    for p in 0..a.grid.rows {
        let rows = to.line(|l| down.weights::<T>(p, l));
        cols.iter().for_each(|cols| to.push(0, rows.clone(), cols.clone(), samples));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_adjoint, pooling, values};
    use super::*;

    /// A bilinear sample; 0 beyond an element outside the map.
    fn sample(x: &[f64], (h, w): (usize, usize), y: f64, x_at: f64) -> f64 {
        if y < -1.0 || y > h as f64 || x_at < -1.0 || x_at > w as f64 {
            return 0.0;
        }
        let edge = |v: f64, n: usize| v.max(0.0).min(n as f64 - 1.0);
        let (y, x_at) = (edge(y, h), edge(x_at, w));
        let (r, c) = (y as usize, x_at as usize);
        let (dy, dx) = (y - r as f64, x_at - c as f64);
        let at = |r: usize, c: usize| x[r.min(h - 1) * w + c.min(w - 1)];
        (at(r, c) * (1.0 - dx) + at(r, c + 1) * dx) * (1.0 - dy)
            + (at(r + 1, c) * (1.0 - dx) + at(r + 1, c + 1) * dx) * dy
    }

    #[test]
    fn bins_are_means_of_bilinear_samples() {
        let rois =
            [0.0, 0.0, 9.0, 7.0, -6.0, 1.5, 30.0, 4.0, 2.0, 2.0, 2.0, 2.0, 4.5, 3.0, 3.0, 9.0, 1.0, 1.0, 12.0, 6.5];
        for (samples, aligned) in [(2, false), (-1, false), (3, true)] {
            let a = AlignedRois { grid: RoiGrid { scale: 0.5, rows: 2, cols: 3 }, samples, aligned };
            let (p, x) = (pooling(6), values(3 * 3 * 35, 3));
            let mut out = vec![0.0; 5 * 3 * 6];
            let fill = |n: usize, _: usize, to: &mut Bins<f64>| bins(&a, &rois[n * 4..][..4], p.size, to);
            p.forward(&x, &mut out, fill);
            for (roi, image) in p.image_of_rois().into_iter().enumerate() {
                let side = |k: usize, bins: usize| {
                    let shift = if aligned { 0.5 } else { 0.0 };
                    let start = rois[roi * 4 + k] * 0.5 - shift;
                    let length: f64 = rois[roi * 4 + k + 2] * 0.5 - shift - start;
                    let bin = if aligned { length } else { length.max(1.0) } / bins as f64;
                    (start, bin, if samples > 0 { samples } else { bin.ceil() as i32 })
                };
                let ((y, tall, m), (x_at, wide, n)) = (side(1, 2), side(0, 3));
                for (k, got) in out[roi * 18..][..18].iter().enumerate() {
                    let (c, r, q) = (k / 6, (k / 3 % 2) as f64, (k % 3) as f64);
                    let plane = &x[(image * 3 + c) * 35..][..35];
                    let mut sum = 0.0;
                    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                        let along = |start: f64, bin: f64, at: f64, i: i32, n: i32| {
                            start + (at + (i as f64 + 0.5) / n as f64) * bin
                        };
                        sum += sample(plane, p.size, along(y, tall, r, i, m), along(x_at, wide, q, j, n));
                    }
                    let want = if m * n == 0 { 0.0 } else { sum / f64::from(m * n) };
                    assert!((got - want).abs() < 1e-9, "{roi} {k} {got} {want}");
                }
            }
            assert_adjoint(&p, 5, fill);
        }
    }
}
