//! Spatial pyramid pooling: poolings to 1, 4, 16, .. windows, concatenated.

use super::grad::{avg_pool_grad, max_pool_grad};
use super::{avg_pool, max_pool, Pool};
use crate::types::Float;

/// Images [images, channels, height, width], and the number of levels.
#[derive(Clone, Copy)]
pub struct Pyramid {
    pub images: usize,
    pub channels: usize,
    pub size: [usize; 2],
    pub levels: u32,
    /// Maxima instead of averages.
    pub max: bool,
}

/// Calls `f(row of all levels, row of this level)` for each image; a level's rows begin at `from`.
fn rows<T>(all: &mut [T], level: &mut [T], images: usize, from: usize, f: impl Fn(&mut [T], &mut [T])) {
    let (features, part) = (all.len() / images.max(1), level.len() / images.max(1));
    for n in 0..images {
        f(&mut all[n * features + from..][..part], &mut level[n * part..][..part]);
    }
}

impl Pyramid {
    /// One level: 2^p windows along each axis, padded symmetrically to cover the image.
    fn level(&self, p: u32) -> Pool {
        let bins = 1usize << p;
        let (size, mut kernel, mut pad) = ([1, self.size[0], self.size[1]], [1; 3], [0; 3]);
        for i in 1..3 {
            kernel[i] = size[i].div_ceil(bins);
            pad[i] = (kernel[i] * bins - size[i]).div_ceil(2);
        }
        Pool {
            images: self.images,
            channels: self.channels,
            in_size: size,
            out_size: [1, bins, bins],
            kernel,
            stride: kernel,
            pad,
            pad_after: pad,
            adaptive: false,
            exclusive: true,
            channels_last: false,
        }
    }

    /// y [images, channels * windows of all levels]
    pub fn forward<T: Float>(&self, x: &[T], y: &mut [T]) {
        let mut from = 0;
        for i in 0..self.levels {
            let p = self.level(i);
            let mut part = vec![T::ZERO; p.out_len()];
            let pool = if self.max { max_pool::<T> } else { avg_pool::<T> };
            pool(&p, x, &mut part);
            rows(y, &mut part, p.images, from, |all, level| all.copy_from_slice(level));
            from += p.out_len() / p.images.max(1);
        }
    }

    /// The gradient of x, from y and its gradient (which are copied).
    pub fn backward<T: Float>(&self, x: &[T], (y, dy): (&[T], &[T]), dx: &mut [T]) {
        dx.fill(T::ZERO);
        let (mut y, mut dy) = (y.to_vec(), dy.to_vec());
        let mut one = vec![T::ZERO; dx.len()];
        let mut from = 0;
        for i in 0..self.levels {
            let p = self.level(i);
            let [mut part, mut dpart] = [vec![T::ZERO; p.out_len()], vec![T::ZERO; p.out_len()]];
            for (all, level) in [(&mut y, &mut part), (&mut dy, &mut dpart)] {
                rows(all, level, p.images, from, |all, level| level.copy_from_slice(all));
            }
            if self.max {
                max_pool_grad(&p, x, &part, &dpart, &mut one);
            } else {
                avg_pool_grad(&p, &dpart, &mut one);
            }
            dx.iter_mut().zip(&one).for_each(|(sum, &v)| *sum += v);
            from += p.out_len() / p.images.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_concatenated() {
        let x: Vec<f64> = (0..2 * 2 * 7 * 5).map(|i| (i * 7919 % 1009) as f64 / 100.0).collect();
        for max in [true, false] {
            let s = Pyramid { images: 2, channels: 2, size: [7, 5], levels: 3, max };
            let mut y = vec![9.0; 2 * 2 * 21];
            s.forward(&x, &mut y);
            let mut at = 0;
            for (image, level, channel) in (0..2).flat_map(|i| (0..3).flat_map(move |l| (0..2).map(move |c| (i, l, c))))
            {
                let bins = 1usize << level;
                let plane = &x[(image * 2 + channel) * 35..][..35];
                let span = |size: usize, b: usize| {
                    let kernel = size.div_ceil(bins);
                    let start = (b * kernel) as isize - (kernel * bins - size).div_ceil(2) as isize;
                    start.max(0) as usize..(start + kernel as isize).clamp(0, size as isize) as usize
                };
                for (r, c) in (0..bins).flat_map(|r| (0..bins).map(move |c| (r, c))) {
                    let all: Vec<f64> = span(7, r).flat_map(|i| span(5, c).map(move |j| plane[i * 5 + j])).collect();
                    if !all.is_empty() {
                        let want = match max {
                            true => all.iter().copied().fold(f64::MIN, f64::max),
                            false => all.iter().sum::<f64>() / all.len() as f64,
                        };
                        assert!((y[at] - want).abs() < 1e-12, "{max} {at}");
                    }
                    at += 1;
                }
            }
            // The poolings are piecewise linear: the gradient is their adjoint. Windows outside the image have no maximum.
            y.iter_mut().filter(|v| v.is_nan() || v.abs() > 1e9).for_each(|v| *v = 0.0);
            let dy: Vec<f64> =
                y.iter().enumerate().map(|(i, v)| if *v == 0.0 { 0.0 } else { (i % 7) as f64 - 3.0 }).collect();
            let mut dx = vec![9.0; x.len()];
            s.backward(&x, (&y, &dy), &mut dx);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-9, "{max}");
        }
    }
}
