//! Anchors and prior boxes at the positions of a grid.

use super::boxes::{clipped, BoxMath};
use crate::pool;
use crate::types::Float;

/// Writes the boxes of each position of a grid `width` columns wide, `boxes` per position: `place(row, column, boxes)`.
fn each_place<T: Float>(out: &mut [T], width: usize, boxes: usize, place: impl Fn(usize, usize, &mut [T]) + Sync) {
    let mut places: Vec<&mut [T]> = out.chunks_exact_mut((boxes * 4).max(1)).collect();
    pool::parts(&mut places, 256, |at, part| {
        for (i, to) in part.iter_mut().enumerate() {
            place((at + i) / width, (at + i) % width, to);
        }
    });
}

/// Widths and heights of the anchors of a position: all `sizes` for each of `ratios`.
pub fn anchor_sizes<T: Float>(ratios: &[f32], sizes: &[f32], stride: [T; 2]) -> Vec<[T; 2]> {
    let one = |v: f32| T::from_f64(v.into());
    let mut all = Vec::with_capacity(ratios.len() * sizes.len());
    for &ratio in ratios {
        let width = BoxMath::round(T::from_f64((stride[0] * stride[1] / one(ratio)).to_f64().sqrt()));
        let height = BoxMath::round(width * one(ratio));
        for &size in sizes {
            all.push([one(size) / stride[0] * width, one(size) / stride[1] * height]);
        }
    }
    all
}

/// Anchors of `sizes` around the positions of a grid, `stride` apart, shifted by `offset` times (stride - 1).
pub fn anchors<T: Float>(sizes: &[[T; 2]], stride: [T; 2], offset: T, columns: usize, out: &mut [T]) {
    let (half, shift) = (T::from_f64(0.5), stride.map(|s| offset * (s - T::ONE)));
    each_place(out, columns, sizes.len(), |row, column, to| {
        let x = T::from_f64(column as f64) * stride[0] + shift[0];
        let y = T::from_f64(row as f64) * stride[1] + shift[1];
        for (to, [width, height]) in to.chunks_exact_mut(4).zip(sizes) {
            let (w, h) = (half * (*width - T::ONE), half * (*height - T::ONE));
            to.copy_from_slice(&[x - w, y - h, x + w, y + h]);
        }
    });
}

/// A grid of prior boxes: distances of positions in pixels, the size of the image, and the offset of centers in steps.
#[derive(Clone, Copy)]
pub struct PriorGrid<T> {
    pub columns: usize,
    pub step: [T; 2],
    pub size: [T; 2],
    pub offset: T,
    pub clip: bool,
}

/// Prior boxes with the half sizes `halves` around the positions of a grid, as fractions of the image; `count` boxes
/// per position, zeros after the given ones.
pub fn priors<T: Float>(g: &PriorGrid<T>, halves: &[[T; 2]], count: usize, out: &mut [T]) {
    each_place(out, g.columns, count, |row, column, to| {
        let x = (T::from_f64(column as f64) + g.offset) * g.step[0];
        let y = (T::from_f64(row as f64) + g.offset) * g.step[1];
        for (to, [w, h]) in to.chunks_exact_mut(4).zip(halves) {
            let [width, height] = g.size;
            let edges = [(x - *w) / width, (y - *h) / height, (x + *w) / width, (y + *h) / height];
            to.copy_from_slice(&if g.clip { edges.map(|e| clipped(e, T::ONE)) } else { edges });
        }
        to.iter_mut().skip(halves.len() * 4).for_each(|v| *v = T::ZERO);
    });
}

/// A prior box of density_prior_box: the offset of its center in two parts, which Paddle rounds to f32 one by one, and
/// half of its width and height.
pub type DenseBox = (f64, [f32; 2], [f64; 2]);

/// The boxes of a position: for each size and ratio, `density`^2 boxes on a subgrid of the position.
pub fn dense_boxes(sizes: &[f32], densities: &[i32], ratios: &[f32], average: i32) -> Vec<DenseBox> {
    let mut boxes = Vec::new();
    for (&fixed, &density) in sizes.iter().zip(densities) {
        let shift = average / density;
        for &ratio in ratios {
            let sides = [fixed * ratio.sqrt(), fixed / ratio.sqrt()].map(|s| f64::from(s) / 2.0);
            let first = f64::from(shift) / 2.0 - f64::from(average) / 2.0;
            for k in 0..density * density {
                boxes.push((first, [k % density, k / density].map(|i| (i * shift) as f32), sides));
            }
        }
    }
    boxes
}

/// Prior boxes `boxes` around the positions of a grid, as fractions of the image within 0..=1.
pub fn dense_priors<T: Float>(g: &PriorGrid<T>, boxes: &[DenseBox], out: &mut [T]) {
    let size = g.size.map(|s| s.to_f64());
    each_place(out, g.columns, boxes.len(), |row, column, to| {
        let center = [(column, g.step[0]), (row, g.step[1])];
        let center = center.map(|(i, s)| ((T::from_f64(i as f64) + g.offset) * s).to_f64());
        for (to, (first, shift, sides)) in to.chunks_exact_mut(4).zip(boxes) {
            for k in 0..2 {
                let middle = f64::from((center[k] + first) as f32 + shift[k]);
                to[k] = T::from_f64(((middle - sides[k]) / size[k]).max(0.0));
                to[k + 2] = T::from_f64(((middle + sides[k]) / size[k]).min(1.0));
            }
            if g.clip {
                to.iter_mut().for_each(|v| *v = clipped(*v, T::ONE));
            }
        }
    });
}

/// Writes the four variances to every row.
pub fn repeat<T: Float>(variances: &[f32], out: &mut [T]) {
    for row in out.chunks_exact_mut(4) {
        row.iter_mut().zip(variances).for_each(|(to, &v)| *to = T::from_f64(v.into()));
    }
}

/// The distinct aspect ratios, starting with 1; with `flip` also their reciprocals.
pub fn distinct_ratios(ratios: &[f32], flip: bool) -> Vec<f32> {
    let mut all: Vec<f32> = vec![1.0];
    for &ratio in ratios {
        if !all.iter().any(|&known| f64::from((ratio - known).abs()) < 1e-6) {
            all.push(ratio);
            all.extend(flip.then_some(1.0 / ratio));
        }
    }
    all
}

/// Half widths and heights of prior boxes: for each of `least` its boxes of all `ratios`, and a square between it and
/// the corresponding one of `greatest`. With `squares_first` both squares come before the other ratios.
pub fn half_sizes<T: Float>(ratios: &[f32], least: &[f32], greatest: &[f32], squares_first: bool) -> Vec<[T; 2]> {
    let mut halves: Vec<[T; 2]> = Vec::new();
    let square = |side: f32| [T::from_f64(f64::from(side) / 2.0); 2];
    let of_ratio =
        |least: f32, r: f32| [least * r.sqrt(), least / r.sqrt()].map(|side| T::from_f64(f64::from(side) / 2.0));
    for (i, &least) in least.iter().enumerate() {
        let greater = greatest.get(i).map(|&most| square((least * most).sqrt()));
        if squares_first {
            halves.push(square(least));
            halves.extend(greater);
            let others = ratios.iter().filter(|&&r| (f64::from(r) - 1.0).abs() >= 1e-6);
            halves.extend(others.map(|&r| of_ratio(least, r)));
        } else {
            halves.extend(ratios.iter().map(|&r| of_ratio(least, r)));
            halves.extend(greater);
        }
    }
    halves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_centered_on_strides() {
        let sizes = anchor_sizes::<f64>(&[1.0, 4.0], &[32.0], [16.0, 16.0]);
        assert_eq!(sizes, [[32.0, 32.0], [16.0, 64.0]]);
        let mut out = vec![0.0; 2 * 3 * 2 * 4];
        anchors(&sizes, [16.0, 16.0], 0.5, 3, &mut out);
        for (k, b) in out.chunks_exact(4).enumerate() {
            let (row, column, [w, h]) = (k / 6, k / 2 % 3, sizes[k % 2]);
            let (x, y) = (column as f64 * 16.0 + 7.5, row as f64 * 16.0 + 7.5);
            assert_eq!(b, [x - (w - 1.0) / 2.0, y - (h - 1.0) / 2.0, x + (w - 1.0) / 2.0, y + (h - 1.0) / 2.0]);
        }
    }

    #[test]
    fn prior_boxes_are_fractions_of_the_image() {
        let g = PriorGrid { columns: 2, step: [10.0f64, 20.0], size: [20.0, 40.0], offset: 0.5, clip: false };
        let halves = [[5.0, 5.0], [20.0, 10.0]];
        let mut out = vec![9.0; 4 * 3 * 4];
        priors(&g, &halves, 3, &mut out);
        for (k, b) in out.chunks_exact(4).enumerate() {
            let (row, column) = (k / 6, k / 3 % 2);
            let want = halves.get(k % 3).map_or([0.0; 4], |[w, h]| {
                let (x, y) = (column as f64 * 10.0 + 5.0, row as f64 * 20.0 + 10.0);
                [(x - w) / 20.0, (y - h) / 40.0, (x + w) / 20.0, (y + h) / 40.0]
            });
            assert_eq!(b, want);
        }
        priors(&PriorGrid { clip: true, ..g }, &halves, 3, &mut out);
        assert!(out.iter().all(|v| (0.0..=1.0).contains(v)));
    }

    #[test]
    fn dense_boxes_divide_a_position() {
        let boxes = dense_boxes(&[8.0], &[2], &[1.0], 16);
        let centers: Vec<[f64; 2]> = boxes.iter().map(|b| b.1.map(|s| b.0 + f64::from(s))).collect();
        assert_eq!(centers, [[-4.0, -4.0], [4.0, -4.0], [-4.0, 4.0], [4.0, 4.0]]);
        let g = PriorGrid { columns: 1, step: [16.0f32, 16.0], size: [32.0, 32.0], offset: 0.5, clip: true };
        let mut out = vec![0.0; 16];
        dense_priors(&g, &boxes, &mut out);
        assert_eq!(out[..4], [0.0, 0.0, 0.25, 0.25]);
        assert_eq!(out[12..], [0.25, 0.25, 0.5, 0.5]);
    }

    #[test]
    fn sizes_of_prior_boxes() {
        let ratios = distinct_ratios(&[1.0, 4.0, 4.0000001, 0.25], true);
        assert_eq!(ratios, [1.0, 4.0, 0.25]);
        assert_eq!(distinct_ratios(&[4.0, 9.0], false), [1.0, 4.0, 9.0]);
        let last: Vec<[f64; 2]> = half_sizes(&ratios, &[4.0], &[9.0], false);
        assert_eq!(last, [[2.0, 2.0], [4.0, 1.0], [1.0, 4.0], [3.0, 3.0]]);
        let first: Vec<[f64; 2]> = half_sizes(&ratios, &[4.0, 8.0], &[9.0], true);
        assert_eq!(first[..4], [[2.0, 2.0], [3.0, 3.0], [4.0, 1.0], [1.0, 4.0]]);
        assert_eq!(first[4..], [[4.0, 4.0], [8.0, 2.0], [2.0, 8.0]]);
        let mut out = [0.0f32; 8];
        repeat(&[0.1, 0.2, 0.3, 0.4], &mut out);
        assert_eq!(out, [0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4]);
    }
}
