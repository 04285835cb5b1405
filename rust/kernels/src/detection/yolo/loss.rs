//! yolov3_loss: sigmoid cross entropy of centers, objectness and classes, absolute differences of sizes.

use super::{center_scale, input_size, AnchorOutput, YoloGrid};
use crate::detection::boxes::BoxMath;
use crate::pool;
use crate::types::Float;

/// A box by center and size, relative to the image.
#[derive(Clone, Copy)]
struct Centered<T> {
    x: T,
    y: T,
    w: T,
    h: T,
}

impl<T: Float> Centered<T> {
    fn iou(&self, o: &Centered<T>) -> T {
        let side = |c1: T, w1: T, c2: T, w2: T| {
            let two = T::from_f64(2.0);
            let (l1, l2, r1, r2) = (c1 - w1 / two, c2 - w2 / two, c1 + w1 / two, c2 + w2 / two);
            (if r1 < r2 { r1 } else { r2 }) - (if l1 > l2 { l1 } else { l2 })
        };
        let (w, h) = (side(self.x, self.w, o.x, o.w), side(self.y, self.h, o.y, o.h));
        let shared = if w < T::ZERO || h < T::ZERO { T::ZERO } else { w * h };
        shared / (self.w * self.h + o.w * o.h - shared)
    }
}

/// Inputs of the loss and its gradient.
pub struct YoloLoss<'a, T> {
    pub g: YoloGrid,
    /// Widths and heights of all anchors, in pixels of the network's input, and the numbers of this output's anchors.
    pub anchors: &'a [i32],
    pub mask: &'a [i32],
    /// The network's input is this much larger than its grid.
    pub ratio: i32,
    /// Predictions that overlap an object by more are not penalized as background.
    pub ignore: f32,
    /// The factor of the centers' sigmoid.
    pub scale: f32,
    pub x: &'a [T],
    /// Objects by center and size, relative to the image; their classes and scores (1 without any).
    pub boxes: &'a [T],
    pub labels: &'a [i32],
    pub scores: Option<&'a [T]>,
    /// Object rows per image, including padding.
    pub count: usize,
    /// Target scores of an object's class and of the others.
    pub targets: [T; 2],
}

/// The assignment of an object: its anchor (over all images), grid position, targets and weights.
struct Assignment<T> {
    cell: AnchorOutput,
    place: [T; 4],
    weight: T,
    score: T,
    label: i32,
}

/// Sigmoid cross entropy of a logit.
fn entropy<T: Float>(x: T, label: T) -> T {
    let softened = (-x.to_f64().abs()).exp().ln_1p();
    T::from_f64((if x > T::ZERO { x } else { T::ZERO } - x * label).to_f64() + softened)
}

fn entropy_slope<T: Float>(x: T, label: T) -> T {
    T::from_f64(1.0 / (1.0 + (-x.to_f64()).exp()) - label.to_f64())
}

/// Weight and target of a position's objectness; `None` if a prediction overlaps an object well.
fn weight_of<T: Float>(mask: T) -> Option<(T, T)> {
    if mask.to_f64() > 1e-5 {
        Some((mask, T::ONE))
    } else {
        (mask.to_f64() > -0.5).then_some((T::ONE, T::ZERO))
    }
}

impl<T: Float> YoloLoss<'_, T> {
    fn object(&self, k: usize) -> Centered<T> {
        let b = &self.boxes[k * 4..k * 4 + 4];
        Centered { x: b[0], y: b[1], w: b[2], h: b[3] }
    }

    /// Rows without width or height are padding.
    fn is_object(&self, k: usize) -> bool {
        let b = self.object(k);
        !(b.w.to_f64() < 1e-6 || b.h.to_f64() < 1e-6)
    }

    fn input(&self) -> T {
        input_size(self.ratio, self.g.rows)
    }

    /// The predicted box at a grid position.
    fn predicted_box(&self, anchor: usize, place: usize) -> Centered<T> {
        let (g, (scale, bias)) = (self.g, center_scale::<T>(self.scale));
        let cell = g.anchor_output(anchor, place);
        let own = self.mask[anchor % g.anchors] as usize * 2;
        let center = |k: usize, i: usize| {
            (T::from_f64(i as f64) + BoxMath::sigmoid(self.x[cell.nth(k)]) * scale + bias) / T::from_f64(g.rows as f64)
        };
        let side =
            |k: usize| BoxMath::exp(self.x[cell.nth(2 + k)]) * T::from_f64(self.anchors[own + k].into()) / self.input();
        Centered { x: center(0, place % g.columns), y: center(1, place / g.columns), w: side(0), h: side(1) }
    }

    /// The index in anchor_mask of the anchor closest to an object, -1 if another output has it.
    fn mask_of(&self, k: usize) -> i32 {
        let shape = Centered { x: T::ZERO, y: T::ZERO, ..self.object(k) };
        let (mut best, mut highest) = (0, T::ZERO);
        for (i, sides) in self.anchors.chunks_exact(2).enumerate() {
            let [w, h] = [sides[0], sides[1]].map(|n| T::from_f64(n.into()) / self.input());
            let iou = Centered { x: T::ZERO, y: T::ZERO, w, h }.iou(&shape);
            if iou > highest {
                (best, highest) = (i as i32, iou);
            }
        }
        self.mask.iter().position(|&m| m == best).map_or(-1, |i| i as i32)
    }

    /// The assignment of an object. A center outside the grid is assigned to the nearest position.
    fn assignment(&self, k: usize, mask: usize) -> Assignment<T> {
        let (g, b) = (self.g, self.object(k));
        let spot = |c: T, n: usize| ((c * T::from_f64(n as f64)).to_f64() as usize).min(n - 1);
        let (i, j) = (spot(b.x, g.columns), spot(b.y, g.rows));
        let own = self.mask[mask] as usize * 2;
        let size = T::from_f64(g.rows as f64);
        let ln = |side: T, k: usize| {
            T::from_f64((side * self.input() / T::from_f64(self.anchors[own + k].into())).to_f64().ln())
        };
        let score = self.scores.map_or(T::ONE, |s| s[k]);
        Assignment {
            cell: g.anchor_output(k / self.count * g.anchors + mask, j * g.columns + i),
            place: [b.x * size - T::from_f64(i as f64), b.y * size - T::from_f64(j as f64), ln(b.w, 0), ln(b.h, 1)],
            weight: (T::from_f64(2.0) - b.w * b.h) * score,
            score,
            label: self.labels[k],
        }
    }

    fn target(&self, label: i32, class: usize) -> T {
        self.targets[usize::from(i64::from(label) != class as i64)]
    }

    /// Writes the loss of each image, the objectness target of each position (the score of an object, -1 where a
    /// prediction overlaps an object well, else 0; `objects` holds zeros), and the index in `mask` of each object's
    /// anchor, or -1.
    pub fn forward(&self, losses: &mut [T], objects: &mut [T], ids: &mut [i32]) {
        let (places, g) = (self.g.places(), self.g);
        let valid: Vec<bool> = (0..self.labels.len()).map(|k| self.is_object(k)).collect();
        // Predictions that overlap an object well are not penalized as background.
        pool::parts(objects, 1 << 8, |at, part| {
            for (n, to) in part.iter_mut().enumerate() {
                let (anchor, place) = ((at + n) / places, (at + n) % places);
                let own = anchor / g.anchors * self.count;
                let (predicted, mut best) = (self.predicted_box(anchor, place), T::ZERO);
                for k in (own..own + self.count).filter(|&k| valid[k]) {
                    let iou = predicted.iou(&self.object(k));
                    best = if iou > best { iou } else { best };
                }
                if best > T::from_f64(self.ignore.into()) {
                    *to = T::from_f64(-1.0);
                }
            }
        });
        for (image, sum) in losses.iter_mut().enumerate() {
            *sum = T::ZERO;
            for k in image * self.count..(image + 1) * self.count {
                ids[k] = if valid[k] && places > 0 { self.mask_of(k) } else { -1 };
                if ids[k] < 0 {
                    continue;
                }
                let assigned = self.assignment(k, ids[k] as usize);
                let x = |n: usize| self.x[assigned.cell.nth(n)];
                for n in 0..2 {
                    *sum += entropy(x(n), assigned.place[n]) * assigned.weight;
                }
                for n in 2..4 {
                    *sum += T::from_f64((assigned.place[n] - x(n)).to_f64().abs()) * assigned.weight;
                }
                let place = assigned.cell.at % places;
                objects[(image * g.anchors + ids[k] as usize) * places + place] = assigned.score;
                for class in 0..g.classes {
                    *sum += entropy(x(5 + class), self.target(assigned.label, class)) * assigned.score;
                }
            }
            let own = image * g.anchors * places;
            for (n, &mask) in (own..).zip(&objects[own..own + g.anchors * places]) {
                if let Some((weight, there)) = weight_of(mask) {
                    *sum += entropy(self.x[g.anchor_output(n / places, n % places).nth(4)], there) * weight;
                }
            }
        }
    }

    /// Adds the gradient of the losses, `dloss` of each image, to zeros. As in Paddle the last object counts if several
    /// share an anchor and a position. `object` and `matched` are results of [`YoloLoss::forward`].
    pub fn backward(&self, dloss: &[T], object: &[T], matched: &[i32], to: &mut [T]) {
        let (g, places) = (self.g, self.g.places());
        for (k, &mask) in matched.iter().enumerate().filter(|(_, &mask)| mask >= 0) {
            let (assigned, by) = (self.assignment(k, mask as usize), dloss[k / self.count]);
            for n in 0..4 {
                let (at, want) = (assigned.cell.nth(n), assigned.place[n]);
                let slope = match (n < 2, self.x[at] > want) {
                    (true, _) => entropy_slope(self.x[at], want),
                    (false, above) => T::from_f64(if above { 1.0 } else { -1.0 }),
                };
                to[at] += slope * assigned.weight * by;
            }
            for class in 0..g.classes {
                let at = assigned.cell.nth(5 + class);
                to[at] += entropy_slope(self.x[at], self.target(assigned.label, class)) * assigned.score * by;
            }
        }
        for (n, &mask) in object.iter().enumerate() {
            if let Some((weight, there)) = weight_of(mask) {
                let at = g.anchor_output(n / places, n % places).nth(4);
                to[at] = entropy_slope(self.x[at], there) * weight * dloss[n / places / g.anchors];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHORS: [i32; 6] = [10, 13, 16, 30, 33, 23];

    struct Case {
        x: Vec<f64>,
        boxes: Vec<f64>,
        scores: Vec<f64>,
    }

    /// Two images of 3 x 3 positions with three objects each, of which the last one is padding.
    fn case() -> Case {
        let x = (0..2 * 2 * 7 * 9).map(|i| (i * 7919 % 103) as f64 / 60.0 - 0.8).collect();
        let boxes = vec![
            0.31, 0.42, 0.25, 0.3, 0.8, 0.7, 0.6, 0.4, 0.5, 0.5, 0.0, 0.0, 0.05, 0.9, 0.2, 0.7, 0.52, 0.13, 0.15, 0.2,
            0.0, 0.0, 0.0, 0.0,
        ];
        Case { x, boxes, scores: vec![0.9, 0.8, 0.7, 0.6, 0.5, 0.4] }
    }

    fn loss(c: &Case) -> YoloLoss<'_, f64> {
        YoloLoss {
            g: YoloGrid { anchors: 2, classes: 2, rows: 3, columns: 3 },
            anchors: &ANCHORS,
            mask: &[0, 2],
            ratio: 16,
            ignore: 0.4,
            scale: 1.1,
            x: &c.x,
            boxes: &c.boxes,
            labels: &[1, 0, 0, 1, 1, 0],
            scores: Some(&c.scores),
            count: 3,
            targets: [0.9, 0.1],
        }
    }

    fn forward(c: &Case) -> (Vec<f64>, Vec<f64>, Vec<i32>) {
        let (mut losses, mut objects, mut ids) = (vec![9.0; 2], vec![0.0; 36], vec![9; 6]);
        loss(c).forward(&mut losses, &mut objects, &mut ids);
        (losses, objects, ids)
    }

    #[test]
    fn the_loss_is_that_of_a_plain_loop() {
        let c = case();
        let (losses, objects, ids) = forward(&c);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let cross = |v: f64, t: f64| -t * sigmoid(v).ln() - (1.0 - t) * (1.0 - sigmoid(v)).ln();
        let iou = |a: [f64; 4], b: [f64; 4]| {
            let side = |k: usize| {
                ((a[k] + a[k + 2] / 2.0).min(b[k] + b[k + 2] / 2.0)
                    - (a[k] - a[k + 2] / 2.0).max(b[k] - b[k + 2] / 2.0))
                .max(0.0)
            };
            let shared = side(0) * side(1);
            shared / (a[2] * a[3] + b[2] * b[3] - shared)
        };
        for image in 0..2 {
            let v = |anchor: usize, n: usize, place: usize| c.x[((image * 2 + anchor) * 7 + n) * 9 + place];
            let object = |k: usize| [0, 1, 2, 3].map(|i| c.boxes[(image * 3 + k) * 4 + i]);
            let (mut want, mut target) = (0.0, vec![0.0; 18]);
            for (at, target) in target.iter_mut().enumerate() {
                let (anchor, place, scale) = (at / 9, at % 9, f64::from(1.1f32));
                let center =
                    |n: usize, i: usize| (i as f64 + sigmoid(v(anchor, n, place)) * scale - 0.5 * (scale - 1.0)) / 3.0;
                let side = |n: usize| v(anchor, 2 + n, place).exp() * f64::from(ANCHORS[[0, 2][anchor] * 2 + n]) / 48.0;
                let predicted = [center(0, place % 3), center(1, place / 3), side(0), side(1)];
                let overlaps =
                    (0..3).filter(|&k| object(k)[2] > 0.0).any(|k| iou(predicted, object(k)) > f64::from(0.4f32));
                *target = if overlaps { -1.0 } else { 0.0 };
            }
            for k in 0..3 {
                let b = object(k);
                let share = |i: usize| {
                    let sides = [ANCHORS[i * 2], ANCHORS[i * 2 + 1]].map(|n| f64::from(n) / 48.0);
                    iou([0.0, 0.0, sides[0], sides[1]], [0.0, 0.0, b[2], b[3]])
                };
                let best = (0..3).fold(0, |best, i| if share(i) > share(best) { i } else { best });
                let mask = if b[2] > 0.0 { [0, -1, 1][best] } else { -1 };
                assert_eq!(ids[image * 3 + k], mask);
                let Ok(anchor) = usize::try_from(mask) else { continue };
                let (i, j) = ((b[0] * 3.0) as usize, (b[1] * 3.0) as usize);
                let (place, score) = (j * 3 + i, c.scores[image * 3 + k]);
                let weight = (2.0 - b[2] * b[3]) * score;
                want += cross(v(anchor, 0, place), b[0] * 3.0 - i as f64) * weight;
                want += cross(v(anchor, 1, place), b[1] * 3.0 - j as f64) * weight;
                for n in 0..2 {
                    let log = (b[2 + n] * 48.0 / f64::from(ANCHORS[best * 2 + n])).ln();
                    want += (log - v(anchor, 2 + n, place)).abs() * weight;
                }
                let label = loss(&c).labels[image * 3 + k] as usize;
                want += (0..2)
                    .map(|n| cross(v(anchor, 5 + n, place), if n == label { 0.9 } else { 0.1 }) * score)
                    .sum::<f64>();
                target[anchor * 9 + place] = score;
            }
            for (at, &t) in target.iter().enumerate().filter(|(_, &t)| t >= 0.0) {
                want += cross(v(at / 9, 4, at % 9), f64::from(u8::from(t > 0.0))) * if t > 0.0 { t } else { 1.0 };
            }
            assert_eq!(objects[image * 18..][..18], target);
            assert!((losses[image] - want).abs() < 1e-6, "{} {want}", losses[image]);
        }
        assert!(objects.contains(&-1.0) && ids.contains(&0) && ids.contains(&1));
    }

    #[test]
    fn the_gradient_is_the_numeric_one() {
        let mut c = case();
        let (_, objects, ids) = forward(&c);
        let (dloss, mut got) = ([0.7, -1.3], vec![0.0; c.x.len()]);
        loss(&c).backward(&dloss, &objects, &ids, &mut got);
        for (k, got) in got.iter().enumerate() {
            let x = c.x[k];
            let mut at = |by: f64| {
                c.x[k] = x + by;
                let losses = forward(&c).0;
                losses[0] * dloss[0] + losses[1] * dloss[1]
            };
            let want = (at(1e-6) - at(-1e-6)) / 2e-6;
            c.x[k] = x;
            assert!((got - want).abs() < 1e-4, "{k} {got} {want}");
        }
    }
}
