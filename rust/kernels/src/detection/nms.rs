//! Non-maximum suppression: ranking of boxes by score, suppression by overlap, decay of scores (matrix NMS), merging
//! (locality-aware NMS).

use super::boxes::{descending, iou, least, most, pixel, BoxMath};
use super::overlaps::KeptBoxes;
use crate::order::Sortable;
use crate::ranking;
use crate::types::Float;

/// Number of boxes to keep; a negative limit means all.
pub fn limit(n: i32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The items with scores above `threshold` (NaN is not), by descending score, at most `top`. Equal scores keep their order.
pub fn ranked<T: Float>(scores: impl Iterator<Item = (usize, T)>, threshold: T, top: i32) -> Vec<usize> {
    let (places, scores): (Vec<usize>, Vec<T>) = scores.filter(|s| s.1 > threshold).unzip();
    // Compared in float32, as by `descending`.
    let mut keys: Vec<(u64, u32)> = scores.iter().map(|s| !(s.to_f64() as f32).key()).zip(0..).collect();
    ranking::sort_keys(&mut keys, limit(top));
    keys.iter().map(|k| places[k.1 as usize]).collect()
}

/// Of ranked boxes those whose overlap with every kept box before is at most the threshold. `bounds` are the threshold and
/// its factor eta: after each kept box the threshold is multiplied by eta, as long as it is above 0.5.
pub fn suppress<'a, T: Float>(
    ranked: impl IntoIterator<Item = usize>,
    bounds: (T, T),
    normalized: bool,
    place: impl Fn(usize) -> &'a [T],
) -> Vec<usize> {
    let ((mut threshold, eta), pixel) = (bounds, pixel(normalized));
    let (mut kept, mut boxes): (Vec<usize>, KeptBoxes<T>) = Default::default();
    for i in ranked {
        let own = place(i);
        let overlaps = match own {
            &[a, b, c, d] => {
                let own = [a, b, c, d];
                let overlaps = boxes.overlaps(&own, pixel, threshold);
                if !overlaps {
                    boxes.push(&own, pixel);
                }
                overlaps
            }
            _ => !kept.iter().all(|&k| iou(own, place(k), normalized) <= threshold),
        };
        if !overlaps {
            kept.push(i);
            if eta < T::ONE && threshold > T::from_f64(0.5) {
                threshold = threshold * eta;
            }
        }
    }
    kept
}

/// A kept box: its class, its index, its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<T> {
    pub class: usize,
    pub at: usize,
    pub score: T,
}

/// Sorts by descending score, all classes together, and keeps at most `most` boxes.
pub fn best<T: Float>(found: &mut Vec<Found<T>>, most: i32) {
    ranking::sort(found, |a, b| descending(a.score, b.score));
    found.truncate(limit(most));
}

/// As [`best`], sorted by class. The order stays unchanged if no box is dropped.
pub fn best_by_class<T: Float>(found: &mut Vec<Found<T>>, most: i32) {
    if found.len() > limit(most) {
        best(found, most);
        ranking::sort(found, |a, b| a.class.cmp(&b.class));
    }
}

/// How matrix NMS lowers scores.
#[derive(Clone, Copy)]
pub struct Decay<T> {
    pub score_threshold: T,
    /// Boxes with lowered scores up to this are dropped.
    pub post_threshold: T,
    pub top: i32,
    pub normalized: bool,
    /// Sigma of the Gaussian decay; `None`: linear decay.
    pub gaussian: Option<T>,
}

/// Matrix NMS of the boxes of one class: calls `keep(box, score)` for boxes that remain, by descending original score.
pub fn decayed<T: Float>(boxes: &[T], scores: &[T], d: &Decay<T>, mut keep: impl FnMut(usize, T)) {
    let order = ranked(scores.iter().copied().enumerate(), d.score_threshold, d.top);
    let shared = |i: usize, k: usize| iou(&boxes[i * 4..i * 4 + 4], &boxes[k * 4..k * 4 + 4], d.normalized);
    // The largest overlap of each box so far with a better one.
    let mut highest: Vec<T> = Vec::with_capacity(order.len());
    for (n, &i) in order.iter().enumerate() {
        let (mut share, mut worst) = (T::ONE, T::ZERO);
        for (&k, &of_better) in order[..n].iter().zip(&highest) {
            let iou: T = shared(i, k);
            worst = most(worst, iou);
            let factor = match d.gaussian {
                Some(sigma) => BoxMath::exp((of_better * of_better - iou * iou) * sigma),
                None => T::from_f64((1.0 - iou.to_f64()) / (1.0 - of_better.to_f64())),
            };
            share = least(share, factor);
        }
        highest.push(worst);
        let score = share * scores[i];
        if score > d.post_threshold {
            keep(i, score);
        }
    }
}

/// Merges each box into the last kept one, in place, if their overlap is above `threshold`: coordinates are averaged with
/// the scores as weights, scores are added. Returns the indices of the kept boxes, which have `size` numbers each.
pub fn merge_neighbors<T: Float>(
    boxes: &mut [T],
    scores: &mut [T],
    size: usize,
    threshold: T,
    normalized: bool,
) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for i in 0..scores.len() {
        let Some(&last) = kept.last() else {
            kept.push(i);
            continue;
        };
        let (head, tail) = boxes.split_at_mut(i * size);
        let (to, from) = (&mut head[last * size..(last + 1) * size], &tail[..size]);
        if iou(from, to, normalized) > threshold {
            let (own, other) = (scores[last], scores[i]);
            for (to, &from) in to.iter_mut().zip(from) {
                *to = (from * other + *to * own) / (other + own);
            }
            scores[last] += other;
        } else {
            kept.push(i);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(n: usize) -> (Vec<f64>, Vec<f64>) {
        let at = |i: usize, m: usize| (i * 7919 % m) as f64;
        let boxes = (0..n).flat_map(|i| {
            let (x, y) = (at(i + 1, 60), at(i + 5, 60));
            [x, y, x + 5.0 + at(i, 20), y + 5.0 + at(i + 9, 20)]
        });
        (boxes.collect(), (0..n).map(|i| at(i + 3, 101) / 101.0).collect())
    }

    #[test]
    fn ranking_is_a_stable_sort() {
        let scores = [0.3f32, 0.9, f32::NAN, 0.9, 0.1, 0.5];
        assert_eq!(ranked(scores.into_iter().enumerate(), 0.2, -1), [1, 3, 5, 0]);
        assert_eq!(ranked(scores.into_iter().enumerate(), 0.2, 3), [1, 3, 5]);
        assert_eq!(ranked(scores.into_iter().enumerate(), 0.2, 0), [0usize; 0]);
    }

    #[test]
    fn suppression_equals_a_plain_loop() {
        let (boxes, scores) = boxes(150);
        let at = |i: usize| &boxes[i * 4..i * 4 + 4];
        for eta in [1.0, 0.9] {
            let order = ranked(scores.iter().copied().enumerate(), 0.05, -1);
            let (mut want, mut threshold): (Vec<usize>, f64) = (vec![], 0.7);
            for &i in &order {
                if want.iter().all(|&k| iou(at(i), at(k), false) <= threshold) {
                    want.push(i);
                    if eta < 1.0 && threshold > 0.5 {
                        threshold *= eta;
                    }
                }
            }
            assert_eq!(suppress(order, (0.7, eta), false, at), want);
        }
        // Polygons of eight numbers take the other path.
        let square = |x: f64| [x, 0.0, x + 4.0, 0.0, x + 4.0, 4.0, x, 4.0];
        let all = [square(0.0), square(1.0), square(10.0)];
        assert_eq!(suppress(0..3, (0.3, 1.0), true, |i| &all[i]), [0, 2]);
    }

    #[test]
    fn the_best_boxes_stay() {
        let found = |class, at, score: f64| Found { class, at, score };
        let all = vec![found(1, 0, 0.5), found(0, 1, 0.9), found(2, 2, 0.7)];
        let mut some = all.clone();
        best(&mut some, 2);
        assert_eq!(some, [all[1], all[2]]);
        let mut some = vec![all[2], all[0], all[1]];
        best_by_class(&mut some, 2);
        assert_eq!(some, [all[1], all[2]]);
        let mut some = all.clone();
        best_by_class(&mut some, -1);
        assert_eq!(some, all);
    }

    #[test]
    fn decay_lowers_scores_of_overlapping_boxes() {
        let boxes = [0.0f64, 0.0, 10.0, 10.0, 0.0, 0.0, 10.0, 5.0, 50.0, 50.0, 60.0, 60.0];
        let d = Decay { score_threshold: 0.0, post_threshold: 0.0, top: -1, normalized: true, gaussian: None };
        let run = |d: &Decay<f64>| {
            let mut kept = vec![];
            decayed(&boxes, &[0.9, 0.8, 0.7], d, |i, s| kept.push((i, s)));
            kept
        };
        assert_eq!(run(&d), [(0, 0.9), (1, 0.8 * 0.5), (2, 0.7)]);
        assert_eq!(run(&Decay { post_threshold: 0.5, ..d }), [(0, 0.9), (2, 0.7)]);
        let gaussian = run(&Decay { gaussian: Some(2.0), ..d });
        assert!((gaussian[1].1 - 0.8 * (-0.25f64 * 2.0).exp()).abs() < 1e-12);
    }

    #[test]
    fn neighbors_are_averaged() {
        let mut boxes = [0.0f64, 0.0, 10.0, 10.0, 0.0, 0.0, 10.0, 8.0, 50.0, 50.0, 60.0, 60.0];
        let mut scores = [1.0, 3.0, 0.5];
        assert_eq!(merge_neighbors(&mut boxes, &mut scores, 4, 0.5, true), [0, 2]);
        assert_eq!(boxes[..4], [0.0, 0.0, 10.0, 8.5]);
        assert_eq!(scores[0], 4.0);
    }
}
