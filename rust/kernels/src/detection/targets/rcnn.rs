//! generate_proposal_labels: sampled proposals and ground truth boxes with classes and target deltas.

use super::{corners, delta, overlap, Draws};
use crate::detection::boxes::{most, Corners};
use crate::types::Float;

/// Overlaps that differ by less are equal.
const NEAR: f64 = 1e-5;

/// How boxes are sampled and labelled.
pub struct SamplingRule<'a> {
    /// Boxes per image, and the fraction of foreground boxes.
    pub samples: i32,
    pub fraction: f32,
    /// The least overlap of foreground boxes; the range of those of background boxes, without its end.
    pub foreground: f32,
    pub background: (f32, f32),
    /// Divisors of the four deltas.
    pub weights: &'a [f32],
    pub classes: i32,
    /// All foreground boxes have deltas of class 1.
    pub agnostic: bool,
}

/// The sampled boxes of an image: ground truth boxes first, then proposals.
struct Drawn {
    /// Foreground boxes, and the ground truth box of each.
    objects: Vec<(usize, usize)>,
    background: Vec<usize>,
}

fn draw<R: Float>(
    rule: &SamplingRule,
    draws: Option<&Draws>,
    overlaps: &[R],
    shared: &dyn Fn(usize, usize) -> R,
    crowd: &[bool],
) -> Drawn {
    let mut drawn = Drawn { objects: Vec::new(), background: Vec::new() };
    let at_least = |v: R, bound: f32| v >= R::from_f64(bound as f64);
    for (i, &most) in overlaps.iter().enumerate() {
        if crowd.get(i) == Some(&true) {
            // Without overlap Paddle compares -1 with the bounds.
            if at_least(R::from_f64(-1.0), rule.background.0) && !at_least(R::from_f64(-1.0), rule.background.1) {
                drawn.background.push(i);
            }
        } else if at_least(most, rule.foreground) {
            let same = |&j: &usize| (most - shared(i, j)).to_f64().abs() < NEAR;
            drawn.objects.extend((0..crowd.len()).find(same).map(|j| (i, j)));
        } else if at_least(most, rule.background.0) && !at_least(most, rule.background.1) {
            drawn.background.push(i);
        }
    }
    if let Some(draws) = draws {
        let all = rule.samples as i64;
        draws.keep(&mut drawn.objects, ((all as f32 * rule.fraction).floor() as i64).max(0));
        draws.keep(&mut drawn.background, (all - drawn.objects.len() as i64).max(0));
    }
    drawn
}

/// The sampled boxes of all images.
#[derive(Default)]
pub struct ProposalResults<R> {
    pub rois: Vec<R>,
    pub labels: Vec<i32>,
    /// Row, class and delta of each foreground box.
    pub targets: Vec<(usize, usize, [R; 4])>,
    /// The greatest overlap of each box with a ground truth box.
    pub overlaps: Vec<R>,
}

/// The proposals and ground truth boxes of an image.
pub struct ProposalTargets<'a, R> {
    pub rois: &'a [R],
    /// The overlap of each proposal in the stage before, in a cascade.
    pub seen: Option<&'a [R]>,
    pub boxes: &'a [R],
    pub classes: &'a [i32],
    pub crowd: &'a [i32],
    /// The scale of proposals relative to ground truth boxes.
    pub scale: R,
}

impl<R: Float> ProposalTargets<'_, R> {
    /// The proposals in ground truth coordinates; a cascade drops empty boxes and ground truth boxes.
    fn proposals(&self) -> Vec<Corners<R>> {
        let all = corners(self.rois).map(|b| b.map(|v| v / self.scale));
        let Some(seen) = self.seen else { return all.collect() };
        let area = |b: &Corners<R>| b[2] - b[0] + R::ONE > R::ZERO && b[3] - b[1] + R::ONE > R::ZERO;
        let remaining: Vec<_> = all.zip(seen).filter(|(b, &o)| area(b) && o < R::ONE).map(|(b, _)| b).collect();
        if remaining.is_empty() {
            return vec![[R::ZERO; 4]];
        }
        remaining
    }

    /// Appends the sampled boxes. Without `draws` all are kept. The error is a class that is too large.
    pub fn run(&self, rule: &SamplingRule, draws: Option<&Draws>, all: &mut ProposalResults<R>) -> Result<(), i32> {
        let truth: Vec<Corners<R>> = corners(self.boxes).collect();
        let boxes: Vec<Corners<R>> = truth.iter().copied().chain(self.proposals()).collect();
        let shared = |i: usize, j: usize| overlap(&boxes[i], &truth[j]);
        let most = |i: usize| (0..truth.len()).map(|j| shared(i, j)).fold(R::ZERO, most);
        let overlaps: Vec<R> = (0..boxes.len()).map(most).collect();
        let crowd: Vec<bool> = self.crowd.iter().map(|&c| c != 0).collect();
        let drawn = draw(rule, draws, &overlaps, &shared, &crowd);
        for &(i, j) in &drawn.objects {
            let label = self.classes[j];
            if label >= rule.classes || (label > 0 && rule.agnostic && rule.classes <= 1) {
                return Err(label);
            }
            if label > 0 {
                let class = if rule.agnostic { 1 } else { label as usize };
                let moved = delta(&boxes[i], &truth[j], Some(rule.weights));
                all.targets.push((all.labels.len(), class, moved));
            }
            all.labels.push(label);
        }
        all.labels.extend(drawn.background.iter().map(|_| 0));
        for i in drawn.objects.iter().map(|o| o.0).chain(drawn.background) {
            all.rois.extend(boxes[i].map(|v| v * self.scale));
            all.overlaps.push(overlaps[i]);
        }
        Ok(())
    }
}

/// The deltas (or weights, 1 for each delta) of all boxes, four per class.
pub fn table<R: Float>(all: &ProposalResults<R>, classes: usize, weights: bool) -> Vec<R> {
    let width = 4 * classes;
    let mut table = vec![R::ZERO; all.labels.len() * width];
    for &(row, class, moved) in &all.targets {
        table[row * width + class * 4..][..4].copy_from_slice(&if weights { [R::ONE; 4] } else { moved });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: SamplingRule = SamplingRule {
        samples: 4,
        fraction: 0.5,
        foreground: 0.5,
        background: (0.0, 0.5),
        weights: &[1.0, 1.0, 1.0, 1.0],
        classes: 6,
        agnostic: false,
    };

    #[test]
    fn boxes_are_labelled_by_their_overlap() {
        let image = ProposalTargets {
            rois: &[0.0, 0.0, 18.0, 18.0, 60.0, 60.0, 70.0, 70.0, 2.0, 0.0, 20.0, 18.0],
            seen: None,
            boxes: &[0.0f64, 0.0, 9.0, 9.0, 20.0, 20.0, 25.0, 25.0],
            classes: &[3, 4],
            crowd: &[0, 1],
            scale: 2.0,
        };
        let mut all = ProposalResults::default();
        image.run(&RULE, None, &mut all).unwrap();
        // The ground truth box and two proposals; the crowd takes no part; one proposal of the background.
        assert_eq!(all.labels, [3, 3, 3, 0]);
        assert_eq!(all.rois[..8], [0.0, 0.0, 18.0, 18.0, 0.0, 0.0, 18.0, 18.0]);
        assert_eq!(all.rois[12..], [60.0, 60.0, 70.0, 70.0]);
        assert_eq!(all.targets[2].2, delta(&[1.0, 0.0, 10.0, 9.0], &[0.0, 0.0, 9.0, 9.0], None));
        assert_eq!(all.overlaps[2..], [90.0 / 110.0, 0.0]);
        let (deltas, weights) = (table(&all, 6, false), table(&all, 6, true));
        assert_eq!(deltas[2 * 24 + 12..][..4], all.targets[2].2);
        assert_eq!(weights.iter().sum::<f64>(), 12.0);
        assert!(weights[3 * 24..].iter().all(|&w| w == 0.0));
        let mut some = ProposalResults::default();
        image.run(&RULE, Some(&Draws::new(None)), &mut some).unwrap();
        assert_eq!(some.labels, [3, 3, 0]);
        let few = SamplingRule { classes: 3, ..RULE };
        assert_eq!(image.run(&few, None, &mut some), Err(3));
    }

    #[test]
    fn a_cascade_drops_empty_boxes_and_ground_truth() {
        let image = ProposalTargets {
            rois: &[0.0f32, 0.0, 9.0, 9.0, 5.0, 5.0, 1.0, 9.0, 50.0, 50.0, 60.0, 60.0],
            seen: Some(&[0.8, 0.6, 1.0]),
            boxes: &[0.0, 0.0, 9.0, 9.0],
            classes: &[1],
            crowd: &[0],
            scale: 1.0,
        };
        assert_eq!(image.proposals(), [[0.0, 0.0, 9.0, 9.0]]);
        let none = ProposalTargets { seen: Some(&[1.0, 1.0, 1.0]), ..image };
        assert_eq!(none.proposals(), [[0.0; 4]]);
    }
}
