//! The intersection over union of polygons [x1, y1, x2, y2, ...], with the even-odd rule.

use crate::pool;
use crate::ranking;
use crate::types::Float;

type Point = [f64; 2];

fn corners<T: Float>(p: &[T]) -> Vec<Point> {
    p.chunks_exact(2).map(|c| [c[0].to_f64(), c[1].to_f64()]).collect()
}

fn edges(p: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    p.iter().zip(p.iter().cycle().skip(1)).map(|(&a, &b)| (a, b))
}

fn area(p: &[Point]) -> f64 {
    (edges(p).map(|(a, b)| a[0] * b[1] - a[1] * b[0]).sum::<f64>() / 2.0).abs()
}

/// The x of an edge at height `y`.
fn at((a, b): (Point, Point), y: f64) -> f64 {
    a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
}

/// The height of the crossing of two edges, if any.
fn crossing((a, b): (Point, Point), (c, d): (Point, Point)) -> Option<f64> {
    let (r, s) = ([b[0] - a[0], b[1] - a[1]], [d[0] - c[0], d[1] - c[1]]);
    let turn = r[0] * s[1] - r[1] * s[0];
    let t = ((c[0] - a[0]) * s[1] - (c[1] - a[1]) * s[0]) / turn;
    let u = ((c[0] - a[0]) * r[1] - (c[1] - a[1]) * r[0]) / turn;
    (turn != 0.0 && (0.0..=1.0).contains(&t) && (0.0..=1.0).contains(&u)).then(|| a[1] + t * r[1])
}

/// The area of the intersection, by strips between the heights of corners and crossings: edges do not cross within
/// them.
fn shared(a: &[Point], b: &[Point]) -> f64 {
    let all: Vec<_> = edges(a).map(|e| (e, true)).chain(edges(b).map(|e| (e, false))).collect();
    let mut heights: Vec<f64> = a.iter().chain(b).map(|p| p[1]).collect();
    for (i, first) in all.iter().enumerate() {
        heights.extend(all[i + 1..].iter().filter_map(|second| crossing(first.0, second.0)));
    }
    ranking::sort(&mut heights, f64::total_cmp);
    heights.dedup();
    let mut sum = 0.0;
    for strip in heights.windows(2) {
        let (low, high) = (strip[0], strip[1]);
        let middle = low + (high - low) / 2.0;
        let through = |e: &(Point, Point)| (e.0[1] <= middle) != (e.1[1] <= middle);
        let mut cuts: Vec<_> = all.iter().filter(|(e, _)| through(e)).map(|(e, own)| (at(*e, middle), *own)).collect();
        ranking::sort(&mut cuts, |x, y| x.0.total_cmp(&y.0));
        let (mut inside, mut from) = ([false; 2], 0.0);
        for (x, own) in cuts {
            // A trapezoid: its width at half height times its height.
            if inside == [true; 2] {
                sum += (x - from) * (high - low);
            }
            inside[own as usize] ^= true;
            from = x;
        }
    }
    sum
}

/// The intersection over union; 0 if an area is 0 or a coordinate is not finite.
pub fn iou<T: Float>(a: &[T], b: &[T]) -> f64 {
    let (a, b) = (corners(a), corners(b));
    if a.iter().chain(&b).flatten().any(|x| !x.is_finite()) {
        return 0.0;
    }
    let (first, second, both) = (area(&a), area(&b), shared(&a, &b));
    if first == 0.0 || second == 0.0 || both == 0.0 {
        return 0.0;
    }
    both / (first + second - both)
}

/// The corners from offsets in planes of `height` x `width`: 4 times the column (even planes) or row (odd planes),
/// minus the offset.
pub fn from_offsets<T: Float>(x: &[T], height: usize, width: usize, out: &mut [T]) {
    pool::parts(out, 1 << 13, |at, out| {
        for (k, to) in out.iter_mut().enumerate() {
            let (i, plane) = (at + k, (at + k) / (height * width));
            let place = if plane % 2 == 0 { i % width } else { i / width % height };
            *to = T::from_f64(place as f64 * 4.0) - x[i];
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_squares_and_triangles() {
        let square = [0.0f64, 0.0, 4.0, 0.0, 4.0, 4.0, 0.0, 4.0];
        let moved = [2.0, 2.0, 6.0, 2.0, 6.0, 6.0, 2.0, 6.0];
        let triangle = [0.0, 0.0, 4.0, 0.0, 0.0, 4.0];
        let far = square.map(|x| x + 100.0);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(iou(&square, &square), 1.0);
        close(iou(&square, &moved), 4.0 / 28.0);
        close(iou(&square, &triangle), 0.5);
        close(iou(&square, &far), 0.0);
        // The other orientation, and a polygon without area.
        let reversed = [0.0, 0.0, 0.0, 4.0, 4.0, 4.0, 4.0, 0.0];
        close(iou(&reversed, &moved), 4.0 / 28.0);
        close(iou(&square, &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), 0.0);
        close(iou(&square, &[f64::NAN; 8]), 0.0);
    }

    #[test]
    fn shares_agree_with_a_fine_grid() {
        let a = [1.0f64, 0.5, 7.0, 2.0, 6.0, 8.0, 2.5, 6.0];
        let b = [3.0, 1.0, 9.0, 4.0, 5.0, 9.0, 4.0, 4.5];
        let inside = |p: &[f64], x: f64, y: f64| {
            let p = corners(p);
            edges(&p).filter(|&(a, b)| (a[1] <= y) != (b[1] <= y) && at((a, b), y) > x).count() % 2 == 1
        };
        let (mut both, mut either) = (0.0, 0.0);
        for (i, j) in (0..1000).flat_map(|i| (0..1000).map(move |j| (i, j))) {
            let (x, y) = (i as f64 / 100.0 + 0.005, j as f64 / 100.0 + 0.005);
            let in_both = [inside(&a, x, y), inside(&b, x, y)];
            both += f64::from(u8::from(in_both[0] && in_both[1]));
            either += f64::from(u8::from(in_both[0] || in_both[1]));
        }
        assert!((iou(&a, &b) - both / either).abs() < 2e-3);
    }

    #[test]
    fn corners_are_positions_minus_offsets() {
        let x: Vec<f32> = (0..4 * 3 * 5).map(|i| i as f32 / 8.0).collect();
        let mut out = vec![0.0; x.len()];
        from_offsets(&x, 3, 5, &mut out);
        for (plane, row, column) in (0..4).flat_map(|p| (0..3).flat_map(move |r| (0..5).map(move |c| (p, r, c)))) {
            let at = (plane * 3 + row) * 5 + column;
            assert_eq!(out[at], (if plane % 2 == 0 { column } else { row }) as f32 * 4.0 - x[at]);
        }
        from_offsets::<f64>(&[], 0, 5, &mut []);
    }
}
