//! yolo_box: boxes and class scores from a network's output.

use super::{center_scale, input_size, YoloGrid};
use crate::detection::boxes::BoxMath;
use crate::pool;
use crate::types::Float;

/// How boxes are decoded.
pub struct YoloBoxes<'a> {
    /// Widths and heights of the anchors, in pixels of the network's input.
    pub anchors: &'a [i32],
    /// The network's input is this much larger than its grid.
    pub ratio: i32,
    /// Boxes of lower objectness are zeros.
    pub threshold: f32,
    /// Boxes are clipped to the image.
    pub clip: bool,
    /// The factor of the centers' sigmoid.
    pub scale: f32,
}

/// Boxes of one anchor and image: calls `each(position, box, confidence)` for those above the threshold.
fn decode<T: Float>(
    x: &[T],
    g: YoloGrid,
    anchor: usize,
    image: &[i32],
    a: &YoloBoxes,
    mut each: impl FnMut(usize, [T; 4], T),
) {
    let of = |v: f64| T::from_f64(v);
    let (scale, bias) = center_scale::<T>(a.scale);
    let [height, width] = [image[0], image[1]].map(|n| of(n.into()));
    let own = anchor % g.anchors * 2;
    let sides = [a.anchors[own], a.anchors[own + 1]].map(|n| of(n.into()));
    let input = [input_size::<T>(a.ratio, g.columns), input_size::<T>(a.ratio, g.rows)];
    let (two, one) = (of(2.0), T::ONE);
    for place in 0..g.places() {
        let cell = g.anchor_output(anchor, place);
        let sure = BoxMath::sigmoid(x[cell.nth(4)]);
        if sure.to_f64() < f64::from(a.threshold) {
            continue;
        }
        let center = |k: usize, i: usize| of(i as f64) + BoxMath::sigmoid(x[cell.nth(k)]) * scale + bias;
        let cx = center(0, place % g.columns) * width / of(g.columns as f64);
        let cy = center(1, place / g.columns) * height / of(g.rows as f64);
        let w = BoxMath::exp(x[cell.nth(2)]) * sides[0] * width / input[0];
        let h = BoxMath::exp(x[cell.nth(3)]) * sides[1] * height / input[1];
        let mut b = [cx - w / two, cy - h / two, cx + w / two, cy + h / two];
        if a.clip {
            // NaN is clamped to the edge, too.
            let inner = |v: T| if v > T::ZERO { v } else { T::ZERO };
            let outer = |v: T, end: T| if v < end - one { v } else { end - one };
            b = [inner(b[0]), inner(b[1]), outer(b[2], width), outer(b[3], height)];
        }
        each(place, b, sure);
    }
}

/// Writes the boxes [images, anchors * places, 4] and scores [images, anchors * places, classes] above the threshold;
/// `found` and `scores` hold zeros. `size` are the height and width of each image.
pub fn boxes<T: Float>(x: &[T], size: &[i32], g: YoloGrid, a: &YoloBoxes, found: &mut [T], scores: &mut [T]) {
    let (places, classes) = (g.places(), g.classes);
    if places == 0 {
        return;
    }
    let parts = found.chunks_exact_mut(places * 4);
    let mut parts: Vec<_> = parts.zip(scores.chunks_exact_mut(places * classes)).collect();
    pool::parts(&mut parts, 1, |at, part| {
        for (k, (to, scores)) in part.iter_mut().enumerate() {
            let anchor = at + k;
            let image = anchor / g.anchors * 2;
            decode(x, g, anchor, &size[image..image + 2], a, |place, b, sure| {
                to[place * 4..place * 4 + 4].copy_from_slice(&b);
                let cell = g.anchor_output(anchor, place);
                for (c, s) in scores[place * classes..(place + 1) * classes].iter_mut().enumerate() {
                    *s = sure * BoxMath::sigmoid(x[cell.nth(5 + c)]);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_of_every_position() {
        let g = YoloGrid { anchors: 2, classes: 3, rows: 2, columns: 5 };
        let x: Vec<f64> = (0..2 * 2 * 8 * 10).map(|i| (i * 7919 % 101) as f64 / 50.0 - 1.0).collect();
        let size = [64, 200, 120, 80];
        for clip in [false, true] {
            let a = YoloBoxes { anchors: &[10, 13, 33, 23], ratio: 16, threshold: 0.5, clip, scale: 1.2 };
            let (mut found, mut scores) = (vec![0.0; 2 * 20 * 4], vec![0.0; 2 * 20 * 3]);
            boxes(&x, &size, g, &a, &mut found, &mut scores);
            for k in 0..40 {
                let (image, anchor, row, column) = (k / 20, k / 10 % 2, (k / 5 % 2) as f64, (k % 5) as f64);
                let v = |n: usize| x[((image * 2 + anchor) * 8 + n) * 10 + k % 10];
                let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
                let (h, w, scale) = (f64::from(size[image * 2]), f64::from(size[image * 2 + 1]), f64::from(1.2f32));
                let center = |n: usize, at: f64| at + sigmoid(v(n)) * scale - 0.5 * (scale - 1.0);
                let (cx, cy) = (center(0, column) * w / 5.0, center(1, row) * h / 2.0);
                let (bw, bh) = (
                    v(2).exp() * f64::from(a.anchors[anchor * 2]) * w / 80.0,
                    v(3).exp() * f64::from(a.anchors[anchor * 2 + 1]) * h / 32.0,
                );
                let mut want = [cx - bw / 2.0, cy - bh / 2.0, cx + bw / 2.0, cy + bh / 2.0];
                if clip {
                    want = [want[0].max(0.0), want[1].max(0.0), want[2].min(w - 1.0), want[3].min(h - 1.0)];
                }
                let sure = sigmoid(v(4)) >= 0.5;
                let close = |a: f64, b: f64| (a - if sure { b } else { 0.0 }).abs() < 1e-5;
                assert!(found[k * 4..][..4].iter().zip(want).all(|(&a, b)| close(a, b)), "{k}");
                assert!((0..3).all(|c| close(scores[k * 3 + c], sigmoid(v(4)) * sigmoid(v(5 + c)))), "{k}");
            }
        }
        let none = YoloGrid { rows: 0, ..g };
        boxes::<f32>(
            &[],
            &[1, 1],
            none,
            &YoloBoxes { anchors: &[1, 1], ratio: 1, threshold: 0.0, clip: true, scale: 1.0 },
            &mut [],
            &mut [],
        );
    }
}
