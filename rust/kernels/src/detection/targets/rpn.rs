//! rpn_target_assign and retinanet_target_assign: foreground and background anchors, and target deltas.

use super::{corners, delta, overlap, Draws};
use crate::detection::boxes::Corners;
use crate::types::Float;
use std::ops::Range;

/// Overlaps that differ by less are equal.
const NEAR: f64 = 1e-5;

/// Overlap thresholds of foreground and background, and the number of samples.
#[derive(Clone, Copy)]
pub struct AnchorRule {
    pub positive: f32,
    pub negative: f32,
    /// (anchors per image, foreground fraction)
    pub drawn: Option<(i32, f32)>,
}

/// The selected anchors of an image.
#[derive(Default)]
struct Chosen {
    /// Foreground anchors, preceded by placeholders for anchors that are also background.
    located: Vec<usize>,
    stand_ins: usize,
    objects: Vec<usize>,
    background: Vec<usize>,
    /// The ground truth box of greatest overlap of each anchor.
    best: Vec<usize>,
}

fn choose<R: Float>(rule: &AnchorRule, anchors: &[Corners<R>], boxes: &[Corners<R>], draws: &Draws) -> Chosen {
    let mut most = vec![R::from_f64(f64::NEG_INFINITY); anchors.len()];
    let mut of_box = vec![R::from_f64(f64::NEG_INFINITY); boxes.len()];
    let mut best = vec![0; anchors.len()];
    for (i, a) in anchors.iter().enumerate() {
        for (j, b) in boxes.iter().enumerate() {
            let value = overlap(a, b);
            if value > most[i] {
                (most[i], best[i]) = (value, j);
            }
            if value > of_box[j] {
                of_box[j] = value;
            }
        }
    }
    // An anchor is foreground if its overlap reaches the threshold or is an object's maximum.
    let positive = |i: &usize| {
        let of_any = || {
            let a = &anchors[*i];
            boxes.iter().zip(&of_box).any(|(b, &most)| (overlap(a, b) - most).to_f64().abs() < NEAR)
        };
        !boxes.is_empty() && (most[*i] >= R::from_f64(rule.positive as f64) || of_any())
    };
    let mut objects: Vec<usize> = (0..anchors.len()).filter(positive).collect();
    let sampling = rule.drawn.filter(|&(all, share)| all > 0 && share > 0.0);
    if let Some((all, share)) = sampling {
        draws.keep(&mut objects, (share * all as f32) as i64);
    }
    let mut background: Vec<usize> =
        (0..anchors.len()).filter(|&i| most[i] < R::from_f64(rule.negative as f64)).collect();
    if let Some((all, _)) = sampling {
        draws.keep(&mut background, all as i64 - objects.len() as i64);
    }
    // If an anchor is both, background wins; a placeholder of weight 0 keeps the number of locations.
    let mut label = vec![-1i8; anchors.len()];
    objects.iter().for_each(|&i| label[i] = 1);
    let first = objects.first().copied();
    let mut located = Vec::new();
    for &i in &background {
        if label[i] == 1 {
            located.extend(first);
        }
        label[i] = 0;
    }
    let stand_ins = located.len();
    let of = |wanted: i8| (0..label.len()).filter(|&i| label[i] == wanted).collect::<Vec<_>>();
    let (objects, background) = (of(1), of(0));
    located.extend(&objects);
    Chosen { located, stand_ins, objects, background, best }
}

/// Anchors, and the ground truth boxes of all images.
pub struct AnchorTargets<'a, R> {
    pub anchors: &'a [R],
    pub boxes: &'a [R],
    /// The rows of `boxes` of each image.
    pub images: Vec<Range<usize>>,
    /// 1 for a box around many objects, per box.
    pub crowd: &'a [i32],
    /// The class of each box; `None`: 1 for all.
    pub labels: Option<&'a [i32]>,
    /// Height, width and scale of each image.
    pub info: &'a [R],
}

/// The targets of all images.
pub struct AnchorResults<R> {
    /// Anchors with a location, numbered over all images.
    pub location: Vec<i32>,
    /// Anchors with a label, foreground before background.
    pub score: Vec<i32>,
    /// Four deltas per location.
    pub target: Vec<R>,
    pub label: Vec<i32>,
    /// Four weights per location, 0 for placeholders.
    pub weight: Vec<R>,
    /// Locations of each image, plus 1.
    pub count: Vec<i32>,
    /// The end of each image among locations and among labels, after a 0.
    pub located: Vec<usize>,
    pub scored: Vec<usize>,
}

impl<R: Float> AnchorTargets<'_, R> {
    /// Anchors that exceed the image by at most `straddle`; all if it is negative.
    fn inside(&self, straddle: f32, image: usize) -> Vec<usize> {
        let far = R::from_f64(straddle as f64);
        let (height, width) = (self.info[image * 3], self.info[image * 3 + 1]);
        let fits = |b: &Corners<R>| {
            b[0] >= R::ZERO - far && b[1] >= R::ZERO - far && b[2] < width + far && b[3] < height + far
        };
        let all = corners(self.anchors).enumerate();
        all.filter(|(_, b)| straddle < 0.0 || fits(b)).map(|(i, _)| i).collect()
    }

    pub fn run(&self, straddle: f32, rule: &AnchorRule, draws: &Draws) -> AnchorResults<R> {
        let mut all = AnchorResults {
            location: Vec::new(),
            score: Vec::new(),
            target: Vec::new(),
            label: Vec::new(),
            weight: Vec::new(),
            count: Vec::new(),
            located: vec![0],
            scored: vec![0],
        };
        let anchors: Vec<Corners<R>> = corners(self.anchors).collect();
        for (image, rows) in self.images.iter().enumerate() {
            let scale = self.info[image * 3 + 2];
            let inside = self.inside(straddle, image);
            let near: Vec<_> = inside.iter().map(|&i| anchors[i]).collect();
            let not_crowd: Vec<usize> = rows.clone().filter(|&i| self.crowd[i] == 0).collect();
            let boxes: Vec<_> =
                not_crowd.iter().map(|&i| [0, 1, 2, 3].map(|k| self.boxes[i * 4 + k] * scale)).collect();
            let chosen = choose(rule, &near, &boxes, draws);
            let numbered = |i: &usize| (image * anchors.len() + inside[*i]) as i32;
            all.location.extend(chosen.located.iter().map(numbered));
            all.score.extend(chosen.objects.iter().chain(&chosen.background).map(numbered));
            for &i in &chosen.located {
                all.target.extend(delta(&near[i], &boxes[chosen.best[i]], None));
            }
            let class = |i: &usize| self.labels.map_or(1, |l| l[not_crowd[chosen.best[*i]]]);
            all.label.extend(chosen.objects.iter().map(class));
            all.label.extend(chosen.background.iter().map(|_| 0));
            all.weight.extend((0..chosen.located.len() * 4).map(|i| match i < chosen.stand_ins * 4 {
                true => R::ZERO,
                false => R::ONE,
            }));
            all.count.push(chosen.located.len() as i32 + 1);
            all.located.push(all.location.len());
            all.scored.push(all.score.len());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(x: f64, y: f64, side: f64) -> [f64; 4] {
        [x, y, x + side - 1.0, y + side - 1.0]
    }

    #[test]
    fn anchors_are_labelled_by_their_overlap() {
        // The second object has no anchor above the threshold: its best one is foreground.
        let anchors =
            [square(0.0, 0.0, 10.0), square(1.0, 0.0, 10.0), square(20.0, 20.0, 10.0), square(60.0, 60.0, 10.0)];
        let boxes = [square(0.0, 0.0, 5.0), square(10.0, 10.0, 7.0), square(0.0, 0.0, 50.0)];
        let call = AnchorTargets {
            anchors: &anchors.concat(),
            boxes: &boxes.concat(),
            images: vec![0..3, 3..3],
            crowd: &[0, 0, 1],
            labels: Some(&[5, 7, 9]),
            info: &[40.0, 40.0, 2.0, 40.0, 40.0, 1.0],
        };
        let rule = AnchorRule { positive: 0.7, negative: 0.1, drawn: None };
        let all = call.run(-1.0, &rule, &Draws::new(None));
        // Boxes are scaled by 2. Without ground truth all anchors of the second image are background.
        assert_eq!(all.location, [0, 2]);
        assert_eq!(all.score, [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(all.label, [5, 7, 0, 0, 0, 0, 0]);
        assert_eq!((all.located, all.scored, all.count), (vec![0, 2, 2], vec![0, 3, 7], vec![3, 1]));
        assert_eq!(all.target[..4], delta(&anchors[0], &boxes[0].map(|v| v * 2.0), None));
        assert_eq!(all.target[4..8], delta(&anchors[2], &boxes[1].map(|v| v * 2.0), None));
        assert!(all.weight.iter().all(|&w| w == 1.0));
        // Anchors outside the image take no part.
        let inside = call.run(0.0, &rule, &Draws::new(None));
        assert_eq!(inside.score, [0, 2, 4, 5, 6]);
    }

    #[test]
    fn a_placeholder_keeps_the_number_of_locations() {
        // The only anchor is the best of the object and below the negative threshold.
        let anchors = [square(0.0, 0.0, 10.0)].concat();
        let boxes = square(5.0, 5.0, 40.0);
        let call = AnchorTargets {
            anchors: &anchors,
            boxes: &boxes,
            images: vec![0..1],
            crowd: &[0],
            labels: None,
            info: &[99.0, 99.0, 1.0],
        };
        let rule = AnchorRule { positive: 0.7, negative: 0.3, drawn: Some((4, 0.5)) };
        let all = call.run(0.0, &rule, &Draws::new(None));
        assert_eq!((all.location, all.score, all.label), (vec![0], vec![0], vec![0]));
        assert_eq!(all.weight, [0.0; 4]);
    }
}
