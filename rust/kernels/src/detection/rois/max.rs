//! roi_pool: the maximum of each bin of a RoI, and its position.

use super::{floor, real, round, Feature, Pooling, RoiGrid};
use crate::pool::{self, Shared};
use std::ops::{AddAssign, Range};

/// The elements of each bin along one axis, within the map. Bin edges are computed in f32 for all types.
fn bins(start: i64, end: i64, pooled: usize, size: usize) -> Vec<Range<usize>> {
    let length = end.saturating_sub(start).saturating_add(1).max(1);
    let bin = length as f32 / pooled as f32;
    let clip = |at: i64| at.saturating_add(start).clamp(0, size as i64) as usize;
    (0..pooled).map(|p| clip((p as f32 * bin).floor() as i64)..clip(((p + 1) as f32 * bin).ceil() as i64)).collect()
}

/// Writes the maximum of each bin of the RoIs [xmin, ymin, xmax, ymax], not below `least`, and its position in the
/// plane, -1 if there is none; an empty bin is 0.
pub fn forward<T: Feature + PartialOrd>(
    p: &Pooling,
    grid: &RoiGrid,
    (x, rois, least): (&[T], &[T], T),
    (out, argmax): (&mut [T], &mut [i64]),
) {
    let (each, (height, width)) = (p.channels * p.bins, p.size);
    let (out, argmax) = (Shared::new(out), Shared::new(argmax));
    let image_of = p.image_of_rois();
    pool::chunks(image_of.len(), |roi| {
        let image = image_of[roi];
        // SAFETY: RoIs have disjoint parts, and the slices outlive the call.
        let (out, argmax) =
            unsafe { (out.part(roi * each..(roi + 1) * each), argmax.part(roi * each..(roi + 1) * each)) };
        let scale = real::<T::W>(grid.scale as f64);
        let at = |k: usize| floor(round(rois[roi * 4 + k].wide() * scale));
        let rows = bins(at(1), at(3), grid.rows, height);
        let cols = bins(at(0), at(2), grid.cols, width);
        for c in 0..p.channels {
            let plane = &x[(image * p.planes + c) * height * width..][..height * width];
            let mut to = out[c * p.bins..].iter_mut().zip(&mut argmax[c * p.bins..]);
            for rows in &rows {
                for cols in &cols {
                    let empty = rows.is_empty() || cols.is_empty();
                    let (mut best, mut place) = (if empty { T::default() } else { least }, -1);
                    for r in rows.clone() {
                        for k in cols.clone() {
                            if plane[r * width + k] > best {
                                (best, place) = (plane[r * width + k], (r * width + k) as i64);
                            }
                        }
                    }
                    if let Some((o, a)) = to.next() {
                        (*o, *a) = (best, if empty { -1 } else { place });
                    }
                }
            }
        }
    });
}

/// Adds the gradient of each maximum to its position, in the order of RoIs. Positions outside the plane are ignored.
pub fn backward<T: Feature + AddAssign>(p: &Pooling, argmax: &[i64], dout: &[T], dx: &mut [T]) {
    let (each, area) = (p.channels * p.bins, p.size.0 * p.size.1);
    p.scatter(dx, |rois, channels, dx| {
        for roi in rois {
            for (c, dx) in channels.clone().zip(dx.chunks_exact_mut(area)) {
                let bins = roi * each + c * p.bins..roi * each + (c + 1) * p.bins;
                for (&at, &d) in argmax[bins.clone()].iter().zip(&dout[bins]) {
                    if let Some(to) = usize::try_from(at).ok().and_then(|at| dx.get_mut(at)) {
                        *to += d;
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pooling, values};
    use super::*;

    #[test]
    fn maxima_and_their_gradients() {
        let rois =
            [0.0, 0.0, 9.0, 7.0, -6.0, 2.0, 30.0, 4.0, 2.0, 2.0, 2.0, 2.0, 40.0, 30.0, 60.0, 50.0, 1.0, 1.0, 12.0, 6.0];
        let (p, x, grid) = (pooling(6), values(3 * 3 * 35, 8), RoiGrid { scale: 0.5, rows: 2, cols: 3 });
        let (mut out, mut argmax) = (vec![9.0; 90], vec![9; 90]);
        forward(&p, &grid, (&x, &rois, -f64::MAX), (&mut out, &mut argmax));
        let (d, mut want_dx) = (values(90, 9), vec![0.0; x.len()]);
        for k in 0..90 {
            let (roi, c, bin) = (k / 18, k / 6 % 3, k % 6);
            let plane = (p.image_of_rois()[roi] * 3 + c) * 35;
            let side = |k: usize, at: usize, bins: usize, size: f32| {
                let ends = [k, k + 2].map(|k| (rois[roi * 4 + k] * 0.5f64).round() as f32);
                let bin = (ends[1] - ends[0] + 1.0).max(1.0) / bins as f32;
                let clip = |v: f32| (v + ends[0]).clamp(0.0, size) as usize;
                clip((at as f32 * bin).floor())..clip(((at + 1) as f32 * bin).ceil())
            };
            let (rows, cols) = (side(1, bin / 3, 2, 5.0), side(0, bin % 3, 3, 7.0));
            let mut best = None;
            for at in rows.flat_map(|r| cols.clone().map(move |c| r * 7 + c)) {
                if best.is_none_or(|b| x[plane + at] > x[plane + b]) {
                    best = Some(at);
                }
            }
            assert_eq!((out[k], argmax[k]), best.map_or((0.0, -1), |b| (x[plane + b], b as i64)), "{k}");
            if let Some(b) = best {
                want_dx[plane + b] += d[k];
            }
        }
        let mut dx = vec![9.0; x.len()];
        backward(&p, &argmax, &d, &mut dx);
        assert_eq!(dx, want_dx);
        backward(&p, &[-1; 90], &d, &mut dx);
        assert_eq!(dx, vec![0.0; x.len()]);
    }
}
