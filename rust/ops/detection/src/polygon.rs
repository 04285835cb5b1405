//! Polygons given by their corners; of several parts the even-odd rule says what is inside.

use super::real::BoxFloat;

type Point = [f64; 2];

fn corners<T: BoxFloat>(p: &[T]) -> Vec<Point> {
    p.chunks_exact(2).map(|c| [c[0].to_f64(), c[1].to_f64()]).collect()
}

fn edges(p: &[Point]) -> impl Iterator<Item = (Point, Point)> + '_ {
    p.iter().zip(p.iter().cycle().skip(1)).map(|(&a, &b)| (a, b))
}

fn area(p: &[Point]) -> f64 {
    (edges(p).map(|(a, b)| a[0] * b[1] - a[1] * b[0]).sum::<f64>() / 2.0).abs()
}

/// Where an edge is at a height.
fn at((a, b): (Point, Point), y: f64) -> f64 {
    a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
}

/// The height at which two edges cross, if they do.
fn crossing((a, b): (Point, Point), (c, d): (Point, Point)) -> Option<f64> {
    let (r, s) = ([b[0] - a[0], b[1] - a[1]], [d[0] - c[0], d[1] - c[1]]);
    let turn = r[0] * s[1] - r[1] * s[0];
    let t = ((c[0] - a[0]) * s[1] - (c[1] - a[1]) * s[0]) / turn;
    let u = ((c[0] - a[0]) * r[1] - (c[1] - a[1]) * r[0]) / turn;
    (turn != 0.0 && (0.0..=1.0).contains(&t) && (0.0..=1.0).contains(&u)).then(|| a[1] + t * r[1])
}

/// The area that two polygons share, by strips between the heights of corners and crossings, in which no edges cross.
fn shared(a: &[Point], b: &[Point]) -> f64 {
    let all: Vec<_> = edges(a).map(|e| (e, true)).chain(edges(b).map(|e| (e, false))).collect();
    let mut heights: Vec<f64> = a.iter().chain(b).map(|p| p[1]).collect();
    for (i, first) in all.iter().enumerate() {
        heights.extend(all[i + 1..].iter().filter_map(|second| crossing(first.0, second.0)));
    }
    heights.sort_by(f64::total_cmp);
    heights.dedup();
    let mut sum = 0.0;
    for strip in heights.windows(2) {
        let (low, high) = (strip[0], strip[1]);
        let middle = low + (high - low) / 2.0;
        let through = |e: &(Point, Point)| (e.0[1] <= middle) != (e.1[1] <= middle);
        let mut cuts: Vec<_> = all.iter().filter(|(e, _)| through(e)).map(|(e, own)| (at(*e, middle), *own)).collect();
        cuts.sort_by(|x, y| x.0.total_cmp(&y.0));
        let (mut inside, mut from) = ([false; 2], 0.0);
        for (x, own) in cuts {
            // The middle width of a strip times its height is the area, as no edges cross there.
            if inside == [true; 2] {
                sum += (x - from) * (high - low);
            }
            inside[own as usize] ^= true;
            from = x;
        }
    }
    sum
}

/// What two polygons share, over what they cover together; 0 where one of them has no area.
pub fn overlap<T: BoxFloat>(a: &[T], b: &[T]) -> f64 {
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
