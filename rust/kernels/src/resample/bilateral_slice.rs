//! bilateral_slice: a per-pixel affine map of the channels, read from a coarse grid at the depth given by a guide
//! image.

use crate::pool;
use crate::types::Number;

/// Smooths the distance along the grid's depth, which makes it differentiable.
const SOFT: f64 = 1e-8;

/// Sizes of images (channels, height, width) and grid (depth, height, width).
#[derive(Clone, Copy)]
pub struct SliceSizes {
    pub images: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// Grid coefficients per output channel: one per input, and an offset if there is one more.
    pub each: usize,
    pub image: (usize, usize),
    pub cells: (usize, usize, usize),
}

/// A grid cell that a pixel reads: its offset, its weight, and the weight's derivative by the guide.
#[derive(Clone, Copy, Default)]
struct Corner {
    at: usize,
    weight: f64,
    by_guide: f64,
}

impl SliceSizes {
    fn pixels(&self) -> usize {
        self.image.0 * self.image.1
    }

    /// Cells per grid channel.
    fn plane(&self) -> usize {
        self.cells.0 * self.cells.1 * self.cells.2
    }

    /// The eight cells around a pixel for trilinear interpolation; positions outside the grid use its border cells.
    fn corners(&self, pixel: usize, guide: f64) -> [Corner; 8] {
        let ((h, w), (depth, rows, cols)) = (self.image, self.cells);
        let place = |at: usize, cells: usize, n: usize| (at as f64 + 0.5) * cells as f64 / n as f64;
        let (x, y) = (place(pixel % w, cols, w), place(pixel / w, rows, h));
        let z = guide * depth as f64;
        let first = [x, y, z].map(|v| (v - 0.5).floor());
        let clamp = |v: f64, n: usize| v.clamp(0.0, n as f64 - 1.0) as usize;
        std::array::from_fn(|k| {
            let [cx, cy, cz] = [first[0] + (k & 1) as f64, first[1] + (k >> 1 & 1) as f64, first[2] + (k >> 2) as f64];
            let linear = |c: f64, v: f64| (1.0 - (c + 0.5 - v).abs()).max(0.0);
            let off = cz + 0.5 - z;
            let soft = (off * off + SOFT).sqrt();
            let flat = linear(cx, x) * linear(cy, y);
            let at = (clamp(cz, depth) * rows + clamp(cy, rows)) * cols + clamp(cx, cols);
            let slope = if soft > 1.0 { 0.0 } else { depth as f64 * off / soft };
            Corner { at, weight: flat * (1.0 - soft).max(0.0), by_guide: flat * slope }
        })
    }
}

/// Weighted sum of one grid channel over the corners.
fn read<T: Number>(grid: &[T], corners: &[Corner; 8], weight: impl Fn(&Corner) -> f64) -> f64 {
    corners.iter().map(|c| grid[c.at].to_f64() * weight(c)).sum()
}

/// out [images, outputs, pixels] from x [images, inputs, pixels], the grid [images, outputs * each, cells] and the
/// guide [images, pixels].
pub fn forward<T: Number>(s: &SliceSizes, x: &[T], grid: &[T], guide: &[T], out: &mut [T]) {
    let (n, plane) = (s.pixels(), s.plane());
    pool::parts(out, n.max(1), |start, out| {
        let (image, o) = (start / n / s.outputs, start / n % s.outputs);
        let (x, guide) = (&x[image * s.inputs * n..][..s.inputs * n], &guide[image * n..(image + 1) * n]);
        let grid = &grid[(image * s.outputs + o) * s.each * plane..][..s.each * plane];
        for (p, out) in out.iter_mut().enumerate() {
            let corners = s.corners(p, guide[p].to_f64());
            let value = grid.chunks_exact(plane).enumerate().map(|(i, grid)| {
                let input = if i < s.inputs { x[i * n + p].to_f64() } else { 1.0 };
                read(grid, &corners, |c| c.weight) * input
            });
            *out = T::from_f64(value.sum());
        }
    });
}

/// x, grid, guide and the gradient of the output.
pub type SliceInputs<'a, T> = (&'a [T], &'a [T], &'a [T], &'a [T]);

/// The gradients of x, grid and guide; each thread computes a part of each.
pub fn backward<T: Number>(s: &SliceSizes, (x, grid, guide, d): SliceInputs<T>, outs: [Option<&mut [T]>; 3]) {
    let (n, plane) = (s.pixels(), s.plane());
    let [dx, dgrid, dguide] = outs;
    let numbers = |image: usize, o: usize, i: usize| &grid[((image * s.outputs + o) * s.each + i) * plane..][..plane];
    let input = |image: usize, i: usize, p: usize| match i < s.inputs {
        true => x[(image * s.inputs + i) * n + p].to_f64(),
        false => 1.0,
    };
    let gradient = |image: usize, o: usize, p: usize| d[(image * s.outputs + o) * n + p].to_f64();
    if let Some(dx) = dx {
        pool::parts(dx, n.max(1), |start, dx| {
            let (image, i) = (start / n / s.inputs, start / n % s.inputs);
            for (p, dx) in dx.iter_mut().enumerate() {
                let corners = s.corners(p, guide[image * n + p].to_f64());
                let of = |o: usize| read(numbers(image, o, i), &corners, |c| c.weight) * gradient(image, o, p);
                *dx = T::from_f64((0..s.outputs).map(of).sum());
            }
        });
    }
    if let Some(dgrid) = dgrid {
        pool::parts(dgrid, plane.max(1), |start, dgrid| {
            let channel = start / plane % (s.outputs * s.each);
            let (image, o, i) = (start / plane / (s.outputs * s.each), channel / s.each, channel % s.each);
            let mut sums = vec![0.0; plane];
            for p in 0..n {
                let by = gradient(image, o, p) * input(image, i, p);
                s.corners(p, guide[image * n + p].to_f64()).iter().for_each(|c| sums[c.at] += c.weight * by);
            }
            dgrid.iter_mut().zip(sums).for_each(|(g, s)| *g = T::from_f64(s));
        });
    }
    if let Some(dguide) = dguide {
        pool::parts(dguide, s.image.1.max(1), |start, dguide| {
            for (k, dguide) in dguide.iter_mut().enumerate() {
                let (image, p) = ((start + k) / n, (start + k) % n);
                let corners = s.corners(p, guide[start + k].to_f64());
                let of = |o: usize, i: usize| read(numbers(image, o, i), &corners, |c| c.by_guide) * input(image, i, p);
                let whole = |o: usize| (0..s.each).map(|i| of(o, i)).sum::<f64>() * gradient(image, o, p);
                *dguide = T::from_f64((0..s.outputs).map(whole).sum());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 31) % 41) as f64 / 20.0 - 1.0).collect()
    }

    #[test]
    fn pixels_are_mapped_by_the_cells_around_them() {
        for each in [2, 3] {
            let s = SliceSizes { images: 2, inputs: 2, outputs: 3, each, image: (3, 5), cells: (4, 2, 3) };
            let (x, grid) = (values(2 * 2 * 15, 1), values(2 * 3 * each * 24, 2));
            let guide: Vec<f64> = (0..30).map(|i| (i * 17 % 30) as f64 / 31.0 + 0.013).collect();
            let out_of = |x: &[f64], grid: &[f64], guide: &[f64]| {
                let mut out = vec![9.0; 2 * 3 * 15];
                forward(&s, x, grid, guide, &mut out);
                out
            };
            let out = out_of(&x, &grid, &guide);
            for (k, got) in out.iter().enumerate() {
                let (image, o, p) = (k / 45, k / 15 % 3, k % 15);
                let place = |at: usize, cells: usize, n: usize| (at as f64 + 0.5) * cells as f64 / n as f64;
                let at = [place(p % 5, 3, 5), place(p / 5, 2, 3), guide[image * 15 + p] * 4.0];
                let mut want = 0.0;
                for (z, y, x_at) in (-1..5).flat_map(|z| (-1..3).flat_map(move |y| (-1..4).map(move |x| (z, y, x)))) {
                    let hat = |c: i64, v: f64| (1.0 - (c as f64 + 0.5 - v).abs()).max(0.0);
                    let soft = |c: i64, v: f64| (1.0 - ((c as f64 + 0.5 - v).powi(2) + 1e-8).sqrt()).max(0.0);
                    let clamp = |c: i64, n: i64| c.clamp(0, n - 1) as usize;
                    let cell = (clamp(z, 4) * 2 + clamp(y, 2)) * 3 + clamp(x_at, 3);
                    let weight = hat(x_at, at[0]) * hat(y, at[1]) * soft(z, at[2]);
                    for i in 0..each {
                        let input = if i < 2 { x[(image * 2 + i) * 15 + p] } else { 1.0 };
                        want += weight * grid[((image * 3 + o) * each + i) * 24 + cell] * input;
                    }
                }
                assert!((got - want).abs() < 1e-9, "{k} {got} {want}");
            }
            let d = values(90, 3);
            let mut grads = [vec![9.0; x.len()], vec![9.0; grid.len()], vec![9.0; guide.len()]];
            let [dx, dgrid, dguide] = &mut grads;
            backward(&s, (&x, &grid, &guide, &d), [Some(dx), Some(dgrid), Some(dguide)]);
            for (which, grad) in grads.iter().enumerate() {
                for k in (0..grad.len()).step_by(5) {
                    let loss = |by: f64| {
                        let mut ins = [x.clone(), grid.clone(), guide.clone()];
                        ins[which][k] += by;
                        out_of(&ins[0], &ins[1], &ins[2]).iter().zip(&d).map(|(o, d)| o * d).sum::<f64>()
                    };
                    let want = (loss(1e-6) - loss(-1e-6)) / 2e-6;
                    assert!((grad[k] - want).abs() < 1e-4, "{which} {k} {} {want}", grad[k]);
                }
            }
        }
    }
}
