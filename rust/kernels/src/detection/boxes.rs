//! Boxes [xmin, ymin, xmax, ymax]: order of scores, area, intersection over union, center and size.

use super::polygon;
use crate::pool;
use crate::types::Float;
use std::cmp::Ordering;

/// Functions that Paddle's kernels of boxes compute in double precision, for f32 and f64.
pub trait BoxMath: Float {
    fn exp(self) -> Self {
        Self::from_f64(self.to_f64().exp())
    }
    /// Rounds half away from zero.
    fn round(self) -> Self {
        Self::from_f64(self.to_f64().round())
    }
    fn sigmoid(self) -> Self {
        Self::from_f64(1.0 / (1.0 + (-self.to_f64()).exp()))
    }
}
impl<T: Float> BoxMath for T {}

/// A box as an array: xmin, ymin, xmax, ymax.
pub type Corners<R> = [R; 4];

/// `std::min`: `a` if the values do not compare.
pub fn least<T: PartialOrd>(a: T, b: T) -> T {
    if b < a {
        b
    } else {
        a
    }
}

/// `std::max`: `a` if the values do not compare.
pub fn most<T: PartialOrd>(a: T, b: T) -> T {
    if a < b {
        b
    } else {
        a
    }
}

/// `x` clipped to `0..=end`; 0 if the end is below 0. NaN stays NaN.
pub fn clipped<T: Float>(x: T, end: T) -> T {
    most(least(x, end), T::ZERO)
}

/// Descending order of scores, NaN last. Scores are compared in float32 for every type, as in Paddle.
pub fn descending<T: Float>(a: T, b: T) -> Ordering {
    let (a, b) = (a.to_f64() as f32, b.to_f64() as f32);
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The difference between the length of a side and max - min: 1 (a pixel), or 0 for normalized coordinates.
pub fn pixel<T: Float>(normalized: bool) -> T {
    if normalized {
        T::ZERO
    } else {
        T::ONE
    }
}

/// The area of a box; 0 if max is less than min along an axis.
pub fn area<T: Float>(b: &[T], normalized: bool) -> T {
    if b[2] < b[0] || b[3] < b[1] {
        return T::ZERO;
    }
    let p = pixel::<T>(normalized);
    (b[2] - b[0] + p) * (b[3] - b[1] + p)
}

/// The intersection over union of two boxes, or of two polygons if they have more than four numbers.
pub fn iou<T: Float>(a: &[T], b: &[T], normalized: bool) -> T {
    if a.len() > 4 {
        return T::from_f64(polygon::iou(a, b));
    }
    if b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1] {
        return T::ZERO;
    }
    let p = pixel::<T>(normalized);
    let width = least(a[2], b[2]) - most(a[0], b[0]) + p;
    let height = least(a[3], b[3]) - most(a[1], b[1]) + p;
    let shared = width * height;
    shared / (area(a, normalized) + area(b, normalized) - shared)
}

/// The measure of the operator iou_similarity. It differs from [`iou`]: sides of a box may be negative, and the union
/// has 1e-10 added.
pub fn similarity<T: Float>(a: &[T], b: &[T], pixel: T) -> T {
    let area = |c: &[T]| (c[3] - c[1] + pixel) * (c[2] - c[0] + pixel);
    let side = |k: usize| most(least(b[k + 2], a[k + 2]) - most(b[k], a[k]) + pixel, T::ZERO);
    let shared = side(0) * side(1);
    shared / (area(a) + area(b) - shared + T::from_f64(1e-10))
}

/// out[i, j] = [`similarity`] of box i of `a` and box j of `b`.
pub fn similarities<T: Float>(a: &[T], b: &[T], pixel: T, out: &mut [T]) {
    let columns = b.len() / 4;
    pool::parts(out, 1 << 12, |at, out| {
        for (k, to) in out.iter_mut().enumerate() {
            let (i, j) = ((at + k) / columns * 4, (at + k) % columns * 4);
            *to = similarity(&a[i..i + 4], &b[j..j + 4], pixel);
        }
    });
}

/// Size and center of a box.
pub struct CenterSize<T> {
    pub width: T,
    pub height: T,
    pub x: T,
    pub y: T,
}

impl<T: Float> CenterSize<T> {
    pub fn new(b: &[T], normalized: bool) -> CenterSize<T> {
        let (p, two) = (pixel::<T>(normalized), T::from_f64(2.0));
        let (width, height) = (b[2] - b[0] + p, b[3] - b[1] + p);
        CenterSize { width, height, x: b[0] + width / two, y: b[1] + height / two }
    }

    /// The box [xmin, ymin, xmax, ymax] after the deltas [dx, dy, ln width, ln height], relative to the size.
    pub fn moved(&self, delta: [T; 4], normalized: bool) -> [T; 4] {
        let (p, two) = (pixel::<T>(normalized), T::from_f64(2.0));
        let (x, y) = (delta[0] * self.width + self.x, delta[1] * self.height + self.y);
        let (width, height) = (BoxMath::exp(delta[2]) * self.width, BoxMath::exp(delta[3]) * self.height);
        [x - width / two, y - height / two, x + width / two - p, y + height / two - p]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The area of pixels covered by both boxes over that covered by either, counted one by one.
    fn counted(a: [i32; 4], b: [i32; 4]) -> f64 {
        let inside = |c: [i32; 4], x: i32, y: i32| (c[0]..=c[2]).contains(&x) && (c[1]..=c[3]).contains(&y);
        let (mut both, mut either) = (0, 0);
        for (x, y) in (0..40).flat_map(|x| (0..40).map(move |y| (x, y))) {
            both += i32::from(inside(a, x, y) && inside(b, x, y));
            either += i32::from(inside(a, x, y) || inside(b, x, y));
        }
        f64::from(both) / f64::from(either)
    }

    #[test]
    fn iou_counts_pixels() {
        for k in 0..200 {
            let at = |i: i32| (k * 37 + i * 101) % 20;
            let [a, b] = [0, 4].map(|i| [at(i), at(i + 1), at(i) + at(i + 2) % 17, at(i + 1) + at(i + 3) % 17]);
            let want = counted(a, b);
            let [a, b] = [a, b].map(|c| c.map(f64::from));
            assert!((iou(&a, &b, false) - want).abs() < 1e-12, "{a:?} {b:?}");
            assert!((similarity(&a, &b, 1.0) - want).abs() < 1e-9, "{a:?} {b:?}");
        }
        let (a, b) =
            ([0.0f64, 0.0, 4.0, 4.0, 1.0, 1.0, 3.0, 6.0], [0.0, 0.0, 4.0, 4.0, 2.0, 2.0, 9.0, 9.0, 5.0, 5.0, 7.0, 7.0]);
        let mut out = [0.0; 6];
        similarities(&a, &b, 0.0, &mut out);
        (0..6).for_each(|k| assert_eq!(out[k], similarity(&a[k / 3 * 4..][..4], &b[k % 3 * 4..][..4], 0.0)));
        assert_eq!(iou(&[0.0f32, 0.0, -1.0, 5.0], &[0.0, 0.0, 5.0, 5.0], true), 0.0);
    }

    #[test]
    fn deltas_move_a_box() {
        let own = CenterSize::new(&[2.0f64, 4.0, 6.0, 12.0], true);
        assert_eq!([own.width, own.height, own.x, own.y], [4.0, 8.0, 4.0, 8.0]);
        assert_eq!(own.moved([0.0; 4], true), [2.0, 4.0, 6.0, 12.0]);
        let two = 2f64.ln();
        let moved = own.moved([0.5, -0.25, two, two], true);
        assert!(moved.iter().zip([2.0, -2.0, 10.0, 14.0]).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn scores_descend_and_nan_is_last() {
        let mut scores = [0.5f32, f32::NAN, 2.0, -1.0];
        scores.sort_by(|a, b| descending(*a, *b));
        assert_eq!(scores[..3], [2.0, 0.5, -1.0]);
        assert_eq!(clipped(f64::NAN, 1.0).to_bits(), f64::NAN.to_bits());
        assert_eq!([clipped(3.0, 2.0), clipped(-3.0, 2.0), clipped(1.0, -2.0)], [2.0, 0.0, 0.0]);
    }
}
