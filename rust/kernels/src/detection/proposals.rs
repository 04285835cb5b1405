//! Region proposals: anchors moved by predicted deltas, ranked by score, with non-maximum suppression.

use super::boxes::{clipped, least, pixel, BoxMath, Corners};
use super::nms::suppress;
use crate::ranking;
use crate::types::Float;

/// How proposals are chosen.
#[derive(Clone, Copy)]
pub struct ProposalRule {
    /// Number of boxes before and after suppression; all if not positive.
    pub before: i32,
    pub after: i32,
    /// Overlap above which a box is suppressed, and its factor; no suppression if not positive.
    pub threshold: f32,
    pub eta: f32,
    pub min_size: f32,
    /// Boxes include their right and bottom pixels.
    pub pixels: bool,
    /// ImInfo has a scale, and min_size applies to the unscaled image.
    pub scaled: bool,
}

/// The output of a network for a batch of images.
pub struct Proposals<'a, R> {
    pub rule: ProposalRule,
    /// Anchors per position; positions.
    pub anchors: usize,
    pub places: usize,
    /// [images, anchors, places]
    pub scores: &'a [R],
    /// [images, anchors * 4, places]
    pub deltas: &'a [R],
    /// Height, width and (if `rule.scaled`) scale of each image.
    pub info: &'a [R],
    /// Boxes and variances of the anchors, [places, anchors, 4].
    pub boxes: &'a [R],
    pub variances: &'a [R],
}

impl<R: Float> Proposals<'_, R> {
    fn all(&self) -> usize {
        self.anchors * self.places
    }

    fn pixel(&self) -> R {
        pixel(!self.rule.pixels)
    }

    /// The score of anchor `i`, in the order of positions.
    fn score(&self, image: usize, i: usize) -> R {
        self.scores[image * self.all() + i % self.anchors * self.places + i / self.anchors]
    }

    /// The anchor moved by its deltas and clipped to the image.
    fn moved(&self, image: usize, i: usize, (height, width): (R, R)) -> Corners<R> {
        let (half, two, grown_most) = (R::from_f64(0.5), R::from_f64(2.0), R::from_f64((1000.0f64 / 16.0).ln()));
        let (b, v, pixel) = (&self.boxes[i * 4..][..4], &self.variances[i * 4..][..4], self.pixel());
        let delta = |k: usize| {
            let plane = (image * self.anchors + i % self.anchors) * 4 + k;
            v[k] * self.deltas[plane * self.places + i / self.anchors]
        };
        let mut found = [R::ZERO; 4];
        for (k, end) in [width, height].into_iter().enumerate() {
            let size = b[k + 2] - b[k] + pixel;
            let center = delta(k) * size + (b[k] + half * size);
            let grown = BoxMath::exp(least(delta(k + 2), grown_most)) * size;
            let cut = |v: R| clipped(v, end - pixel);
            found[k] = cut(center - grown / two);
            found[k + 2] = cut(center + grown / two - pixel);
        }
        found
    }

    /// Whether a box is large enough and its center within the image.
    fn counts(&self, b: &Corners<R>, info: &[R]) -> bool {
        let (least, two, pixel) = (R::from_f64(self.rule.min_size.max(1.0) as f64), R::from_f64(2.0), self.pixel());
        let large = |k: usize| {
            let size = b[k + 2] - b[k];
            (if self.rule.scaled { size / info[2] } else { size }) + pixel >= least
        };
        let central = |k: usize, end: R| b[k] + (b[k + 2] - b[k] + pixel) / two <= end;
        large(0) && large(1) && (!self.rule.pixels || (central(0, info[1]) && central(1, info[0])))
    }

    /// The proposals of an image with scores, in descending order; one zero box if there are none.
    pub fn image(&self, image: usize) -> Vec<(R, Corners<R>)> {
        let info = &self.info[image * if self.rule.scaled { 3 } else { 2 }..];
        let mut order: Vec<u32> = (0..self.all() as u32).collect();
        let falling = |a: &u32, b: &u32| {
            let (a, b) = (self.score(image, *a as usize), self.score(image, *b as usize));
            b.partial_cmp(&a).unwrap_or_else(|| a.partial_cmp(&a).is_none().cmp(&b.partial_cmp(&b).is_none()))
        };
        let by = |a: &u32, b: &u32| falling(a, b).then(a.cmp(b));
        let most = usize::try_from(self.rule.before).ok().filter(|&n| n > 0).unwrap_or(usize::MAX);
        ranking::keep_first(&mut order, most, by);
        let boxes = order.iter().map(|&i| (i, self.moved(image, i as usize, (info[0], info[1]))));
        let mut found: Vec<(u32, Corners<R>)> = boxes.filter(|(_, b)| self.counts(b, info)).collect();
        if found.is_empty() {
            return vec![(R::ZERO, [R::ZERO; 4])];
        }
        if self.rule.threshold > 0.0 {
            // Among equal scores the last one comes first.
            found.reverse();
            ranking::sort(&mut found, |a, b| falling(&a.0, &b.0));
            let (bound, eta) = (R::from_f64(self.rule.threshold as f64), R::from_f64(self.rule.eta as f64));
            let mut kept = suppress(0..found.len(), (bound, eta), !self.rule.pixels, |i| &found[i].1);
            kept.truncate(usize::try_from(self.rule.after).ok().filter(|&n| n > 0).unwrap_or(usize::MAX));
            found = kept.into_iter().map(|i| found[i]).collect();
        }
        found.into_iter().map(|(i, b)| (self.score(image, i as usize), b)).collect()
    }
}

/// The boxes and scores of all images, and the end of each image among them, after a 0.
pub fn all_images<R: Float>(call: &Proposals<R>, images: usize) -> (Vec<R>, Vec<R>, Vec<usize>) {
    let (mut boxes, mut scores, mut ends) = (Vec::new(), Vec::new(), vec![0]);
    for image in 0..images {
        for (score, b) in call.image(image) {
            boxes.extend(b);
            scores.push(score);
        }
        ends.push(scores.len());
    }
    (boxes, scores, ends)
}

#[cfg(test)]
mod tests {
    use super::super::boxes::iou;
    use super::*;

    #[test]
    fn proposals_are_moved_ranked_and_suppressed() {
        let (anchors, places, images) = (3, 4, 2);
        let at = |i: usize, m: usize| (i * 7919 % m) as f64;
        let scores: Vec<f64> = (0..images * 12).map(|i| at(i, 23) / 23.0).collect();
        let deltas: Vec<f64> = (0..images * 48).map(|i| at(i + 3, 31) / 31.0 - 0.5).collect();
        let boxes: Vec<f64> =
            (0..12).flat_map(|i| [at(i, 17), at(i + 1, 13), at(i, 17) + 9.0, at(i + 1, 13) + 12.0]).collect();
        let variances: Vec<f64> = (0..48).map(|i| 0.1 + at(i, 7) / 20.0).collect();
        let info = [30.0, 25.0, 2.0, 12.0, 40.0, 1.0];
        let rule =
            ProposalRule { before: 9, after: 4, threshold: 0.5, eta: 1.0, min_size: 2.0, pixels: true, scaled: true };
        let call = Proposals {
            rule,
            anchors,
            places,
            scores: &scores,
            deltas: &deltas,
            info: &info,
            boxes: &boxes,
            variances: &variances,
        };
        let (got, probs, ends) = all_images(&call, images);
        for image in 0..images {
            let mut all: Vec<(f64, [f64; 4])> = (0..12)
                .map(|i| {
                    let (place, anchor) = (i / 3, i % 3);
                    let d = |k: usize| deltas[((image * 3 + anchor) * 4 + k) * 4 + place] * variances[i * 4 + k];
                    let mut b = [0.0; 4];
                    for k in 0..2 {
                        let size = boxes[i * 4 + k + 2] - boxes[i * 4 + k] + 1.0;
                        let center = boxes[i * 4 + k] + size / 2.0 + d(k) * size;
                        let half = d(k + 2).exp() * size / 2.0;
                        let end = info[image * 3 + 1 - k] - 1.0;
                        (b[k], b[k + 2]) = ((center - half).clamp(0.0, end), (center + half - 1.0).clamp(0.0, end));
                    }
                    (scores[(image * 3 + anchor) * 4 + place], b)
                })
                .collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            all.truncate(9);
            all.retain(|(_, b)| (0..2).all(|k| (b[k + 2] - b[k]) / info[image * 3 + 2] + 1.0 >= 2.0));
            let mut want: Vec<(f64, [f64; 4])> = vec![];
            for (score, b) in all {
                if want.len() < 4 && want.iter().all(|w| iou(&w.1, &b, false) <= 0.5) {
                    want.push((score, b));
                }
            }
            assert_eq!(ends[image + 1] - ends[image], want.len());
            for (k, (score, b)) in (ends[image]..).zip(want) {
                assert_eq!(probs[k], score);
                assert!(got[k * 4..][..4].iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{k}");
            }
        }
        // Boxes that are too small leave one of zeros.
        let none = Proposals { rule: ProposalRule { min_size: 1e6, ..rule }, ..call };
        assert_eq!(none.image(0), [(0.0, [0.0; 4])]);
    }
}
