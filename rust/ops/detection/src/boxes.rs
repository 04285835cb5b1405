//! Boxes [xmin, ymin, xmax, ymax], polygons [x1, y1, x2, y2, ...], their order.

use super::polygon;
pub use super::real::BoxFloat;
use oar_core::base::{DType, Dims};
use oar_core::op::infer::Meta;
use oar_core::op::{OutSlot, ShapeContext};
use std::cmp::Ordering;

/// `std::min`: the first of two that do not compare.
pub fn least<T: PartialOrd>(a: T, b: T) -> T {
    if b < a {
        b
    } else {
        a
    }
}

/// `std::max`: the first of two that do not compare.
pub fn most<T: PartialOrd>(a: T, b: T) -> T {
    if a < b {
        b
    } else {
        a
    }
}

/// The place within `0..=end`, or 0 where the end is below 0. NaN stays.
pub fn clipped<T: BoxFloat>(x: T, end: T) -> T {
    most(least(x, end), T::ZERO)
}

/// The higher score first, NaN last. Scores are compared in float32 whatever they are, as in Paddle.
pub fn falling<T: BoxFloat>(a: T, b: T) -> Ordering {
    let (a, b) = (a.to_f64() as f32, b.to_f64() as f32);
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// What a side of a box is longer than the difference of its ends: a pixel, unless the ends are shares of the image.
pub fn pixel<T: BoxFloat>(normalized: bool) -> T {
    if normalized {
        T::ZERO
    } else {
        T::ONE
    }
}

/// The area of a box; 0 if it ends before it begins.
pub fn area<T: BoxFloat>(b: &[T], normalized: bool) -> T {
    if b[2] < b[0] || b[3] < b[1] {
        return T::ZERO;
    }
    let p = pixel::<T>(normalized);
    (b[2] - b[0] + p) * (b[3] - b[1] + p)
}

/// What two boxes share, over what they cover together; polygons where they have more than four numbers.
pub fn overlap<T: BoxFloat>(a: &[T], b: &[T], normalized: bool) -> T {
    if a.len() > 4 {
        return T::of(polygon::overlap(a, b));
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

/// Sizes, ends and centers of a box.
pub struct Sized<T> {
    pub width: T,
    pub height: T,
    pub x: T,
    pub y: T,
}

impl<T: BoxFloat> Sized<T> {
    pub fn of(b: &[T], normalized: bool) -> Sized<T> {
        let (p, two) = (pixel::<T>(normalized), T::of(2.0));
        let (width, height) = (b[2] - b[0] + p, b[3] - b[1] + p);
        Sized { width, height, x: b[0] + width / two, y: b[1] + height / two }
    }

    /// The box that the deltas [dx, dy, ln width, ln height] make of this one.
    pub fn moved(&self, delta: [T; 4], normalized: bool) -> [T; 4] {
        let (p, two) = (pixel::<T>(normalized), T::of(2.0));
        let (x, y) = (delta[0] * self.width + self.x, delta[1] * self.height + self.y);
        let (width, height) = (delta[2].exp() * self.width, delta[3].exp() * self.height);
        [x - width / two, y - height / two, x + width / two - p, y + height / two - p]
    }
}

/// An output of rows whose number only values tell, with LoD.
pub fn set_rows(cx: &mut ShapeContext, slot: OutSlot, width: i64, dtype: DType, lod_level: i32) {
    cx.set_meta(slot, 0, Meta { dims: Dims::from_slice(&[-1, width]), dtype, lod_level, ..Meta::default() });
}
