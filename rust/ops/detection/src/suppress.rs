//! What the operators share that keep the best of overlapping boxes: ranking, suppression, and how results are told.

use super::boxes::{falling, overlap, pixel, BoxFloat};
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{InSlot, ShapeContext};
use oar_core::tensor::Tensor;
use oar_kernels::detection::overlaps::Kept;
use oar_ops_common::levels;

/// A negative number of boxes to keep means all.
fn limit(n: i32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The items whose scores are above a threshold (NaN is not), the highest first, at most `top`.
pub fn ranked<T: BoxFloat>(scores: impl Iterator<Item = (usize, T)>, threshold: T, top: i32) -> Vec<usize> {
    let found = scores.filter(|s| s.1 > threshold).enumerate().map(|(order, (at, score))| (order, at, score));
    let mut found: Vec<(usize, usize, T)> = found.collect();
    // Equal scores stay in their order.
    let by = |a: &(usize, usize, T), b: &(usize, usize, T)| falling(a.2, b.2).then(a.0.cmp(&b.0));
    if limit(top) < found.len() {
        found.select_nth_unstable_by(limit(top), by);
        found.truncate(limit(top));
    }
    found.sort_unstable_by(by);
    found.into_iter().map(|s| s.1).collect()
}

/// Of ranked boxes those that do not overlap with a better one that stays, by `bounds`, which are the threshold and what it
/// is multiplied with each time that a box stays, as long as it is above a half.
pub fn suppress<'a, T: BoxFloat>(
    ranked: impl IntoIterator<Item = usize>,
    bounds: (T, T),
    normalized: bool,
    place: impl Fn(usize) -> &'a [T],
) -> Vec<usize> {
    let ((mut threshold, eta), pixel) = (bounds, pixel(normalized));
    let (mut kept, mut boxes): (Vec<usize>, Kept<T>) = Default::default();
    for i in ranked {
        let own = place(i);
        let clashes = match own {
            &[a, b, c, d] => {
                let own = [a, b, c, d];
                let clashes = boxes.clashes(&own, pixel, threshold);
                if !clashes {
                    boxes.push(&own, pixel);
                }
                clashes
            }
            _ => !kept.iter().all(|&k| overlap(own, place(k), normalized) <= threshold),
        };
        if !clashes {
            kept.push(i);
            if eta < T::ONE && threshold > T::of(0.5) {
                threshold = threshold * eta;
            }
        }
    }
    kept
}

/// A box that stays: its class, where it is, its score.
#[derive(Clone, Copy)]
pub struct Found<T> {
    pub class: usize,
    pub at: usize,
    pub score: T,
}

/// The best of an image's boxes, all classes together.
pub fn best<T: BoxFloat>(found: &mut Vec<Found<T>>, most: i32) {
    found.sort_by(|a, b| falling(a.score, b.score));
    found.truncate(limit(most));
}

/// As [`best`], but by classes: and in the order of before where no box is left out.
pub fn best_by_class<T: BoxFloat>(found: &mut Vec<Found<T>>, most: i32) {
    if found.len() > limit(most) {
        best(found, most);
        found.sort_by_key(|f| f.class);
    }
}

/// Rows [class, score, box], image by image.
pub struct Rows<T> {
    width: usize,
    data: Vec<T>,
    pub index: Vec<i32>,
    pub level: Vec<usize>,
}

impl<T: BoxFloat> Rows<T> {
    /// `size`: numbers of a box.
    pub fn new(size: usize) -> Rows<T> {
        Rows { width: size + 2, data: Vec::new(), index: Vec::new(), level: vec![0] }
    }

    pub fn push(&mut self, class: usize, score: T, place: &[T], index: usize) {
        self.data.extend([T::of(class as f64), score]);
        self.data.extend_from_slice(place);
        self.index.push(index as i32);
    }

    pub fn end_image(&mut self) {
        self.level.push(self.index.len());
    }

    /// Boxes of each image.
    pub fn counts(&self) -> Result<Tensor> {
        let counts: Vec<i32> = levels::lengths(&self.level).map(|n| n as i32).collect();
        Tensor::from_slice(&counts, &[counts.len() as i64])
    }

    /// The places of the boxes among all that were given.
    pub fn places(&self) -> Result<Tensor> {
        let t = Tensor::from_slice(&self.index, &[self.index.len() as i64, 1])?;
        Ok(t.with_lod(levels::one(self.level.clone())))
    }

    pub fn boxes(self) -> Result<Tensor> {
        let t = Tensor::from_slice(&self.data, &[self.index.len() as i64, self.width as i64])?;
        Ok(t.with_lod(levels::one(self.level)))
    }

    /// As [`Rows::boxes`]; that there are none is told by one row of one -1, as in 1.x.
    pub fn boxes_or_mark(self) -> Result<Tensor> {
        if !self.index.is_empty() {
            return self.boxes();
        }
        Ok(Tensor::from_slice(&[T::of(-1.0)], &[1, 1])?.with_lod(levels::one(vec![0, 1])))
    }
}

/// Boxes [images, count, numbers] and scores [images, classes, count]: the numbers of a box.
pub fn infer_images(cx: &ShapeContext, boxes: InSlot, scores: InSlot, sizes: &[i64]) -> Result<i64> {
    let size = cx.dims(boxes)?.get(2).copied().unwrap_or(-1);
    cx.shaped_in_run(boxes, &[-1, -1, -1])?;
    if let Some(t) = cx.tensor(boxes) {
        cx.shaped_in_run(scores, &[t.dims()[0], -1, t.dims()[1]])?;
        ensure!(
            sizes.contains(&size),
            InvalidArgument,
            "operator {}: the last dimension of BBoxes must be one of {sizes:?}, got shape {:?}",
            cx.op.name,
            t.dims()
        );
    }
    Ok(size)
}

/// The numbers of a row of results, for boxes of so many numbers.
pub fn row(size: i64) -> i64 {
    if size < 0 {
        -1
    } else {
        size + 2
    }
}
