//! Shared by RoI pooling operators: the image of a RoI, shape rule, and pooling as a weighted sum. A bin reads the
//! product of weighted rows and weighted columns of one plane, which covers averages, bilinear samples and integrals;
//! its gradient scatters the same weights.

pub mod align;
pub mod deform;
pub mod fpn;
pub mod max;
pub mod precise;
pub mod psroi;
pub mod quads;

use oar_core::base::dtype::Element;
use oar_core::base::{DType, Dims, ErrorKind, Result};
use oar_core::op::{InSlot, KernelContext, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{ensure, err};
use oar_kernels::pool::{self, Shared};
use oar_kernels::types::{Float, Number, Plain};
use oar_ops_common::index::index_of;
use std::ops::Range;

/// Limit of output elements, and of bins or samples along one side of a RoI.
const MOST: i64 = 1 << 31;
pub const MOST_BINS: i64 = 1 << 24;

/// An element type of feature maps, with the type of its coordinates and weights.
pub trait Feature: Element + Plain {
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

/// Checks X, ROIs (`sides` numbers each) and the output sizes; returns the output shape.
pub fn shape(
    cx: &ShapeContext,
    (x, rois, count): (InSlot, InSlot, Option<InSlot>),
    sides: i64,
    channels: Option<i64>,
    (height, width, scale): (i32, i32, f32),
    kind: ErrorKind,
) -> Result<Dims> {
    let (op, x_name) = (cx.op.name, cx.op.inputs[x.0].name);
    let (x, rois) = (cx.dims(x)?, cx.dims(rois)?);
    ensure!(
        x.len() == 4,
        InvalidArgument,
        "operator {op}: input '{x_name}' must have 4 dimensions, [N, C, H, W], got shape {:?}",
        &x[..]
    );
    ensure!(
        rois.len() == 2 && (rois[1] == sides || rois[1] < 0),
        InvalidArgument,
        "operator {op}: input 'ROIs' must have shape [number of RoIs, {sides}], got {:?}",
        &rois[..]
    );
    if let Some(count) = count.filter(|&c| cx.has(c)) {
        let (name, count) = (cx.op.inputs[count.0].name, cx.dims(count)?);
        ensure!(
            count.len() == 1,
            InvalidArgument,
            "operator {op}: input '{name}' must have one dimension, got shape {:?}",
            &count[..]
        );
    }
    for (what, size) in [("height", height as f64), ("width", width as f64), ("spatial scale", scale as f64)] {
        if size.is_nan() || size <= 0.0 {
            return Err(oar_core::base::Error::new(
                kind,
                format!("operator {op}: the {what} of the attributes must be greater than 0, got {size}"),
            ));
        }
    }
    let out = Dims::from_slice(&[rois[0], channels.unwrap_or(x[1]), height as i64, width as i64]);
    let bins = height as i64 * width as i64;
    let all = out[..2].iter().try_fold(bins, |n, &d| n.checked_mul(d.max(1)));
    ensure!(
        bins <= MOST_BINS && all.is_some_and(|n| n <= MOST),
        ResourceExhausted,
        "operator {op}: a result of shape {:?} is too large",
        &out[..]
    );
    Ok(out)
}

/// Fails unless ROIs and other coordinates have the data type of the maps.
pub fn same_type(cx: &KernelContext, dtype: DType, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: input '{}' must be {dtype} as the maps are, got {}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            t.dtype()
        );
    }
    Ok(())
}

/// The incoming gradient, which must have this shape.
pub fn grad_of<'a>(cx: &KernelContext<'a>, slot: InSlot, dims: &[i64], dtype: DType) -> Result<&'a Tensor> {
    let d = cx.input(slot)?;
    ensure!(
        d.dims() == dims && d.dtype() == dtype,
        InvalidArgument,
        "operator {}: input '{}' must be {dtype} of shape {dims:?}, got {d:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(d)
}

/// The rows of each image: from a tensor of counts, else from the last LoD level.
pub fn spans(op: &str, name: &str, t: &Tensor, counts: Option<&Tensor>) -> Result<Vec<Range<usize>>> {
    let rows = t.dims().first().map_or(0, |&d| d as usize);
    let mut ends = vec![0usize];
    match counts {
        Some(counts) => {
            let mut at = 0usize;
            for &n in index_of(op, counts)?.iter() {
                at = usize::try_from(n).ok().and_then(|n| at.checked_add(n)).ok_or_else(|| {
                    err!(InvalidArgument, "operator {op}: a number of RoIs must not be negative, got {n}")
                })?;
                ends.push(at);
            }
        }
        None => {
            let level = t.lod.as_ref().and_then(|l| l.last());
            let level = level.ok_or_else(|| {
                err!(InvalidArgument, "operator {op}: input '{name}' must have LoD, which maps rows to images")
            })?;
            ends.clone_from(level);
        }
    }
    ensure!(
        ends.first() == Some(&0) && ends.is_sorted() && ends.last() == Some(&rows),
        InvalidArgument,
        "operator {op}: the offsets {ends:?} must divide the {rows} rows of '{name}' into images"
    );
    Ok(ends.windows(2).map(|w| w[0]..w[1]).collect())
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
    /// A pooling of each channel by itself, with the same bins for all.
    pub fn new(
        cx: &KernelContext,
        (x, rois, counts): (InSlot, InSlot, Option<InSlot>),
        bins: usize,
    ) -> Result<Pooling> {
        let (op, x) = (cx.op, cx.input(x)?);
        same_type(cx, x.dtype(), &[rois])?;
        let (name, d) = (op.inputs[rois.0].name, x.dims());
        let images = spans(op.name, name, cx.input(rois)?, counts.and_then(|c| cx.opt(c)))?;
        ensure!(
            images.len() as i64 == d[0],
            InvalidArgument,
            "operator {}: '{name}' are of {} images, but the batch has {}",
            op.name,
            images.len(),
            d[0]
        );
        let (planes, size) = (d[1] as usize, (d[2] as usize, d[3] as usize));
        Ok(Pooling { images, planes, size, channels: planes, reads: 1, bins, alike: usize::MAX })
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
    pub fn scatter<T: Element + Plain>(&self, dx: &mut [T], f: impl Fn(Range<usize>, Range<usize>, &mut [T]) + Sync) {
        oar_kernels::shape::copy::fill(T::default(), dx);
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
