//! Selected boxes of a batch of images: non-maximum suppression per class, matrix and locality-aware NMS, and the boxes
//! of several feature levels.

use super::boxes::{clipped, BoxMath, CenterSize};
use super::nms::{best, best_by_class, decayed, merge_neighbors, ranked, suppress, Decay, Found};
use crate::pool;
use crate::ranking;
use crate::types::Float;
use std::ops::Range;

/// Output rows [class, score, box], image by image.
#[derive(Debug, PartialEq)]
pub struct DetectionRows<T> {
    pub width: usize,
    pub data: Vec<T>,
    /// The index of each box among all inputs.
    pub index: Vec<i32>,
    /// The end of each image, after a 0.
    pub level: Vec<usize>,
}

impl<T: Float> DetectionRows<T> {
    /// `size`: numbers per box.
    pub fn new(size: usize) -> DetectionRows<T> {
        DetectionRows { width: size + 2, data: Vec::new(), index: Vec::new(), level: vec![0] }
    }

    pub fn push(&mut self, class: usize, score: T, place: &[T], index: usize) {
        self.data.extend([T::from_f64(class as f64), score]);
        self.data.extend_from_slice(place);
        self.index.push(index as i32);
    }

    pub fn end_image(&mut self) {
        self.level.push(self.index.len());
    }
}

/// How boxes are selected.
#[derive(Clone, Copy)]
pub struct NmsRule<T> {
    /// The class without boxes; -1 for none.
    pub background: i32,
    /// Boxes with scores up to this are dropped.
    pub score: T,
    /// Candidates of a class, and boxes of an image; all if negative.
    pub top: i32,
    pub keep: i32,
    /// Overlap threshold and its factor eta.
    pub bounds: (T, T),
    /// Coordinates are fractions of the image.
    pub normalized: bool,
}

/// Boxes and scores of all images.
pub struct ClassBoxes<'a, T> {
    pub boxes: &'a [T],
    pub scores: &'a [T],
    /// Numbers per box.
    pub size: usize,
    pub classes: usize,
    /// Boxes per image; `None` if each class has its own boxes, and images are given by LoD.
    pub per_image: Option<usize>,
}

impl<T: Float> ClassBoxes<'_, T> {
    fn score(&self, row: usize, class: usize) -> T {
        self.scores[match self.per_image {
            Some(n) => (row / n * self.classes + class) * n + row % n,
            None => row * self.classes + class,
        }]
    }

    /// The index of a box among all.
    fn number(&self, row: usize, class: usize) -> usize {
        if self.per_image.is_some() {
            row
        } else {
            row * self.classes + class
        }
    }

    fn at(&self, row: usize, class: usize) -> &[T] {
        &self.boxes[self.number(row, class) * self.size..][..self.size]
    }

    /// The selected rows of one class of an image.
    fn of_class(&self, image: Range<usize>, class: usize, rule: &NmsRule<T>) -> Vec<usize> {
        let (threshold, top) = (rule.score, rule.top);
        let candidates = match self.per_image {
            // The boxes are contiguous.
            Some(n) => {
                let first = (image.start / n.max(1) * self.classes + class) * n;
                ranked(image.zip(self.scores[first..first + n].iter().copied()), threshold, top)
            }
            None => ranked(image.map(|row| (row, self.score(row, class))), threshold, top),
        };
        let mut selected = suppress(candidates, rule.bounds, rule.normalized, |i| self.at(i, class));
        if self.per_image.is_none() {
            selected.sort_unstable();
        }
        selected
    }

    /// The selected boxes of all images, whose rows end at the offsets `level` (from 0).
    pub fn select(&self, level: &[usize], rule: &NmsRule<T>) -> DetectionRows<T> {
        let classes = self.classes;
        let mut selected: Vec<Vec<usize>> = vec![Vec::new(); (level.len() - 1) * classes];
        pool::parts(&mut selected, 1, |at, part| {
            for (k, to) in part.iter_mut().enumerate() {
                let (image, class) = ((at + k) / classes, (at + k) % classes);
                if class as i64 != i64::from(rule.background) {
                    *to = self.of_class(level[image]..level[image + 1], class, rule);
                }
            }
        });
        let mut rows = DetectionRows::new(self.size);
        for image in 0..level.len() - 1 {
            let of_image = selected[image * classes..(image + 1) * classes].iter().enumerate();
            let mut found: Vec<Found<T>> = of_image
                .flat_map(|(class, selected)| selected.iter().map(move |&at| (class, at)))
                .map(|(class, at)| Found { class, at, score: self.score(at, class) })
                .collect();
            best_by_class(&mut found, rule.keep);
            if self.per_image.is_none() {
                ranking::sort(&mut found, |a, b| (a.class, a.at).cmp(&(b.class, b.at)));
            }
            for f in found {
                rows.push(f.class, f.score, self.at(f.at, f.class), self.number(f.at, f.class));
            }
            rows.end_image();
        }
        rows
    }
}

/// Matrix NMS of boxes [images, `n`, 4] with scores [images, classes, `n`].
pub fn matrix<T: Float>(
    (boxes, scores): (&[T], &[T]),
    (images, classes, n): (usize, usize, usize),
    decay: &Decay<T>,
    background: i32,
    keep: i32,
) -> DetectionRows<T> {
    let mut rows = DetectionRows::new(4);
    for image in 0..images {
        let own = &boxes[image * n * 4..(image + 1) * n * 4];
        let mut found = Vec::new();
        for class in (0..classes).filter(|&c| c as i64 != i64::from(background)) {
            let of_class = &scores[(image * classes + class) * n..][..n];
            decayed(own, of_class, decay, |at, score| found.push(Found { class, at, score }));
        }
        best(&mut found, keep);
        for f in found {
            rows.push(f.class, f.score, &own[f.at * 4..f.at * 4 + 4], image * n + f.at);
        }
        rows.end_image();
    }
    rows
}

/// Locality-aware NMS of boxes [images, `n`, `size`] with scores [images, classes, `n`]; both are changed.
pub fn locality_aware<T: Float>(
    (boxes, scores): (&mut [T], &mut [T]),
    (images, classes, n): (usize, usize, usize),
    size: usize,
    rule: &NmsRule<T>,
) -> DetectionRows<T> {
    let mut rows = DetectionRows::new(size);
    for image in 0..images {
        let own = &mut boxes[image * n * size..(image + 1) * n * size];
        let mut found = Vec::new();
        // Boxes are shared by all classes: merges of earlier classes affect later ones.
        for class in (0..classes).filter(|&c| c as i64 != i64::from(rule.background)) {
            let scores = &mut scores[(image * classes + class) * n..][..n];
            let left = merge_neighbors(own, scores, size, rule.bounds.0, rule.normalized);
            let order = ranked(left.iter().map(|&i| (i, scores[i])), rule.score, rule.top);
            let kept = suppress(order, rule.bounds, rule.normalized, |i| &own[i * size..(i + 1) * size]);
            found.extend(kept.into_iter().map(|at| Found { class, at, score: scores[at] }));
        }
        best_by_class(&mut found, rule.keep);
        for f in found {
            rows.push(f.class, f.score, &own[f.at * size..(f.at + 1) * size], f.at);
        }
        rows.end_image();
    }
    rows
}

/// A feature level of an image: deltas [count, 4] of anchors [count, 4], scores [count, classes].
pub struct FeatureLevel<'a, T> {
    pub deltas: &'a [T],
    pub scores: &'a [T],
    pub anchors: &'a [T],
}

/// Adds the boxes of an image from several feature levels; `info` is its height, width and scale. On the last level all
/// scores above 0 are candidates.
pub fn of_levels<T: Float>(
    levels: &[FeatureLevel<T>],
    classes: usize,
    info: &[T],
    rule: &NmsRule<T>,
    rows: &mut DetectionRows<T>,
) {
    let end = [1, 0].map(|k| BoxMath::round(info[k] / info[2]) - T::ONE);
    let mut decoded: Vec<Vec<([T; 4], T)>> = vec![Vec::new(); classes];
    for (l, level) in levels.iter().enumerate() {
        // On the last level all scores above 0 are candidates.
        let threshold = if l + 1 < levels.len() { rule.score } else { T::ZERO };
        for k in ranked(level.scores.iter().copied().enumerate(), threshold, rule.top) {
            let (i, class) = (k / classes * 4, k % classes);
            let d = &level.deltas[i..i + 4];
            let place = CenterSize::new(&level.anchors[i..i + 4], false).moved([d[0], d[1], d[2], d[3]], false);
            let mut edge = 0;
            let place = place.map(|v| {
                edge += 1;
                clipped(v / info[2], end[(edge - 1) % 2])
            });
            decoded[class].push((place, level.scores[k]));
        }
    }
    let mut found = Vec::new();
    for (class, all) in decoded.iter().enumerate() {
        let order = ranked(all.iter().map(|b| b.1).enumerate(), T::from_f64(f64::NEG_INFINITY), -1);
        let selected = suppress(order, rule.bounds, false, |i| &all[i].0);
        found.extend(selected.into_iter().map(|at| Found { class, at, score: all[at].1 }));
    }
    best(&mut found, rule.keep);
    for f in found {
        // Class 0 is the background, without scores.
        rows.push(f.class + 1, f.score, &decoded[f.class][f.at].0, f.at);
    }
    rows.end_image();
}

#[cfg(test)]
mod tests {
    use super::super::boxes::iou;
    use super::*;

    const RULE: NmsRule<f64> =
        NmsRule { background: 0, score: 0.1, top: -1, keep: 6, bounds: (0.4, 1.0), normalized: true };

    /// Boxes [images, n, 4] and scores [images, classes, n].
    fn case(images: usize, classes: usize, n: usize) -> (Vec<f64>, Vec<f64>) {
        let at = |i: usize, m: usize| (i * 7919 % m) as f64;
        let boxes = (0..images * n).flat_map(|i| [at(i, 31), at(i + 7, 29), at(i, 31) + 12.0, at(i + 7, 29) + 15.0]);
        (boxes.collect(), (0..images * classes * n).map(|i| at(i + 3, 97) / 97.0).collect())
    }

    /// NMS of one class by a plain loop over boxes in descending order of scores.
    fn plain(boxes: &[f64], scores: &[f64], normalized: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..scores.len()).filter(|&i| scores[i] > 0.1).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut kept: Vec<usize> = vec![];
        for i in order {
            if kept.iter().all(|&k| iou(&boxes[i * 4..][..4], &boxes[k * 4..][..4], normalized) <= 0.4) {
                kept.push(i);
            }
        }
        kept
    }

    #[test]
    fn images_and_classes_are_selected_apart() {
        let (images, classes, n) = (3, 3, 11);
        let (boxes, scores) = case(images, classes, n);
        let all = ClassBoxes { boxes: &boxes, scores: &scores, size: 4, classes, per_image: Some(n) };
        let rows = all.select(&[0, 11, 22, 33], &RULE);
        let mut want = DetectionRows::new(4);
        for image in 0..images {
            let mut found = vec![];
            for class in 1..classes {
                let of_class = &scores[(image * classes + class) * n..][..n];
                found.extend(
                    plain(&boxes[image * n * 4..][..n * 4], of_class, true)
                        .into_iter()
                        .map(|i| (class, i, of_class[i])),
                );
            }
            if found.len() > 6 {
                found.sort_by(|a, b| b.2.total_cmp(&a.2));
                found.truncate(6);
                found.sort_by_key(|f| f.0);
            }
            found.iter().for_each(|f| want.push(f.0, f.2, &boxes[(image * n + f.1) * 4..][..4], image * n + f.1));
            want.end_image();
        }
        assert_eq!(rows, want);
        // The same boxes for each class, of images by offsets.
        let (own, by_row) = (
            (0..n * classes).flat_map(|k| boxes[k / classes * 4..][..4].to_vec()).collect::<Vec<f64>>(),
            (0..n * classes).map(|k| scores[k % classes * n + k / classes]).collect::<Vec<f64>>(),
        );
        let all = ClassBoxes { boxes: &own, scores: &by_row, size: 4, classes, per_image: None };
        let lod = all.select(&[0, 11, 11], &NmsRule { keep: -1, ..RULE });
        let count = rows.level[1].max(lod.level[1]);
        assert!(count > 0 && lod.level == [0, lod.level[1], lod.level[1]]);
        assert!(lod.index.iter().all(|&i| (i as usize) < n * classes && !(i as usize).is_multiple_of(classes)));
        assert!(lod.index.is_sorted_by_key(|&i| (i as usize % classes, i)));
    }

    #[test]
    fn matrix_rows_are_the_decayed_boxes() {
        let (boxes, scores) = case(2, 3, 9);
        let decay = Decay { score_threshold: 0.1, post_threshold: 0.2, top: -1, normalized: true, gaussian: None };
        let rows = matrix((&boxes, &scores), (2, 3, 9), &decay, 0, 5);
        let mut want = DetectionRows::new(4);
        for image in 0..2 {
            let mut found = vec![];
            for class in 1..3 {
                decayed(&boxes[image * 36..][..36], &scores[(image * 3 + class) * 9..][..9], &decay, |at, score| {
                    found.push((class, at, score))
                });
            }
            found.sort_by(|a, b| b.2.total_cmp(&a.2));
            found.truncate(5);
            found.iter().for_each(|f| want.push(f.0, f.2, &boxes[(image * 9 + f.1) * 4..][..4], image * 9 + f.1));
            want.end_image();
        }
        assert_eq!(rows, want);
    }

    #[test]
    fn merged_neighbors_are_suppressed() {
        let mut boxes = [0.0f64, 0.0, 10.0, 10.0, 0.0, 0.0, 10.0, 8.0, 50.0, 50.0, 60.0, 60.0, 50.0, 50.0, 59.0, 60.0];
        let mut scores = [1.0, 3.0, 0.5, 0.05];
        let rule = NmsRule { background: -1, bounds: (0.5, 1.0), ..RULE };
        let rows = locality_aware((&mut boxes, &mut scores), (1, 1, 4), 4, &rule);
        assert_eq!(rows.data[..6], [0.0, 4.0, 0.0, 0.0, 10.0, 8.5]);
        assert_eq!((rows.index, rows.level), (vec![0, 2], vec![0, 2]));
    }

    #[test]
    fn levels_are_decoded_and_suppressed() {
        let anchors = [[0.0f64, 0.0, 9.0, 9.0], [20.0, 20.0, 39.0, 29.0]];
        let levels = [
            FeatureLevel { deltas: &[0.0; 4], scores: &[0.9, 0.05], anchors: &anchors[0] },
            FeatureLevel { deltas: &[0.5, 0.0, 0.0, 0.0], scores: &[0.2, 0.06], anchors: &anchors[1] },
        ];
        let rule = NmsRule { keep: 10, normalized: false, ..RULE };
        let mut rows = DetectionRows::new(4);
        of_levels(&levels, 2, &[60.0, 80.0, 2.0], &rule, &mut rows);
        // On the last level scores below the threshold are candidates; coordinates are those of the unscaled image.
        let want =
            [[1.0, 0.9, 0.0, 0.0, 4.5, 4.5], [1.0, 0.2, 15.0, 10.0, 24.5, 14.5], [2.0, 0.06, 15.0, 10.0, 24.5, 14.5]];
        assert_eq!(rows.data, want.concat());
        assert_eq!(rows.level, [0, 3]);
    }
}
