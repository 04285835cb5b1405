//! psroi_pool: the average of each bin of a RoI; every bin reads its own plane.

use super::{ceil, floor, real, round, Bins, RoiGrid};
use crate::detection::boxes::most;
use crate::types::Float;
use std::ops::Range;

/// The elements of each bin along one axis; a RoI is at least 0.1 long.
fn side<R: Float>(from: R, to: R, scale: R, pooled: usize, size: usize) -> Vec<Range<usize>> {
    let start = round(from) * scale;
    let end = real::<R>(round(to).to_f64() + 1.0) * scale;
    let bin = most(end - start, real(0.1)) / real(pooled as f64);
    let place = |p: usize| real::<R>(p as f64) * bin + start;
    let clip = |at: i64| at.clamp(0, size as i64) as usize;
    (0..pooled).map(|p| clip(floor(place(p)))..clip(ceil(place(p + 1)))).collect()
}

/// The bins of a RoI [xmin, ymin, xmax, ymax] on a map of `(height, width)`; each reads the next plane.
pub fn bins<R: Float>(grid: &RoiGrid, roi: &[R], (height, width): (usize, usize), to: &mut Bins<R>) {
    let scale = real(grid.scale as f64);
    let rows = side(roi[1], roi[3], scale, grid.rows, height);
    let cols = side(roi[0], roi[2], scale, grid.cols, width);
    let ones = |to: &mut Bins<R>, range: &Range<usize>| to.line(|l| range.clone().for_each(|at| l.push(at, R::ONE)));
    let lines: Vec<_> = rows.iter().map(|range| ones(to, range)).collect();
    let across: Vec<_> = cols.iter().map(|range| ones(to, range)).collect();
    for (r, row) in rows.iter().zip(lines) {
        for (c, col) in cols.iter().zip(&across) {
            let plane = to.count();
            to.push(plane, row.clone(), col.clone(), real((r.len() * c.len()) as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_adjoint, values};
    use super::super::Pooling;
    use super::*;

    #[test]
    fn every_bin_averages_its_own_plane() {
        let grid = RoiGrid { scale: 0.5, rows: 2, cols: 3 };
        let rois = [0.0, 0.0, 9.0, 7.0, 3.4, -2.0, 20.0, 5.6, 30.0, 30.0, 40.0, 40.0];
        let p = Pooling { channels: 2, reads: 6, ..Pooling::new(vec![0..2, 2..3], 12, (5, 7), 6) };
        let x = values(2 * 12 * 35, 5);
        let mut out = vec![9.0; 3 * 2 * 6];
        let fill = |n: usize, _: usize, to: &mut Bins<f64>| bins(&grid, &rois[n * 4..][..4], p.size, to);
        p.forward(&x, &mut out, fill);
        for (k, got) in out.iter().enumerate() {
            let (roi, channel, bin) = (k / 12, k / 6 % 2, k % 6);
            let plane = &x[((roi / 2) * 12 + channel * 6 + bin) * 35..][..35];
            let span = |k: usize, at: usize, bins: usize, size: usize| {
                let (from, to) = (rois[roi * 4 + k].round() * 0.5, (rois[roi * 4 + k + 2].round() + 1.0) * 0.5);
                let bin = (to - from).max(0.1) / bins as f64;
                let clip = |v: f64| v.max(0.0).min(size as f64) as usize;
                clip((at as f64 * bin + from).floor())..clip(((at + 1) as f64 * bin + from).ceil())
            };
            let (rows, cols) = (span(1, bin / 3, 2, 5), span(0, bin % 3, 3, 7));
            let all: Vec<f64> = rows.flat_map(|r| cols.clone().map(move |c| plane[r * 7 + c])).collect();
            let want = if all.is_empty() { 0.0 } else { all.iter().sum::<f64>() / all.len() as f64 };
            assert!((got - want).abs() < 1e-9, "{k}");
        }
        assert_adjoint(&p, 3, fill);
    }
}
