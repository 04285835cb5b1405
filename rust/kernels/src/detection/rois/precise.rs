//! prroi_pool: the mean of the interpolated map over each bin of a RoI, an integral that is differentiable by the RoI's
//! coordinates, too. Integers are averaged in f64 and truncated once.

use super::{ceil, floor, real, Bins, Feature, Line, Pooling, RoiGrid};
use crate::detection::boxes::{least, most};
use crate::pool;
use crate::types::{Float, Number};
use std::ops::Range;

/// A RoI along one axis.
struct Side<R> {
    start: R,
    bin: R,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new<T: Feature<W = R>>(grid: &RoiGrid, (from, to): (T, T), pooled: usize, size: usize) -> Side<R> {
        let scale = real(grid.scale as f64);
        let start = from.wide() * scale;
        let length = most(to.wide() * scale - start, R::ZERO);
        Side { start, bin: length / real(pooled as f64), size }
    }

    fn ends(&self, bin: usize) -> (R, R) {
        let from = real::<R>(bin as f64) * self.bin + self.start;
        (from, from + self.bin)
    }

    /// Integrals of the elements' hat functions over a bin.
    fn weights(&self, bin: usize, to: &mut Line<R>) {
        let (from, end) = self.ends(bin);
        let half: R = real(0.5);
        let hat = |a: R, b: R| b - half * b * b - a + half * a * a;
        let last = self.size as i64 - 1;
        for cell in floor(from).max(-1)..ceil(end).min(last + 1) {
            let low: R = real(cell as f64);
            let (a, b) = (most(from, low) - low, least(end, low + R::ONE) - low);
            if cell >= 0 {
                to.add(cell as usize, hat(a, b));
            }
            if cell < last {
                to.add((cell + 1) as usize, hat(R::ONE - b, R::ONE - a));
            }
        }
    }

    /// Interpolation weights at a coordinate.
    fn at(&self, place: R, to: &mut Line<R>) {
        let low = floor(place);
        let part = place - real(low as f64);
        for (at, weight) in [(low, R::ONE - part), (low.saturating_add(1), part)] {
            if (0..self.size as i64).contains(&at) {
                to.push(at as usize, weight);
            }
        }
    }
}

fn sides<T: Feature>(grid: &RoiGrid, roi: &[T], (height, width): (usize, usize)) -> (Side<T::W>, Side<T::W>) {
    let down = Side::new(grid, (roi[1], roi[3]), grid.rows, height);
    (down, Side::new(grid, (roi[0], roi[2]), grid.cols, width))
}

/// The bins of a RoI [xmin, ymin, xmax, ymax] on a map of `size` (height, width).
pub fn bins<T: Feature>(grid: &RoiGrid, roi: &[T], size: (usize, usize), to: &mut Bins<T::W>) {
    let (down, across) = sides(grid, roi, size);
    let area = most(T::W::ZERO, across.bin * down.bin);
    let cols: Vec<_> = (0..grid.cols).map(|p| to.line(|l| across.weights(p, l))).collect();
    for p in 0..grid.rows {
        let rows = to.line(|l| down.weights(p, l));
        cols.iter().for_each(|cols| to.push(0, rows.clone(), cols.clone(), area));
    }
}

/// The gradient of a RoI's coordinates. The derivative of a bin's mean by a side is the integral along that side minus
/// the mean along it; a side's coordinate is a mixture of the RoI's two ends.
fn of_roi<T: Feature>((p, grid): (&Pooling, &RoiGrid), roi: &[T], (x, out, dout): (&[T], &[T], &[T]), to: &mut [T]) {
    let (down, across) = sides(grid, roi, p.size);
    let area = across.bin * down.bin;
    let (plane, width) = (p.size.0 * p.size.1, p.size.1);
    let mut sums = [T::W::ZERO; 4];
    if area > T::W::ZERO {
        let scale = real::<T::W>(grid.scale as f64) / area;
        let part = |k: usize, of: usize| real::<T::W>(k as f64 / of as f64);
        let mut lines = Bins::default();
        for ph in 0..grid.rows {
            for pw in 0..grid.cols {
                lines.clear();
                let (rows, cols) = (lines.line(|l| down.weights(ph, l)), lines.line(|l| across.weights(pw, l)));
                let (top, bottom) = down.ends(ph);
                let (left, right) = across.ends(pw);
                let [top, bottom] = [top, bottom].map(|y| lines.line(|l| down.at(y, l)));
                let [left, right] = [left, right].map(|x| lines.line(|l| across.at(x, l)));
                for c in 0..p.channels {
                    let at = (c * grid.rows + ph) * grid.cols + pw;
                    let (mean, d, x) = (out[at].wide(), dout[at].wide() * scale, &x[c * plane..][..plane]);
                    let along = |rows: &Range<usize>, cols: &Range<usize>, length: T::W| {
                        (lines.sum(x, width, rows.clone(), cols.clone()) - length * mean) * d
                    };
                    let x1 = T::W::ZERO - along(&rows, &left, down.bin);
                    let x2 = along(&rows, &right, down.bin);
                    let y1 = T::W::ZERO - along(&top, &cols, across.bin);
                    let y2 = along(&bottom, &cols, across.bin);
                    for (k, low, high, (from, to)) in [
                        (0, x1, x2, (part(pw, grid.cols), part(pw + 1, grid.cols))),
                        (1, y1, y2, (part(ph, grid.rows), part(ph + 1, grid.rows))),
                    ] {
                        sums[k] += low * (T::W::ONE - from) + high * (T::W::ONE - to);
                        sums[k + 2] += high * to + low * from;
                    }
                }
            }
        }
    }
    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
}

/// The gradient of all RoIs' coordinates, from the maps `x`, the means `out` and their gradient `dout`.
pub fn of_rois<T: Feature>(p: &Pooling, grid: &RoiGrid, rois: &[T], (x, out, dout): (&[T], &[T], &[T]), to: &mut [T]) {
    let (map, each) = (p.planes * p.size.0 * p.size.1, p.channels * p.bins);
    let image_of = p.image_of_rois();
    pool::parts(to, 4, |at, to| {
        let n = at / 4;
        let x = &x[image_of[n] * map..][..map];
        of_roi((p, grid), &rois[at..][..4], (x, &out[n * each..][..each], &dout[n * each..][..each]), to);
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_adjoint, pooling, values};
    use super::*;

    const ROIS: [f64; 20] =
        [0.3, 0.5, 9.0, 7.2, -6.0, 1.5, 30.0, 4.1, 2.1, 2.2, 5.3, 6.1, 4.5, 3.0, 8.8, 9.1, 1.0, 1.0, 12.7, 6.5];
    const GRID: RoiGrid = RoiGrid { scale: 0.5, rows: 2, cols: 3 };

    fn pooled(p: &Pooling, x: &[f64], rois: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; 5 * 3 * 6];
        p.forward(x, &mut out, |n, _, to| bins(&GRID, &rois[n * 4..][..4], p.size, to));
        out
    }

    #[test]
    fn bins_are_integrals_of_the_interpolated_map() {
        let (p, x) = (pooling(6), values(3 * 3 * 35, 6));
        let out = pooled(&p, &x, &ROIS);
        for (k, got) in out.iter().enumerate() {
            let (roi, c, bin) = (k / 18, k / 6 % 3, k % 6);
            let plane = &x[(p.image_of_rois()[roi] * 3 + c) * 35..][..35];
            let side = |k: usize, bins: f64| {
                let from = ROIS[roi * 4 + k] * 0.5;
                (from, (ROIS[roi * 4 + k + 2] * 0.5 - from) / bins)
            };
            let ((y, tall), (left, wide)) = (side(1, 2.0), side(0, 3.0));
            // Hats of the elements, summed at the middles of a fine grid.
            let (n, mut sum) = (120, 0.0);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let v = y + ((bin / 3) as f64 + (i as f64 + 0.5) / n as f64) * tall;
                let u = left + ((bin % 3) as f64 + (j as f64 + 0.5) / n as f64) * wide;
                for (r, c) in (0..5).flat_map(|r| (0..7).map(move |c| (r, c))) {
                    let hat = |a: f64| (1.0 - a.abs()).max(0.0);
                    sum += hat(v - r as f64) * hat(u - c as f64) * plane[r * 7 + c];
                }
            }
            assert!((got - sum / (n * n) as f64).abs() < 3e-3, "{k} {got} {}", sum / (n * n) as f64);
        }
        assert_adjoint(&p, 5, |n, _, to| bins(&GRID, &ROIS[n * 4..][..4], p.size, to));
    }

    #[test]
    fn coordinates_have_the_numeric_derivative() {
        let (p, x, d) = (pooling(6), values(3 * 3 * 35, 6), values(90, 7));
        let mut got = vec![9.0; 20];
        of_rois(&p, &GRID, &ROIS, (&x, &pooled(&p, &x, &ROIS), &d), &mut got);
        for (k, got) in got.iter().enumerate() {
            let at = |by: f64| {
                let mut rois = ROIS;
                rois[k] += by;
                pooled(&p, &x, &rois).iter().zip(&d).map(|(o, d)| o * d).sum::<f64>()
            };
            let want = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((got - want).abs() < 1e-5, "{k} {got} {want}");
        }
    }
}
