//! Coding of boxes relative to prior boxes (center and size), and clipping to images.

use super::boxes::{clipped, least, BoxMath, CenterSize};
use crate::pool;
use crate::types::Float;

/// Boxes per chunk.
const GRAIN: usize = 1 << 10;

/// Prior boxes and the variances of deltas.
#[derive(Clone, Copy)]
pub struct Priors<'a, T> {
    pub boxes: &'a [T],
    /// Four variances per box.
    pub variances: Option<&'a [T]>,
    /// The variances of all boxes, if there are none per box.
    pub variance: [T; 4],
    pub normalized: bool,
}

impl<T: Float> Priors<'_, T> {
    fn get(&self, k: usize) -> (CenterSize<T>, [T; 4]) {
        let own = CenterSize::new(&self.boxes[k * 4..k * 4 + 4], self.normalized);
        let v = self.variances.map_or(self.variance, |v| [v[k * 4], v[k * 4 + 1], v[k * 4 + 2], v[k * 4 + 3]]);
        (own, v)
    }
}

/// Writes each box of `out` [.., columns, 4] by `f(row, column, box)` on the pool.
fn each_box<T: Float>(out: &mut [T], columns: usize, f: impl Fn(usize, usize, &mut [T]) + Sync) {
    let mut rows: Vec<&mut [T]> = out.chunks_exact_mut(4).collect();
    pool::parts(&mut rows, GRAIN, |at, part| {
        for (k, to) in part.iter_mut().enumerate() {
            f((at + k) / columns, (at + k) % columns, to);
        }
    });
}

/// out[i, j] = the deltas of target box i relative to prior box j, divided by the variances of j.
pub fn encode<T: Float>(p: &Priors<T>, targets: &[T], out: &mut [T]) {
    let columns = p.boxes.len() / 4;
    each_box(out, columns.max(1), |i, j, to| {
        let (own, v) = p.get(j);
        let t = &targets[i * 4..i * 4 + 4];
        let (size, two) = (CenterSize::new(t, p.normalized), T::from_f64(2.0));
        // Centers of targets are (min + max) / 2 also for pixel coordinates.
        let middle = [(t[2] + t[0]) / two, (t[3] + t[1]) / two];
        let ln = |share: T| T::from_f64(share.to_f64().abs().ln());
        to[0] = (middle[0] - own.x) / own.width / v[0];
        to[1] = (middle[1] - own.y) / own.height / v[1];
        to[2] = ln(size.width / own.width) / v[2];
        to[3] = ln(size.height / own.height) / v[3];
    });
}

/// out[i, j] = the box at deltas[i, j], multiplied by the variances, relative to prior box j (or i, if `by_row`).
/// `deltas` and `out` are [rows, columns, 4].
pub fn decode<T: Float>(p: &Priors<T>, deltas: &[T], columns: usize, by_row: bool, out: &mut [T]) {
    each_box(out, columns.max(1), |i, j, to| {
        let (own, v) = p.get(if by_row { i } else { j });
        let d = &deltas[(i * columns + j) * 4..];
        let delta = [v[0] * d[0], v[1] * d[1], v[2] * d[2], v[3] * d[3]];
        to.copy_from_slice(&own.moved(delta, p.normalized));
    });
}

/// Clips boxes to an image: `info` is the height and width of the scaled image, and the scale.
pub fn clip<T: Float>(info: &[T], x: &[T], out: &mut [T]) {
    let end = [1, 0].map(|k| BoxMath::round(info[k] / info[2]) - T::ONE);
    for (i, (to, &v)) in out.iter_mut().zip(x).enumerate() {
        *to = clipped(v, end[i % 2]);
    }
}

/// Decodes the deltas of each class relative to one prior box, with logarithms of sizes clipped to `most`.
pub fn decode_classes<T: Float>(prior: &[T], variance: &[T], deltas: &[T], most: T, out: &mut [T]) {
    let size = CenterSize::new(prior, false);
    for (to, d) in out.chunks_exact_mut(4).zip(deltas.chunks_exact(4)) {
        let log = |k: usize| least(variance[k] * d[k], most);
        to.copy_from_slice(&size.moved([variance[0] * d[0], variance[1] * d[1], log(2), log(3)], false));
    }
}

/// The class with the highest score above -1, without class 0 (the background); the first of equal ones.
pub fn best_class<T: Float>(scores: &[T]) -> Option<usize> {
    let mut best = None;
    let mut highest = T::from_f64(-1.0);
    for (j, &s) in scores.iter().enumerate().skip(1) {
        if s > highest {
            (best, highest) = (Some(j), s);
        }
    }
    best
}

/// Decodes the deltas [rows, classes, 4] of each class relative to the row's prior box ([`decode_classes`]) to `boxes`,
/// and writes the box of the best class, or the prior box if there is none, to `assigned` [rows, 4].
pub fn decode_and_assign<T: Float>(
    (priors, variance): (&[T], &[T]),
    (deltas, scores): (&[T], &[T]),
    classes: usize,
    most: T,
    mut boxes: Option<&mut [T]>,
    mut assigned: Option<&mut [T]>,
) {
    let mut decoded = vec![T::ZERO; classes * 4];
    for (i, own) in priors.chunks_exact(4).enumerate() {
        decode_classes(own, variance, &deltas[i * classes * 4..(i + 1) * classes * 4], most, &mut decoded);
        let best = best_class(&scores[i * classes..(i + 1) * classes]);
        if let Some(to) = &mut boxes {
            to[i * classes * 4..(i + 1) * classes * 4].copy_from_slice(&decoded);
        }
        if let Some(to) = &mut assigned {
            to[i * 4..i * 4 + 4].copy_from_slice(best.map_or(own, |j| &decoded[j * 4..j * 4 + 4]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_inverts_encoding() {
        let boxes: Vec<f64> =
            (0..7).flat_map(|i| [i as f64, 2.0 * i as f64, 5.0 + 3.0 * i as f64, 9.0 + 3.0 * i as f64]).collect();
        let variances: Vec<f64> = (0..28).map(|i| 0.1 + 0.05 * (i % 5) as f64).collect();
        for (variances, columns) in [(Some(&variances[..]), 7), (None, 7)] {
            let p = Priors { boxes: &boxes, variances, variance: [0.1, 0.1, 0.2, 0.2], normalized: true };
            let targets = [1.0, 2.0, 8.0, 9.0, 3.0, 3.0, 4.0, 11.0];
            let mut deltas = vec![0.0; 2 * columns * 4];
            encode(&p, &targets, &mut deltas);
            let mut back = vec![0.0; deltas.len()];
            decode(&p, &deltas, columns, false, &mut back);
            for (k, (a, b)) in back.chunks_exact(4).zip(targets.chunks_exact(4).flat_map(|t| [t; 7])).enumerate() {
                assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{k}");
            }
        }
    }

    #[test]
    fn rows_or_columns_name_the_prior_box() {
        let boxes = [0.0f64, 0.0, 2.0, 2.0, 10.0, 10.0, 14.0, 14.0];
        let p = Priors { boxes: &boxes, variances: None, variance: [1.0; 4], normalized: true };
        let mut out = [0.0; 16];
        decode(&p, &[0.0; 16], 2, false, &mut out);
        assert_eq!([&out[..4], &out[4..8]], [&boxes[..4], &boxes[4..]]);
        decode(&p, &[0.0; 16], 2, true, &mut out);
        assert_eq!([&out[..4], &out[4..8], &out[8..12]], [&boxes[..4], &boxes[..4], &boxes[4..]]);
    }

    #[test]
    fn boxes_are_clipped_to_the_unscaled_image() {
        let mut out = [0.0f32; 4];
        clip(&[20.0, 40.0, 2.0], &[-3.0, 5.0, 30.0, 12.0], &mut out);
        assert_eq!(out, [0.0, 5.0, 19.0, 9.0]);
    }

    #[test]
    fn the_background_is_never_the_best_class() {
        assert_eq!(best_class(&[0.9f32, 0.2, 0.5, 0.5]), Some(2));
        assert_eq!(best_class(&[0.9f32]), None);
        assert_eq!(best_class(&[0.0f32, f32::NAN, -2.0]), None);
        let (mut out, large) = ([0.0f64; 4], 1000.0);
        decode_classes(&[0.0, 0.0, 9.0, 9.0], &[1.0; 4], &[0.0, 0.0, large, 0.0], 2f64.ln(), &mut out);
        assert!(out.iter().zip([-5.0, 0.0, 14.0, 9.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-9));
    }

    #[test]
    fn the_box_of_the_best_class_is_assigned() {
        let priors = [0.0f64, 0.0, 9.0, 9.0, 5.0, 5.0, 24.0, 14.0];
        let deltas: Vec<f64> = (0..2 * 3 * 4).map(|i| i as f64 / 40.0).collect();
        let (mut boxes, mut assigned) = (vec![0.0; 24], vec![0.0; 8]);
        let inputs = ((&priors[..], &[0.1, 0.1, 0.2, 0.2][..]), (&deltas[..], &[0.9, 0.1, 0.5, -2.0, -1.5, -3.0][..]));
        decode_and_assign(inputs.0, inputs.1, 3, 4.135, Some(&mut boxes), Some(&mut assigned));
        for row in 0..2 {
            let mut want = [0.0; 12];
            decode_classes(&priors[row * 4..][..4], inputs.0 .1, &deltas[row * 12..][..12], 4.135, &mut want);
            assert_eq!(boxes[row * 12..][..12], want);
        }
        assert_eq!((&assigned[..4], &assigned[4..]), (&boxes[8..12], &priors[4..]));
        decode_and_assign(inputs.0, inputs.1, 3, 4.135, None, None);
    }
}
