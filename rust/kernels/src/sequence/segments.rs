//! Pooling of segments: consecutive rows with equal ids, in ascending order.

use crate::types::Number;
use std::ops::Range;

/// The kind of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentPooling {
    Sum,
    Mean,
    Max,
    Min,
}

/// The id and the rows of each segment of ascending ids.
pub fn segments(ids: &[i64]) -> Vec<(usize, Range<usize>)> {
    let mut found: Vec<(usize, Range<usize>)> = Vec::new();
    for (row, &id) in ids.iter().enumerate() {
        match found.last_mut() {
            Some((last, rows)) if *last == id as usize => rows.end = row + 1,
            _ => found.push((id as usize, row..row + 1)),
        }
    }
    found
}

/// Pools the rows of one segment (at least one), `width` elements each.
pub fn pool<T: Number>(pooling: SegmentPooling, rows: &[T], width: usize, out: &mut [T]) {
    let (first, others) = rows.split_at(width);
    out.copy_from_slice(first);
    let join: fn(T, T) -> T = match pooling {
        SegmentPooling::Sum | SegmentPooling::Mean => T::add,
        SegmentPooling::Max => |a, b| if b > a { b } else { a },
        SegmentPooling::Min => |a, b| if b < a { b } else { a },
    };
    for row in others.chunks_exact(width) {
        out.iter_mut().zip(row).for_each(|(o, &v)| *o = join(*o, v));
    }
    if pooling == SegmentPooling::Mean {
        let n = T::from_f64((rows.len() / width) as f64);
        out.iter_mut().for_each(|o| *o = o.div(n));
    }
}

/// The gradient of the rows `x` of one segment from its result `y` and the gradient `dout` of that. Elements that equal a
/// maximum or minimum all receive its gradient.
pub fn pool_grad<T: Number>(pooling: SegmentPooling, (x, y, dout): (&[T], &[T], &[T]), width: usize, dx: &mut [T]) {
    let rows = x.len() / width;
    let share = T::from_f64(if pooling == SegmentPooling::Mean { rows as f64 } else { 1.0 });
    for (dx, x) in dx.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
        for (i, d) in dx.iter_mut().enumerate() {
            *d = match pooling {
                SegmentPooling::Sum | SegmentPooling::Mean => dout[i].div(share),
                _ if x[i] == y[i] => dout[i],
                _ => T::ZERO,
            };
        }
    }
}

/// Pools each segment into the row of its id; other rows stay unchanged.
pub fn pool_all<T: Number>(
    pooling: SegmentPooling,
    segments: &[(usize, Range<usize>)],
    x: &[T],
    width: usize,
    out: &mut [T],
) {
    for (id, rows) in segments.iter().filter(|_| width > 0) {
        let rows = &x[rows.start * width..rows.end * width];
        pool(pooling, rows, width, &mut out[id * width..(id + 1) * width]);
    }
}

/// The gradient of all rows from the results of [`pool_all`] and the gradient of those.
pub fn pool_all_grad<T: Number>(
    pooling: SegmentPooling,
    segments: &[(usize, Range<usize>)],
    (x, out, dout): (&[T], &[T], &[T]),
    width: usize,
    dx: &mut [T],
) {
    for (id, rows) in segments.iter().filter(|_| width > 0) {
        let (here, of) = (rows.start * width..rows.end * width, id * width..(id + 1) * width);
        pool_grad(pooling, (&x[here.clone()], &out[of.clone()], &dout[of]), width, &mut dx[here]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_divide_rows_into_segments() {
        assert_eq!(segments(&[0, 0, 2, 5, 5, 5]), [(0, 0..2), (2, 2..3), (5, 3..6)]);
        assert_eq!(segments(&[]), []);
    }

    #[test]
    fn pooling_equals_a_plain_loop() {
        let (n, width) = (5, 3);
        let x: Vec<f64> = (0..n * width).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
        let dout = [1.0, 2.0, 3.0];
        for pooling in [SegmentPooling::Sum, SegmentPooling::Mean, SegmentPooling::Max, SegmentPooling::Min] {
            let (mut y, mut dx) = (vec![0.0; width], vec![0.0; n * width]);
            pool(pooling, &x, width, &mut y);
            pool_grad(pooling, (&x, &y, &dout), width, &mut dx);
            for c in 0..width {
                let column: Vec<f64> = (0..n).map(|r| x[r * width + c]).collect();
                let sum: f64 = column.iter().sum();
                let want = match pooling {
                    SegmentPooling::Sum => sum,
                    SegmentPooling::Mean => sum / n as f64,
                    SegmentPooling::Max => column.iter().copied().fold(f64::MIN, f64::max),
                    SegmentPooling::Min => column.iter().copied().fold(f64::MAX, f64::min),
                };
                assert_eq!(y[c], want);
                for r in 0..n {
                    let d = match pooling {
                        SegmentPooling::Sum => dout[c],
                        SegmentPooling::Mean => dout[c] / n as f64,
                        _ => f64::from(u8::from(column[r] == want)) * dout[c],
                    };
                    assert_eq!(dx[r * width + c], d);
                }
            }
        }
    }

    #[test]
    fn segments_are_pooled_into_the_rows_of_their_ids() {
        let (x, ids) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0, 0, 2]);
        let (mut out, mut dx) = ([-1.0; 6], [0.0; 6]);
        pool_all(SegmentPooling::Max, &segments(&ids), &x, 2, &mut out);
        assert_eq!(out, [3.0, 4.0, -1.0, -1.0, 5.0, 6.0]);
        let dout = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        pool_all_grad(SegmentPooling::Max, &segments(&ids), (&x, &out, &dout), 2, &mut dx);
        assert_eq!(dx, [0.0, 0.0, 7.0, 8.0, 11.0, 12.0]);
        pool_all::<f32>(SegmentPooling::Sum, &segments(&ids), &[], 0, &mut []);
    }
}
