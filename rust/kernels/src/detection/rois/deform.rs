//! deformable_psroi_pooling: the mean of bilinear samples in each bin of a RoI, where a bin is displaced by a learned
//! part of the RoI's size and may read its own plane.

use super::{between, floor, real, round, Bins, Feature, Line, Pooling, RoiGrid};
use crate::detection::boxes::{least, most};
use crate::pool::{self, Shared};
use crate::types::Float;
use std::ops::Range;

/// How RoIs are divided, displaced and sampled; pairs are (height, width).
#[derive(Clone, Copy)]
pub struct DeformableRois {
    pub grid: RoiGrid,
    /// Groups of planes that the bins of a RoI read.
    pub groups: [usize; 2],
    /// Parts of a RoI with a displacement each.
    pub parts: [usize; 2],
    /// Samples of a bin along each axis.
    pub samples: usize,
    /// The factor of displacements.
    pub std: f32,
}

/// A RoI along one axis.
struct Side<R> {
    start: R,
    length: R,
    bin: R,
    size: usize,
}

impl<R: Float> Side<R> {
    fn new(a: &DeformableRois, from: R, to: R, pooled: usize, size: usize) -> Side<R> {
        let (scale, half) = (real::<R>(a.grid.scale as f64), real::<R>(0.5));
        let start = round(from) * scale - half;
        let end = real::<R>(round(to).to_f64() + 1.0) * scale - half;
        let length = most(end - start, real(0.1));
        Side { start, length, bin: length / real(pooled as f64), size }
    }

    /// The samples of a displaced bin within the map.
    fn places<'a>(&'a self, a: &'a DeformableRois, bin: usize, moved: R) -> impl Iterator<Item = R> + 'a {
        let begin = real::<R>(bin as f64) * self.bin + self.start + moved * self.length;
        let step = self.bin / real(a.samples as f64);
        let (low, high) = (real::<R>(-0.5), real::<R>(self.size as f64 - 0.5));
        (0..a.samples).filter_map(move |i| {
            let place = begin + real::<R>(i as f64) * step;
            let last = real::<R>(self.size as f64 - 1.0);
            (!(place < low || place > high)).then(|| least(most(place, R::ZERO), last))
        })
    }

    /// The weights of a bin's samples, and the number of samples.
    fn weights(&self, a: &DeformableRois, bin: usize, moved: R, to: &mut Line<R>) -> usize {
        let mut count = 0;
        for place in self.places(a, bin, moved) {
            count += 1;
            let Some((low, high, part)) = between(place, self.size) else { continue };
            to.add(low, R::ONE - part);
            if part != R::ZERO {
                to.add(high, part);
            }
        }
        count
    }

    /// Derivatives of the weights by the displacement.
    fn changes(&self, a: &DeformableRois, bin: usize, moved: R, to: &mut Line<R>) {
        for place in self.places(a, bin, moved) {
            let Some((low, high, part)) = between(place, self.size) else { continue };
            if part != R::ZERO {
                to.add(low, R::ZERO - R::ONE);
                to.add(high, R::ONE);
            }
        }
    }
}

/// Feature maps, RoIs and displacements of a call.
pub struct DeformedBins<'a, T> {
    pub a: &'a DeformableRois,
    pub p: &'a Pooling,
    pub rois: &'a [T],
    /// [RoIs, classes, 2 (x, y), rows, columns of parts]; `None`: bins are not displaced.
    pub trans: Option<&'a [T]>,
    pub classes: usize,
}

impl<T: Feature<W = T> + Float> DeformedBins<'_, T> {
    fn sides(&self, roi: usize) -> (Side<T>, Side<T>) {
        let (a, r) = (self.a, &self.rois[roi * 4..][..4]);
        let down = Side::new(a, r[1], r[3], a.grid.rows, self.p.size.0);
        (down, Side::new(a, r[0], r[2], a.grid.cols, self.p.size.1))
    }

    /// Offsets of a bin's displacements along (height, width).
    fn entries(&self, roi: usize, class: usize, (ph, pw): (usize, usize)) -> (usize, usize) {
        let (a, [height, width]) = (self.a, self.a.parts);
        let part = |p: usize, pooled: usize, parts: usize| {
            let at = T::from_f64(p as f64) / T::from_f64(pooled as f64) * T::from_f64(parts as f64);
            (floor(at).max(0) as usize).min(parts - 1)
        };
        let (row, col) = (part(ph, a.grid.rows, height), part(pw, a.grid.cols, width));
        let of = |axis: usize| (((roi * self.classes + class) * 2 + axis) * height + row) * width + col;
        (of(1), of(0))
    }

    fn moved(&self, at: usize) -> T {
        self.trans.map_or(T::ZERO, |trans| trans[at] * T::from_f64(self.a.std as f64))
    }

    fn each_bin(&self, mut f: impl FnMut((usize, usize))) {
        for ph in 0..self.a.grid.rows {
            (0..self.a.grid.cols).for_each(|pw| f((ph, pw)));
        }
    }

    /// The plane of a channel's group that a bin reads.
    fn plane(&self, (ph, pw): (usize, usize)) -> usize {
        let group = |p: usize, groups: usize, pooled: usize| {
            let at = T::from_f64(p as f64) * T::from_f64(groups as f64) / T::from_f64(pooled as f64);
            floor(at).clamp(0, groups as i64 - 1) as usize
        };
        let g = self.a.groups;
        group(ph, g[0], self.a.grid.rows) * g[1] + group(pw, g[1], self.a.grid.cols)
    }

    /// The bins of a RoI for the channels of a class.
    pub fn bins(&self, roi: usize, class: usize, to: &mut Bins<T>) {
        let (down, across) = self.sides(roi);
        self.each_bin(|bin| {
            let (y, x) = self.entries(roi, class, bin);
            let (mut tall, mut wide) = (0, 0);
            let rows = to.line(|l| tall = down.weights(self.a, bin.0, self.moved(y), l));
            let cols = to.line(|l| wide = across.weights(self.a, bin.1, self.moved(x), l));
            to.push(self.plane(bin), rows, cols, T::from_f64((tall * wide) as f64));
        });
    }

    /// Writes the number of samples of each bin.
    pub fn counts(&self, count: &mut [T]) {
        pool::parts(count, (self.p.channels * self.p.bins).max(1), |at, count| {
            let mut bins = Bins::default();
            let roi = at / (self.p.channels * self.p.bins);
            for (c, count) in count.chunks_exact_mut(self.p.bins).enumerate() {
                if c % self.p.alike == 0 {
                    bins.clear();
                    self.bins(roi, c / self.p.alike, &mut bins);
                }
                bins.divisors().zip(count).for_each(|(d, to)| *to = d);
            }
        });
    }

    /// The gradient of the displacements.
    pub fn of_trans(&self, x: &[T], dout: &[T], dtrans: &mut [T]) {
        let (p, area) = (self.p, self.p.size.0 * self.p.size.1);
        let image_of = p.image_of_rois();
        let each = self.classes * 2 * self.a.parts[0] * self.a.parts[1];
        dtrans.fill(T::ZERO);
        let shared = Shared::new(dtrans);
        pool::chunks(image_of.len(), |roi| {
            // SAFETY: RoIs have disjoint displacements, and `dtrans` outlives all chunks.
            let to = unsafe { shared.part(roi * each..(roi + 1) * each) };
            let (down, across) = self.sides(roi);
            let std = T::from_f64(self.a.std as f64);
            let mut lines = Bins::default();
            for class in 0..self.classes {
                let mut index = 0;
                self.each_bin(|bin| {
                    lines.clear();
                    let (y, x_at) = self.entries(roi, class, bin);
                    let (my, mx) = (self.moved(y), self.moved(x_at));
                    let (mut tall, mut wide) = (0, 0);
                    let rows = lines.line(|l| tall = down.weights(self.a, bin.0, my, l));
                    let cols = lines.line(|l| wide = across.weights(self.a, bin.1, mx, l));
                    let by_row = lines.line(|l| down.changes(self.a, bin.0, my, l));
                    let by_col = lines.line(|l| across.changes(self.a, bin.1, mx, l));
                    let at = index;
                    index += 1;
                    if tall * wide == 0 {
                        return;
                    }
                    let count = T::from_f64((tall * wide) as f64);
                    for c in class * p.alike..((class + 1) * p.alike).min(p.channels) {
                        let plane = (image_of[roi] * p.planes + c * p.reads + self.plane(bin)) * area;
                        let x = &x[plane..][..area];
                        let d = dout[(roi * p.channels + c) * p.bins + at] / count * std;
                        let along = |rows: &Range<usize>, cols: &Range<usize>, length: T| {
                            lines.sum(x, p.size.1, rows.clone(), cols.clone()) * d * length
                        };
                        to[y - roi * each] += along(&by_row, &cols, down.length);
                        to[x_at - roi * each] += along(&rows, &by_col, across.length);
                    }
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_adjoint, values};
    use super::*;

    const GEOMETRY: DeformableRois = DeformableRois {
        grid: RoiGrid { scale: 0.5, rows: 2, cols: 3 },
        groups: [2, 2],
        parts: [2, 3],
        samples: 3,
        std: 0.1,
    };
    const ROIS: [f64; 12] = [0.0, 0.0, 9.0, 7.0, -6.0, 1.0, 11.0, 5.0, 2.0, 2.0, 7.0, 6.0];

    /// Two classes of two channels that read four planes each.
    fn pooling() -> Pooling {
        Pooling { channels: 4, reads: 4, alike: 2, ..Pooling::new(vec![0..2, 2..3], 16, (5, 7), 6) }
    }

    /// Displacements that keep samples off integers, where the weights have kinks.
    fn displacements() -> Vec<f64> {
        values(3 * 2 * 2 * 6, 2).into_iter().map(|v| v * 0.9371).collect()
    }

    fn pooled(p: &Pooling, x: &[f64], trans: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let call = DeformedBins { a: &GEOMETRY, p, rois: &ROIS, trans: Some(trans), classes: 2 };
        let (mut out, mut counts) = (vec![9.0; 3 * 4 * 6], vec![9.0; 3 * 4 * 6]);
        p.forward(x, &mut out, |n, class, to| call.bins(n, class, to));
        call.counts(&mut counts);
        (out, counts)
    }

    #[test]
    fn bins_are_means_of_displaced_samples() {
        let (p, x, trans) = (pooling(), values(2 * 16 * 35, 1), displacements());
        let (out, counts) = pooled(&p, &x, &trans);
        for k in 0..out.len() {
            let (roi, c, r, q) = (k / 24, k / 6 % 4, k / 3 % 2, k % 3);
            let plane = (p.image_of_rois()[roi] * 16 + c * 4 + r * 2 + (q * 2 / 3)) * 35;
            let side = |axis: usize, at: usize, bins: f64, size: usize| {
                let start = ROIS[roi * 4 + axis].round() * 0.5 - 0.5;
                let length = ((ROIS[roi * 4 + axis + 2].round() + 1.0) * 0.5 - 0.5 - start).max(0.1);
                let moved = trans[((roi * 2 + c / 2) * 2 + axis) * 6 + r * 3 + q] * f64::from(0.1f32) * length;
                (0..3)
                    .map(|i| start + moved + (at as f64 + f64::from(i) / 3.0) * length / bins)
                    .filter(|v| (-0.5..=size as f64 - 0.5).contains(v))
                    .map(|v| v.clamp(0.0, size as f64 - 1.0))
                    .collect::<Vec<f64>>()
            };
            let (ys, xs) = (side(1, r, 2.0, 5), side(0, q, 3.0, 7));
            assert_eq!(counts[k], (ys.len() * xs.len()) as f64, "{k}");
            let mut sum = 0.0;
            for (y, u) in ys.iter().flat_map(|&y| xs.iter().map(move |&u| (y, u))) {
                let hat = |a: f64| (1.0 - a.abs()).max(0.0);
                sum += (0..35).map(|i| hat(y - (i / 7) as f64) * hat(u - (i % 7) as f64) * x[plane + i]).sum::<f64>();
            }
            let want = if counts[k] == 0.0 { 0.0 } else { sum / counts[k] };
            assert!((out[k] - want).abs() < 1e-9, "{k} {} {want}", out[k]);
        }
        let call = DeformedBins { a: &GEOMETRY, p: &p, rois: &ROIS, trans: Some(&trans), classes: 2 };
        assert_adjoint(&p, 3, |n, class, to| call.bins(n, class, to));
        let still = DeformedBins { trans: None, ..call };
        assert_adjoint(&p, 3, |n, class, to| still.bins(n, class, to));
    }

    #[test]
    fn displacements_have_the_numeric_derivative() {
        let (p, x, trans, d) = (pooling(), values(2 * 16 * 35, 1), displacements(), values(72, 3));
        let call = DeformedBins { a: &GEOMETRY, p: &p, rois: &ROIS, trans: Some(&trans), classes: 2 };
        let mut got = vec![9.0; trans.len()];
        call.of_trans(&x, &d, &mut got);
        for (k, got) in got.iter().enumerate() {
            let at = |by: f64| {
                let mut trans = trans.clone();
                trans[k] += by;
                pooled(&p, &x, &trans).0.iter().zip(&d).map(|(o, d)| o * d).sum::<f64>()
            };
            let want = (at(1e-7) - at(-1e-7)) / 2e-7;
            assert!((got - want).abs() < 1e-5, "{k} {got} {want}");
        }
    }
}
