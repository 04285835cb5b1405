//! Mean average precision of detections.

use super::boxes::{clipped, descending, least, most};
use crate::ranking;
use crate::types::Float;
use std::collections::BTreeMap;

/// How detections are matched and averaged.
#[derive(Clone, Copy)]
pub struct PrecisionRule {
    /// Detections whose overlap with a label is above this are true positives.
    pub threshold: f32,
    /// Difficult labels count.
    pub difficult: bool,
    pub background: i32,
    /// 11-point interpolation instead of the integral.
    pub by_points: bool,
}

/// A label's box and whether it is difficult.
type Label<T> = ([T; 4], bool);

/// Intersection over union, where a box with max less than min has an area, too.
fn overlap<T: Float>(a: &[T; 4], b: &[T; 4]) -> T {
    if b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1] {
        return T::ZERO;
    }
    let side = |k: usize| least(a[k + 2], b[k + 2]) - most(a[k], b[k]);
    let area = |c: &[T; 4]| (c[2] - c[0]) * (c[3] - c[1]);
    let shared = side(0) * side(1);
    shared / (area(a) + area(b) - shared)
}

/// Per class: the number of labels, and (score, is true positive) of each detection.
#[derive(Default)]
pub struct Tally<T> {
    pub labels: BTreeMap<i32, i32>,
    pub found: BTreeMap<i32, Vec<(T, bool)>>,
    /// Paddle's second list, with negated flags: the caller's states may differ.
    pub wrong: BTreeMap<i32, Vec<(T, bool)>>,
}

impl<T: Float> Tally<T> {
    fn add(&mut self, class: i32, score: T, right: bool) {
        self.found.entry(class).or_default().push((score, right));
        self.wrong.entry(class).or_default().push((score, !right));
    }

    /// Adds an image's label rows [class, (difficult,) box] of `width` and detection rows [class, score, box].
    pub fn add_image(&mut self, labels: &[T], width: usize, detected: &[T], rule: &PrecisionRule) {
        let mut known: BTreeMap<i32, Vec<Label<T>>> = BTreeMap::new();
        for row in labels.chunks_exact(width) {
            let b = &row[width - 4..];
            let easy = width == 5 || row[1].to_f64().abs() < 1e-6;
            known.entry(row[0].to_f64() as i32).or_default().push(([b[0], b[1], b[2], b[3]], !easy));
        }
        let mut found: BTreeMap<i32, Vec<(T, [T; 4])>> = BTreeMap::new();
        for row in detected.chunks_exact(6) {
            found.entry(row[0].to_f64() as i32).or_default().push((row[1], [row[2], row[3], row[4], row[5]]));
        }
        self.image(&known, found, rule);
    }

    fn image(
        &mut self,
        labels: &BTreeMap<i32, Vec<Label<T>>>,
        mut detected: BTreeMap<i32, Vec<(T, [T; 4])>>,
        rule: &PrecisionRule,
    ) {
        for (&class, all) in labels {
            let count = all.iter().filter(|l| rule.difficult || !l.1).count() as i32;
            if count > 0 {
                let sum = self.labels.entry(class).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        for (&class, all) in &mut detected {
            let Some(known) = labels.get(&class) else {
                all.iter().for_each(|d| self.add(class, d.0, false));
                continue;
            };
            ranking::sort(all, |x, y| descending(x.0, y.0));
            let mut taken = vec![false; known.len()];
            for (score, place) in all.iter() {
                let place = place.map(|v| clipped(v, T::ONE));
                let (mut best, mut highest) = (0, T::from_f64(-1.0));
                for (k, label) in known.iter().enumerate() {
                    let shared = overlap(&place, &label.0);
                    if shared > highest {
                        (best, highest) = (k, shared);
                    }
                }
                let right = highest.to_f64() > f64::from(rule.threshold);
                if !right {
                    self.add(class, *score, false);
                } else if rule.difficult || !known[best].1 {
                    // A label matches one detection.
                    self.add(class, *score, !std::mem::replace(&mut taken[best], true));
                }
            }
        }
    }

    /// The mean of the classes' average precisions.
    pub fn precision(&self, rule: &PrecisionRule) -> T {
        let (mut sum, mut classes) = (T::ZERO, 0);
        for (class, &count) in &self.labels {
            // As in Paddle the number of labels, not the class, is compared with background_label; the default 0 skips
            // classes without labels.
            if count == rule.background {
                continue;
            }
            classes += 1;
            let Some(found) = self.found.get(class) else { continue };
            let (right, wrong) = (sums(found), sums(self.wrong.get(class).map_or(&[][..], |w| w)));
            let recall: Vec<T> = right.iter().map(|&r| T::from_f64(r) / T::from_f64(count.into())).collect();
            let precision: Vec<T> =
                right.iter().zip(&wrong).map(|(&r, &w)| T::from_f64(r) / T::from_f64(r + w)).collect();
            sum += if rule.by_points { at_points(&precision, &recall) } else { below(&precision, &recall) };
        }
        if classes > 0 {
            sum / T::from_f64(classes.into())
        } else {
            sum
        }
    }
}

/// Cumulative sums of the flags in descending order of scores.
fn sums<T: Float>(marked: &[(T, bool)]) -> Vec<f64> {
    let mut order = marked.to_vec();
    ranking::sort(&mut order, |a, b| descending(a.0, b.0));
    let mut sum = 0.0;
    order
        .iter()
        .map(|m| {
            sum += f64::from(m.1 as u8);
            sum
        })
        .collect()
}

/// 11-point interpolated average precision.
fn at_points<T: Float>(precision: &[T], recall: &[T]) -> T {
    let mut best = [T::ZERO; 11];
    let mut start = precision.len();
    for j in (0..11).rev() {
        for i in (0..start).rev() {
            if recall[i].to_f64() < j as f64 / 10.0 {
                start = i + 1;
                if j > 0 {
                    best[j - 1] = best[j];
                }
                break;
            } else if best[j] < precision[i] {
                best[j] = precision[i];
            }
        }
    }
    best.iter().rev().fold(T::ZERO, |sum, &p| sum + p / T::from_f64(11.0))
}

/// The area under the precision-recall curve, in float32 as in Paddle.
fn below<T: Float>(precision: &[T], recall: &[T]) -> T {
    let (mut area, mut before) = (0f32, 0f32);
    for (p, r) in precision.iter().zip(recall) {
        let step = (r.to_f64() - f64::from(before)).abs();
        if step > 1e-6 {
            area = (f64::from(area) + p.to_f64() * step) as f32;
        }
        before = r.to_f64() as f32;
    }
    T::from_f64(area.into())
}

/// A state's rows [score, flag] as (score, flag).
pub fn flagged<T: Float>(rows: &[T]) -> Vec<(T, bool)> {
    rows.chunks_exact(2).map(|r| (r[0], r[1].to_f64() as i32 != 0)).collect()
}

/// The rows [score, flag] of classes 0 to `classes` - 1, and the end of each class among them, after a 0.
pub fn state_rows<T: Float>(found: &BTreeMap<i32, Vec<(T, bool)>>, classes: i32) -> (Vec<T>, Vec<usize>) {
    let (mut rows, mut ends) = (Vec::new(), vec![0]);
    for class in 0..classes {
        for (score, mark) in found.get(&class).into_iter().flatten() {
            rows.extend([*score, T::from_f64(f64::from(*mark as u8))]);
        }
        ends.push(rows.len() / 2);
    }
    (rows, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PrecisionRule = PrecisionRule { threshold: 0.3, difficult: false, background: 0, by_points: false };

    fn tally(rule: &PrecisionRule) -> Tally<f64> {
        // Class 1: two labels, one of them difficult; class 2: one label without detection.
        let labels = [1.0, 0.0, 0.1, 0.1, 0.3, 0.3, 1.0, 1.0, 0.6, 0.6, 0.8, 0.8, 2.0, 0.0, 0.3, 0.3, 0.6, 0.5];
        let detected = [
            1.0, 0.3, 0.1, 0.0, 0.4, 0.3, 1.0, 0.7, 0.0, 0.1, 0.2, 0.3, 1.0, 0.9, 0.7, 0.6, 0.8, 0.8, 3.0, 0.2, 0.8,
            0.1, 1.0, 0.3,
        ];
        let mut t = Tally::default();
        t.add_image(&labels, 6, &detected, rule);
        t
    }

    #[test]
    fn detections_are_matched_once() {
        let t = tally(&RULE);
        assert_eq!(t.labels, BTreeMap::from([(1, 1), (2, 1)]));
        // By descending score; that of a difficult label does not count.
        assert_eq!(t.found[&1], [(0.7, true), (0.3, false)]);
        assert_eq!(t.wrong[&1], [(0.7, false), (0.3, true)]);
        assert_eq!(t.found[&3], [(0.2, false)]);
        let all = tally(&PrecisionRule { difficult: true, ..RULE });
        assert_eq!(all.labels[&1], 2);
        assert_eq!(all.found[&1].len(), 3);
        let (rows, ends) = state_rows(&t.found, 3);
        assert_eq!((rows.clone(), ends), (vec![0.7, 1.0, 0.3, 0.0], vec![0, 0, 2, 2]));
        assert_eq!(flagged(&rows), t.found[&1]);
    }

    #[test]
    fn precision_is_the_area_below_the_curve() {
        // One of two classes is found with precision 1.
        assert_eq!(tally(&RULE).precision(&RULE), 0.5);
        let points = PrecisionRule { by_points: true, ..RULE };
        assert!((tally(&points).precision(&points) - 0.5).abs() < 1e-12);
        assert_eq!(Tally::<f32>::default().precision(&RULE), 0.0);
        let (precision, recall) = ([1.0f64, 0.5, 2.0 / 3.0], [0.25, 0.25, 0.5]);
        assert!((below(&precision, &recall) - (0.25 + 0.25 * 2.0 / 3.0)).abs() < 1e-6);
        let plain = (0..11).map(|j| {
            let reached = (0..3).filter(|&i| recall[i] >= f64::from(j) / 10.0);
            reached.map(|i| precision[i]).fold(0.0, f64::max) / 11.0
        });
        assert!((at_points(&precision, &recall) - plain.sum::<f64>()).abs() < 1e-12);
    }
}
