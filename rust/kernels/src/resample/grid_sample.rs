//! Sampling of images at the positions of a grid, nearest or bilinear, and the gradients.

use crate::pool::{self, Shared};
use crate::types::Number;

/// The values outside the border (padding mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    Zeros,
    Border,
    Mirror,
}

#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// -1 and 1 are the centres of the outermost pixels; otherwise the image's borders.
    pub align_corners: bool,
    pub nearest: bool,
    pub beyond: Padding,
}

/// Sizes of images (images, channels, height, width) and of grids (images, height, width, 2).
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub images: usize,
    pub channels: usize,
    pub input: (usize, usize),
    pub output: (usize, usize),
}

impl Sampling {
    /// The pixel position of a grid coordinate along an axis of `n` pixels, and its derivative by the coordinate.
    fn place(&self, at: f64, n: usize) -> (f64, f64) {
        let last = n as f64 - 1.0;
        let (factor, place) = match self.align_corners {
            true => (last * 0.5, (at + 1.0) * (last * 0.5)),
            false => (n as f64 * 0.5, (at + 1.0) * (n as f64 * 0.5) - 0.5),
        };
        match self.beyond {
            Padding::Zeros => (place, factor),
            Padding::Border => clipped(place, factor, last),
            Padding::Mirror if self.align_corners => match n {
                1 => (place * 0.0, 0.0),
                _ => mirrored(place, factor, last),
            },
            Padding::Mirror => {
                let (place, factor) = mirrored(place + 0.5, factor, n as f64);
                clipped(place - 0.5, factor, last)
            }
        }
    }
}

fn clipped(place: f64, factor: f64, last: f64) -> (f64, f64) {
    if place < 0.0 {
        (0.0, 0.0)
    } else if place > last {
        (last, 0.0)
    } else {
        (place, factor)
    }
}

/// Reflected between 0 and `border`.
fn mirrored(place: f64, factor: f64, border: f64) -> (f64, f64) {
    let period = 2.0 * border;
    let beyond = place.abs() - (place.abs() / period).floor() * period;
    let back = beyond > period - beyond;
    let sign = if (place < 0.0) == back { 1.0 } else { -1.0 };
    (beyond.min(period - beyond), factor * sign)
}

/// A pixel of an interpolated value: its offset in a channel, its weight, and the weight's derivatives by x and y.
#[derive(Clone, Copy, Default)]
struct Corner {
    at: usize,
    weight: f64,
    by_x: f64,
    by_y: f64,
}

/// Up to four pixels around a position. A NaN position has no pixels and a NaN weight.
fn corners(s: &Sampling, sizes: &Sizes, x: f64, y: f64) -> ([Corner; 4], usize) {
    let (h, w) = sizes.input;
    let ((x, dx), (y, dy)) = (s.place(x, w), s.place(y, h));
    let mut found = ([Corner::default(); 4], 0);
    let mut add = |row: f64, column: f64, weight: f64, by_x: f64, by_y: f64| {
        let inside = 0.0 <= row && row < h as f64 && 0.0 <= column && column < w as f64;
        if inside {
            found.0[found.1] = Corner { at: row as usize * w + column as usize, weight, by_x, by_y };
            found.1 += 1;
        }
    };
    if s.nearest {
        add(y.round(), x.round(), 1.0, 0.0, 0.0);
        return found;
    }
    let (left, top) = (x.floor(), y.floor());
    let (right_part, low_part) = (x - left, y - top);
    let (left_part, top_part) = (1.0 - right_part, 1.0 - low_part);
    add(top, left, left_part * top_part, -top_part * dx, -left_part * dy);
    add(top, left + 1.0, right_part * top_part, top_part * dx, -right_part * dy);
    add(top + 1.0, left, left_part * low_part, -low_part * dx, left_part * dy);
    add(top + 1.0, left + 1.0, right_part * low_part, low_part * dx, right_part * dy);
    found
}

/// Pixels of a chunk of work.
const CHUNK: usize = 1 << 12;

pub fn sample<T: Number>(s: &Sampling, sizes: &Sizes, x: &[T], grid: &[T], out: &mut [T]) {
    let (from, to) = (sizes.input.0 * sizes.input.1, sizes.output.0 * sizes.output.1);
    let c = sizes.channels;
    assert!(x.len() == sizes.images * c * from && out.len() == sizes.images * c * to);
    assert_eq!(grid.len(), sizes.images * to * 2);
    let out = Shared::new(out);
    pool::ranges(sizes.images * to, (CHUNK / c.max(1)).max(64), |range| {
        for p in range {
            let (at_x, at_y) = (grid[2 * p].to_f64(), grid[2 * p + 1].to_f64());
            let (found, n) = corners(s, sizes, at_x, at_y);
            let (image, pixel) = (p / to, p % to);
            for ch in image * c..(image + 1) * c {
                let plane = &x[ch * from..(ch + 1) * from];
                let value: f64 = found[..n].iter().map(|k| plane[k.at].to_f64() * k.weight).sum();
                // A NaN position has a NaN value.
                let value = if at_x.is_nan() || at_y.is_nan() { f64::NAN } else { value };
                // SAFETY: each pixel of the output belongs to one chunk.
                unsafe { out.part(ch * to + pixel..ch * to + pixel + 1)[0] = T::from_f64(value) };
            }
        }
    });
}

/// Gradients from (x, grid, gradient of the output). Each image belongs to one chunk, so that threads never add to the
/// same element.
pub fn sample_grad<T: Number>(
    s: &Sampling,
    sizes: &Sizes,
    (x, grid, d): (&[T], &[T], &[T]),
    dx: Option<&mut [T]>,
    dgrid: Option<&mut [T]>,
) {
    let (from, to) = (sizes.input.0 * sizes.input.1, sizes.output.0 * sizes.output.1);
    let c = sizes.channels;
    assert!(x.len() == sizes.images * c * from && d.len() == sizes.images * c * to);
    assert_eq!(grid.len(), sizes.images * to * 2);
    if let Some(dx) = dx {
        assert_eq!(dx.len(), x.len());
        // One channel at a time: recomputing the pixels for each costs less than a table of them.
        pool::parts(dx, from.max(1), |start, dx| {
            dx.fill(T::ZERO);
            let plane = start / from.max(1);
            let (grid, d) = (&grid[plane / c * to * 2..][..to * 2], &d[plane * to..(plane + 1) * to]);
            for (at, &d) in grid.chunks_exact(2).zip(d) {
                let (found, n) = corners(s, sizes, at[0].to_f64(), at[1].to_f64());
                for k in &found[..n] {
                    dx[k.at] = dx[k.at].add(T::from_f64(d.to_f64() * k.weight));
                }
            }
        });
    }
    let Some(dgrid) = dgrid else { return };
    assert_eq!(dgrid.len(), grid.len());
    pool::parts(dgrid, (CHUNK / c.max(1)).max(64) * 2, |start, dgrid| {
        for (i, out) in dgrid.chunks_exact_mut(2).enumerate() {
            let p = start / 2 + i;
            let (found, n) = corners(s, sizes, grid[2 * p].to_f64(), grid[2 * p + 1].to_f64());
            let (image, pixel) = (p / to, p % to);
            let (mut by_x, mut by_y) = (0.0, 0.0);
            for ch in image * c..(image + 1) * c {
                let (plane, d) = (&x[ch * from..(ch + 1) * from], d[ch * to + pixel].to_f64());
                for k in &found[..n] {
                    let v = plane[k.at].to_f64() * d;
                    by_x += v * k.by_x;
                    by_y += v * k.by_y;
                }
            }
            (out[0], out[1]) = (T::from_f64(by_x), T::from_f64(by_y));
        }
    });
}
