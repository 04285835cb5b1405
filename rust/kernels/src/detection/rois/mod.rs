//! Pooling of regions of interest (RoIs) as weighted sums. A bin reads the product of weighted rows and weighted
//! columns of one plane, which covers averages, bilinear samples and integrals; its gradient scatters the same weights.

pub mod align;
pub mod deform;
pub mod fpn;
pub mod max;
pub mod precise;
pub mod psroi;
pub mod quads;

use crate::pool::{self, Shared};
use crate::shape::copy;
use crate::types::{Float, Number, Plain};
use std::ops::Range;

/// The bins of a RoI, and the scale from its coordinates to the map.
#[derive(Clone, Copy)]
pub struct RoiGrid {
    pub scale: f32,
    pub rows: usize,
    pub cols: usize,
}

/// An element type of feature maps, with the type of its coordinates and weights.
pub trait Feature: Plain {
    type W: Float;
    /// Integers: coordinates are truncated, and sums are truncated once at the end.
    const WHOLE: bool;
    fn wide(self) -> Self::W;
    fn narrow(w: Self::W) -> Self;
    fn add(&mut self, w: Self::W) {
        *self = Self::narrow(self.wide() + w);
    }
}

macro_rules! features {
    ($($t:ty, $w:ty, $whole:expr;)*) => {$(
        impl Feature for $t {
            type W = $w;
            const WHOLE: bool = $whole;
            fn wide(self) -> $w { self as $w }
            fn narrow(w: $w) -> $t { w as $t }
        }
    )*};
}
features! { f32, f32, false; f64, f64, false; i32, f64, true; i64, f64, true; }

pub fn real<R: Float>(v: f64) -> R {
    R::from_f64(v)
}
pub fn floor<R: Float>(v: R) -> i64 {
    v.to_f64().floor() as i64
}
pub fn ceil<R: Float>(v: R) -> i64 {
    v.to_f64().ceil() as i64
}
/// Rounds half away from zero.
pub fn round<R: Float>(v: R) -> R {
    real(v.to_f64().round())
}

/// The sampling weights of a RoI's bins.
#[derive(Default)]
pub struct Bins<R> {
    /// (row or column, weight).
    taps: Vec<(usize, R)>,
    bins: Vec<Bin<R>>,
}

#[derive(Clone)]
struct Bin<R> {
    /// The plane among those that an output channel reads.
    plane: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    divisor: R,
}

impl<R: Float> Bins<R> {
    pub fn clear(&mut self) {
        self.taps.clear();
        self.bins.clear();
    }
    /// Adds the taps of `fill`; returns their range.
    pub fn line(&mut self, fill: impl FnOnce(&mut Line<R>)) -> Range<usize> {
        let from = self.taps.len();
        fill(&mut Line { taps: &mut self.taps, from });
        from..self.taps.len()
    }
    pub fn count(&self) -> usize {
        self.bins.len()
    }
    pub fn divisors(&self) -> impl Iterator<Item = R> + '_ {
        self.bins.iter().map(|b| b.divisor)
    }
    /// Adds a bin. A divisor of zero makes the bin zero.
    pub fn push(&mut self, plane: usize, rows: Range<usize>, cols: Range<usize>, divisor: R) {
        self.bins.push(Bin { plane, rows, cols, divisor });
    }
    /// The weighted sum over a plane of `width`.
    pub fn sum<T: Feature<W = R>>(&self, x: &[T], width: usize, rows: Range<usize>, cols: Range<usize>) -> R {
        let mut sum = R::ZERO;
        for &(r, wr) in &self.taps[rows] {
            let row = &x[r * width..][..width];
            let mut inner = R::ZERO;
            for &(c, wc) in &self.taps[cols.clone()] {
                inner += row[c].wide() * wc;
            }
            sum += inner * wr;
        }
        sum
    }
}

/// Collects rows or columns with weights, added in nearly ascending order.
pub struct Line<'a, R> {
    taps: &'a mut Vec<(usize, R)>,
    from: usize,
}

impl<R: Float> Line<'_, R> {
    pub fn push(&mut self, at: usize, weight: R) {
        self.taps.push((at, weight));
    }
    /// Adds a weight, merging with one of the last two entries.
    pub fn add(&mut self, at: usize, weight: R) {
        let last = self.taps.len().saturating_sub(2).max(self.from);
        match self.taps[last..].iter_mut().find(|t| t.0 == at) {
            Some(tap) => tap.1 += weight,
            None => self.taps.push((at, weight)),
        }
    }
}

/// The neighbouring elements of a coordinate and the distance from the first; `None` for an empty map.
pub fn between<R: Float>(place: R, size: usize) -> Option<(usize, usize, R)> {
    let last = size.checked_sub(1)?;
    let place = if place <= R::ZERO { R::ZERO } else { place };
    let low = floor(place).max(0) as usize;
    Some(if low >= last { (last, last, R::ZERO) } else { (low, low + 1, place - real(low as f64)) })
}

/// Pooling of `channels` channels by weighted sums.
pub struct Pooling {
    /// The RoIs of each image.
    pub images: Vec<Range<usize>>,
    /// Planes per image, and their sizes.
    pub planes: usize,
    pub size: (usize, usize),
    pub channels: usize,
    /// Planes that one output channel reads; they are contiguous.
    pub reads: usize,
    pub bins: usize,
    /// Output channels that share bins.
    pub alike: usize,
}

/// Minimum bins per thread.
const GRAIN: usize = 1 << 10;
/// Limit of channel parts per image, since each part recomputes the bins.
const PARTS: usize = 8;

impl Pooling {
    /// A pooling of each of `planes` channels by itself, with the same `bins` for all.
    pub fn new(images: Vec<Range<usize>>, planes: usize, size: (usize, usize), bins: usize) -> Pooling {
        Pooling { images, planes, size, channels: planes, reads: 1, bins, alike: usize::MAX }
    }

    pub fn image_of_rois(&self) -> Vec<usize> {
        self.images.iter().enumerate().flat_map(|(i, rois)| rois.clone().map(move |_| i)).collect()
    }

    fn area(&self) -> usize {
        self.size.0 * self.size.1
    }

    /// `bins(roi, class, to)` computes the bins of a RoI for the channels of a class.
    pub fn forward<T: Feature>(&self, x: &[T], out: &mut [T], bins: impl Fn(usize, usize, &mut Bins<T::W>) + Sync) {
        let each = self.channels * self.bins;
        if out.is_empty() {
            return;
        }
        let image = self.image_of_rois();
        pool::parts(out, each * GRAIN.div_ceil(each), |at, part| {
            let mut roi_bins = Bins::default();
            for (k, out) in part.chunks_exact_mut(each).enumerate() {
                let roi = at / each + k;
                let x = &x[image[roi] * self.planes * self.area()..][..self.planes * self.area()];
                for (c, out) in out.chunks_exact_mut(self.bins).enumerate() {
                    if c % self.alike == 0 {
                        roi_bins.clear();
                        bins(roi, c / self.alike, &mut roi_bins);
                    }
                    for (o, bin) in out.iter_mut().zip(&roi_bins.bins) {
                        let plane = &x[(c * self.reads + bin.plane) * self.area()..][..self.area()];
                        let sum = roi_bins.sum(plane, self.size.1, bin.rows.clone(), bin.cols.clone());
                        *o = T::narrow(if bin.divisor == T::W::ZERO { T::W::ZERO } else { sum / bin.divisor });
                    }
                }
            }
        });
    }

    /// Computes the gradient of X. Elements are summed in RoI order.
    pub fn backward<T: Feature>(&self, dout: &[T], dx: &mut [T], bins: impl Fn(usize, usize, &mut Bins<T::W>) + Sync) {
        self.scatter(dx, |rois, channels, dx| {
            let mut roi_bins = Bins::default();
            for roi in rois {
                for c in channels.clone() {
                    if c % self.alike == 0 || c == channels.start {
                        roi_bins.clear();
                        bins(roi, c / self.alike, &mut roi_bins);
                    }
                    let dout = &dout[(roi * self.channels + c) * self.bins..][..self.bins];
                    for (&d, bin) in dout.iter().zip(&roi_bins.bins) {
                        if bin.divisor == T::W::ZERO {
                            continue;
                        }
                        let at = ((c - channels.start) * self.reads + bin.plane) * self.area();
                        let plane = &mut dx[at..][..self.area()];
                        let d = d.wide() / bin.divisor;
                        for &(r, wr) in &roi_bins.taps[bin.rows.clone()] {
                            for &(k, wc) in &roi_bins.taps[bin.cols.clone()] {
                                plane[r * self.size.1 + k].add(d * wr * wc);
                            }
                        }
                    }
                }
            }
        });
    }

    /// Calls `f(RoIs, output channels, planes that they read)` in parallel, on zeroed planes.
    pub fn scatter<T: Plain>(&self, dx: &mut [T], f: impl Fn(Range<usize>, Range<usize>, &mut [T]) + Sync) {
        copy::fill(T::default(), dx);
        let (area, shared) = (self.area(), Shared::new(dx));
        let step = self.channels.div_ceil(PARTS).max(1);
        let parts = self.channels.div_ceil(step);
        if area == 0 || parts == 0 {
            return;
        }
        pool::chunks(self.images.len() * parts, |job| {
            let (image, part) = (job / parts, job % parts);
            let channels = part * step..((part + 1) * step).min(self.channels);
            let from = image * self.planes;
            let planes = from + channels.start * self.reads..from + channels.end * self.reads;
            // SAFETY: images and channel parts have disjoint planes, and `dx` outlives all chunks.
            let dx = unsafe { shared.part(planes.start * area..planes.end * area) };
            f(self.images[image].clone(), channels, dx);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 211) as f64 / 100.0 - 1.0).collect()
    }

    /// A pooling of two images with three channels of 5 x 7 and of three, no and two RoIs, so that the order matters.
    pub fn pooling(bins: usize) -> Pooling {
        Pooling::new(vec![0..3, 3..3, 3..5], 3, (5, 7), bins)
    }

    /// Fails unless `backward` is the adjoint of `forward`, which is linear in the map.
    pub fn assert_adjoint(p: &Pooling, rois: usize, bins: impl Fn(usize, usize, &mut Bins<f64>) + Sync) {
        let (x, d) = (values(p.images.len() * p.planes * p.area(), 1), values(rois * p.channels * p.bins, 2));
        let (mut out, mut dx) = (vec![9.0; d.len()], vec![9.0; x.len()]);
        p.forward(&x, &mut out, &bins);
        p.backward(&d, &mut dx, &bins);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert!((dot(&out, &d) - dot(&x, &dx)).abs() < 1e-9);
        assert!(dx.iter().any(|&v| v != 0.0));
    }

    #[test]
    fn taps_of_one_place_are_merged() {
        let mut bins = Bins::<f64>::default();
        let line =
            bins.line(|l| [(2, 0.5), (3, 0.25), (2, 1.0), (4, 1.0)].into_iter().for_each(|(at, w)| l.add(at, w)));
        assert_eq!(bins.taps[line.clone()], [(2, 1.5), (3, 0.25), (4, 1.0)]);
        let ones = bins.line(|l| l.push(1, 2.0));
        assert_eq!(bins.sum(&values(10, 0), 2, line, ones).to_bits(), {
            let x = values(10, 0);
            [(2, 1.5), (3, 0.25), (4, 1.0)].iter().fold(0.0, |sum, &(r, w)| sum + x[r * 2 + 1] * 2.0 * w).to_bits()
        });
        assert_eq!(between(1.25, 4), Some((1, 2, 0.25)));
        assert_eq!([between(-3.0, 4), between(9.0, 4)], [Some((0, 1, 0.0)), Some((3, 3, 0.0))]);
        assert_eq!(between(0.0f32, 0), None);
    }

    #[test]
    fn pooling_is_a_weighted_sum_of_each_plane() {
        let p = Pooling { channels: 1, reads: 3, ..pooling(2) };
        let fill = |roi: usize, _: usize, to: &mut Bins<f64>| {
            let rows = to.line(|l| l.push(roi, 2.0));
            let cols = to.line(|l| (0..3).for_each(|c| l.push(c, 1.0)));
            to.push(1, rows.clone(), cols.clone(), 3.0);
            to.push(2, rows, cols, 0.0);
        };
        let x = values(3 * 3 * 35, 4);
        let mut out = vec![9.0; 10];
        p.forward(&x, &mut out, fill);
        for (roi, image) in p.image_of_rois().into_iter().enumerate() {
            let at = (image * 3 + 1) * 35 + roi * 7;
            let want = (x[at] + x[at + 1] + x[at + 2]) * 2.0 / 3.0;
            assert!((out[roi * 2] - want).abs() < 1e-12 && out[roi * 2 + 1] == 0.0);
        }
        assert_adjoint(&p, 5, fill);
        // Integers are summed in f64 and truncated once.
        let mut out = [9i32; 30];
        pooling(2).forward(&[1i32; 315], &mut out, |roi, c, to| {
            fill(roi, c, to);
            to.bins.iter_mut().for_each(|b| (b.plane, b.divisor) = (0, 4.0));
        });
        assert_eq!(out, [1; 30]);
        pooling(2).forward(&[0i32; 0], &mut [], |_, _, _| ());
    }
}
