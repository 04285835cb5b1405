//! roi_perspective_transform: quadrangles of the maps transformed to rectangles. Every output element is a bilinear
//! sample at its transformed position.

use super::{between, floor, real, round, Bins, Feature, Line, RoiGrid};
use crate::detection::boxes::{least, most};
use crate::pool;
use crate::types::{Float, Number};

/// Coordinates that differ by less are equal.
const NEAR: f64 = 1e-4;

fn same<R: Float>(a: R, b: R) -> bool {
    (a - b).to_f64().abs() < NEAR
}
fn at_least<R: Float>(a: R, b: R) -> bool {
    a > b || same(a, b)
}
fn at_most<R: Float>(a: R, b: R) -> bool {
    at_least(b, a)
}

/// A quadrangle in the map, clockwise from the top left corner, and the transform from the rectangle.
struct Quad<R> {
    x: [R; 4],
    y: [R; 4],
    matrix: [R; 9],
}

impl<R: Float> Quad<R> {
    fn new<T: Feature<W = R>>(grid: &RoiGrid, roi: &[T]) -> Quad<R> {
        let scale = real(grid.scale as f64);
        let x = [0, 2, 4, 6].map(|k| roi[k].wide() * scale);
        let y = [1, 3, 5, 7].map(|k| roi[k].wide() * scale);
        let matrix = transform(&x, &y, (grid.rows as i64, grid.cols as i64));
        Quad { x, y, matrix }
    }

    /// The map position of an element of the rectangle.
    fn place(&self, row: usize, col: usize) -> (R, R) {
        let (w, h, m) = (real::<R>(col as f64), real::<R>(row as f64), &self.matrix);
        let along = |k: usize| m[k] * w + m[k + 1] * h + m[k + 2];
        (along(0) / along(6), along(3) / along(6))
    }

    /// The sides by their ends; horizontal ones are excluded if `upright`.
    fn sides(&self, upright: bool) -> impl Iterator<Item = [R; 4]> + '_ {
        (0..4)
            .map(|i| [self.x[i], self.y[i], self.x[(i + 1) % 4], self.y[(i + 1) % 4]])
            .filter(move |s| same(s[1], s[3]) != upright)
    }

    fn contains(&self, x: R, y: R) -> bool {
        let cut = |[xs, ys, xe, ye]: [R; 4]| (y - ys) * (xe - xs) / (ye - ys) + xs;
        let within = |v: R, a: R, b: R| at_least(v, least(a, b)) && at_most(v, most(a, b));
        let on_level = self.sides(false).any(|s| same(y, s[1]) && same(y, s[3]) && within(x, s[0], s[2]));
        let on_upright = || self.sides(true).any(|s| same(cut(s), x) && within(y, s[1], s[3]));
        if on_level || on_upright() {
            return true;
        }
        // Inside: a ray to the right crosses the outline an odd number of times.
        let mut inside = false;
        for s in self.sides(true) {
            let (low, high) = (least(s[1], s[3]), most(s[1], s[3]));
            if at_most(y, low) || (y - high).to_f64() > NEAR {
                continue;
            }
            if same(cut(s), x) {
                return true;
            }
            inside ^= (cut(s) - x).to_f64() > NEAR;
        }
        inside
    }

    /// The position of an element, if within the quadrangle and the map.
    fn sample(&self, (row, col): (usize, usize), size: (usize, usize)) -> Option<(R, R)> {
        let (x, y) = self.place(row, col);
        let beyond = |v: R, size: usize| at_least(real(-0.5), v) || at_least(v, real(size as f64 - 0.5));
        (self.contains(x, y) && !beyond(x, size.1) && !beyond(y, size.0)).then_some((x, y))
    }
}

/// The perspective matrix that maps (0, 0), (w, 0), (w, h), (0, h) to the corners; the rectangle's width keeps the
/// quadrangle's proportions.
fn transform<R: Float>(x: &[R; 4], y: &[R; 4], (height, width): (i64, i64)) -> [R; 9] {
    let length = |i: usize| {
        let (dx, dy) = (x[i] - x[(i + 1) % 4], y[i] - y[(i + 1) % 4]);
        real::<R>((dx * dx + dy * dy).to_f64().sqrt())
    };
    let mean = |a: usize, b: usize| real::<R>((length(a) + length(b)).to_f64() / 2.0);
    let (tall, wide) = (mean(1, 3), mean(0, 2));
    let height = height.max(2);
    let ratio = wide * real((height - 1) as f64) / tall;
    let width = floor(round(ratio)).saturating_add(1).min(width).max(2);
    let (w, h) = (real::<R>((width - 1) as f64), real::<R>((height - 1) as f64));
    let [dx1, dx2, dx3] = [x[1] - x[2], x[3] - x[2], x[0] - x[1] + x[2] - x[3]];
    let [dy1, dy2, dy3] = [y[1] - y[2], y[3] - y[2], y[0] - y[1] + y[2] - y[3]];
    // Computed in f64, so that the added epsilon prevents infinity in f32, too.
    let share = |v: R, by: R| real::<R>(v.to_f64() / ((dx1 * dy2 - dx2 * dy1).to_f64() + 1e-5) / by.to_f64());
    let (m6, m7) = (share(dx3 * dy2 - dx2 * dy3, w), share(dx1 * dy3 - dx3 * dy1, h));
    let row = |v: &[R; 4]| [(v[1] - v[0] + m6 * w * v[1]) / w, (v[3] - v[0] + m7 * h * v[3]) / h, v[0]];
    let ([m0, m1, m2], [m3, m4, m5]) = (row(x), row(y));
    [m0, m1, m2, m3, m4, m5, m6, m7, R::ONE]
}

/// The samples of a RoI of four corners (x, y) on a map of `size` (height, width), one per element of the rectangle.
pub fn bins<T: Feature>(grid: &RoiGrid, roi: &[T], size: (usize, usize), to: &mut Bins<T::W>) {
    let quad = Quad::new(grid, roi);
    let around = |place: T::W, size: usize, to: &mut Line<T::W>| {
        let place = if at_most(place, T::W::ZERO) { T::W::ZERO } else { place };
        let Some((low, high, part)) = between(place, size) else { return };
        to.add(low, T::W::ONE - part);
        to.add(high, part);
    };
    for row in 0..grid.rows {
        for col in 0..grid.cols {
            let (mut rows, mut cols) = (0..0, 0..0);
            if let Some((x, y)) = quad.sample((row, col), size) {
                (rows, cols) = (to.line(|l| around(y, size.0, l)), to.line(|l| around(x, size.1, l)));
            }
            to.push(0, rows, cols, T::W::ONE);
        }
    }
}

/// Writes 1 for each element of each RoI's rectangle that has a sample within the quadrangle and the map, else 0.
pub fn mask<T: Feature>(grid: &RoiGrid, rois: &[T], size: (usize, usize), mask: &mut [i32]) {
    let bins = grid.rows * grid.cols;
    pool::parts(mask, bins, |at, mask| {
        let quad = Quad::new(grid, &rois[at / bins * 8..][..8]);
        for (i, m) in mask.iter_mut().enumerate() {
            *m = quad.sample((i / grid.cols, i % grid.cols), size).is_some() as i32;
        }
    });
}

/// Writes the 3 x 3 matrix of each RoI, from the rectangle to the map.
pub fn matrices<T: Feature<W = T> + Float>(grid: &RoiGrid, rois: &[T], out: &mut [T]) {
    for (m, roi) in out.chunks_exact_mut(9).zip(rois.chunks_exact(8)) {
        m.copy_from_slice(&Quad::new(grid, roi).matrix);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_adjoint, values};
    use super::super::Pooling;
    use super::*;

    #[test]
    fn an_upright_rectangle_is_copied() {
        // 3 x 4 elements of a map of 5 x 7, from row 1 and column 2.
        let roi = [2.0f64, 1.0, 5.0, 1.0, 5.0, 3.0, 2.0, 3.0];
        let (grid, size) = (RoiGrid { scale: 1.0, rows: 3, cols: 6 }, (5, 7));
        let x = values(35, 1);
        let p = Pooling::new(vec![0..1], 1, size, 18);
        let (mut out, mut inside, mut matrix) = (vec![9.0; 18], vec![9; 18], vec![0.0; 9]);
        p.forward(&x, &mut out, |_, _, to| bins(&grid, &roi, size, to));
        mask(&grid, &roi, size, &mut inside);
        matrices(&grid, &roi, &mut matrix);
        for (k, got) in out.iter().enumerate() {
            let (r, c) = (k / 6, k % 6);
            assert_eq!(inside[k], i32::from(c < 4), "{k}");
            let want = if c < 4 { x[(r + 1) * 7 + c + 2] } else { 0.0 };
            assert!((got - want).abs() < 1e-4, "{k} {got} {want}");
        }
        assert!((matrix[2] - 2.0).abs() < 1e-6 && (matrix[5] - 1.0).abs() < 1e-6 && matrix[8] == 1.0);
        assert_adjoint(&p, 1, |_, _, to| bins(&grid, &roi, size, to));
    }

    #[test]
    fn corners_map_to_corners() {
        let quad = [1.0f64, 0.5, 5.5, 1.0, 6.0, 4.0, 0.5, 3.5];
        let grid = RoiGrid { scale: 1.0, rows: 9, cols: 12 };
        let q = Quad::new(&grid, &quad);
        let (x, y) = q.place(0, 0);
        assert!((x - 1.0).abs() < 1e-4 && (y - 0.5).abs() < 1e-4);
        let (x, y) = q.place(8, 0);
        assert!((x - 0.5).abs() < 1e-3 && (y - 3.5).abs() < 1e-3);
        assert!(q.contains(3.0, 2.0) && !q.contains(0.6, 0.5) && !q.contains(7.0, 2.0) && q.contains(1.0, 0.5));
    }
}
