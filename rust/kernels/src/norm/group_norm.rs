//! Group normalisation, built on the passes of batch normalisation: each channel of each image is one channel there.

use crate::norm::batch_norm::{batch_norm, batch_stats, inverse_sqrt, BatchNormGrad, Channels};
use crate::norm::lanes::Gradient;
use crate::types::Float;
use std::ops::Range;

/// A tensor as images of groups of channels of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    pub images: usize,
    pub groups: usize,
    /// Channels of a group.
    pub width: usize,
    pub pixels: usize,
    /// [images, pixels, channels] instead of [images, channels, pixels].
    pub last: bool,
}

impl Groups {
    pub fn channels(&self) -> usize {
        self.groups * self.width
    }
    pub fn len(&self) -> usize {
        self.images * self.channels() * self.pixels
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn count(&self) -> f64 {
        (self.width * self.pixels) as f64
    }

    /// The parts that are computed at once, with their elements and channels: all images, or one image at a time with
    /// channels last.
    fn parts(&self) -> impl Iterator<Item = (Channels, Range<usize>, Range<usize>)> {
        let (times, of, pixels, last) =
            if self.last { (self.images, 1, self.pixels, true) } else { (1, self.images, self.pixels, false) };
        let channels = of * self.channels();
        let d = Channels { images: 1, channels, pixels, last };
        (0..times).map(move |i| (d, i * d.len()..(i + 1) * d.len(), i * channels..(i + 1) * channels))
    }

    /// Repeats one value per group for each channel of each image.
    fn spread<T: Copy>(&self, of: &[T]) -> Vec<T> {
        of.iter().flat_map(|&v| std::iter::repeat_n(v, self.width)).collect()
    }

    /// Sums over the channels of each group of each image.
    fn gather<T: Float>(&self, of: &[T]) -> Vec<f64> {
        of.chunks_exact(self.width.max(1)).map(|c| c.iter().map(|v| v.to_f64()).sum()).collect()
    }

    /// Mean and biased variance of each group of each image; NaN for groups without elements.
    fn stats<T: Float>(&self, x: &[T], mean: &mut [T], var: &mut [T]) {
        if !self.last {
            let channels = self.images * self.groups;
            let d = Channels { images: 1, channels, pixels: self.width * self.pixels, last: false };
            return batch_stats(&d, x, mean, var);
        }
        if self.width == 0 {
            return [mean, var].into_iter().for_each(|s| s.fill(T::from_f64(f64::NAN)));
        }
        let mut each = Vec::with_capacity(self.images * self.channels());
        for (d, elements, _) in self.parts() {
            let (mut m, mut v) = (vec![T::ZERO; d.channels], vec![T::ZERO; d.channels]);
            batch_stats(&d, &x[elements], &mut m, &mut v);
            each.extend(m.into_iter().zip(v).map(|(m, v)| [m, v]));
        }
        for ((m, v), each) in mean.iter_mut().zip(var).zip(each.chunks_exact(self.width)) {
            let over = |f: &dyn Fn([f64; 2]) -> f64| {
                each.iter().map(|e| f(e.map(|v| v.to_f64()))).sum::<f64>() / self.width as f64
            };
            let middle = over(&|[m, _]| m);
            // The variance within channels plus the variance between them.
            (*m, *v) = (T::from_f64(middle), T::from_f64(over(&|[m, v]| v + (m - middle) * (m - middle))));
        }
    }
}

/// `y = xhat * scale + bias` (one value per channel); writes the statistics of each group of each image to `mean` and
/// `var`.
pub fn group_norm<T: Float>(
    g: &Groups,
    x: &[T],
    scale: &[T],
    bias: &[T],
    epsilon: f64,
    [mean, var]: [&mut [T]; 2],
    y: &mut [T],
) {
    assert!(x.len() == g.len() && y.len() == g.len(), "sizes do not fit the groups");
    g.stats(x, mean, var);
    let inv: Vec<T> = var.iter().map(|&v| inverse_sqrt(v, epsilon)).collect();
    let (mean, inv) = (g.spread(mean), g.spread(&inv));
    let (scale, bias) = (scale.repeat(g.images), bias.repeat(g.images));
    for (d, elements, c) in g.parts() {
        batch_norm(
            &d,
            &x[elements.clone()],
            &mean[c.clone()],
            &inv[c.clone()],
            &scale[c.clone()],
            &bias[c],
            &mut y[elements],
        );
    }
}

/// The gradient of `group_norm` from its output: xhat is (y - bias) / scale, or 0 where scale is 0.
pub fn group_norm_grad<T: Float>(
    g: &Groups,
    y: &[T],
    dy: &[T],
    scale: &[T],
    bias: &[T],
    var: &[T],
    epsilon: f64,
    mut out: BatchNormGrad<T>,
) {
    assert!(y.len() == g.len() && dy.len() == g.len(), "sizes do not fit the groups");
    let back: Vec<T> = scale.iter().map(|&s| if s == T::ZERO { s } else { T::ONE / s }).collect();
    let [scales, biases, backs] = [scale, bias, &back].map(|v| v.repeat(g.images));
    let (mut sums, mut products) = (Vec::with_capacity(scales.len()), Vec::with_capacity(scales.len()));
    for (d, elements, c) in g.parts() {
        let (y, dy) = (&y[elements.clone()], &dy[elements]);
        let [sum, product, ..] = d.sums::<T, Gradient>([y, dy, dy], &biases[c.clone()], &backs[c]);
        sums.extend(sum);
        products.extend(product);
    }
    if let Some(dx) = &mut out.dx {
        let scaled = |of: &[T]| of.iter().zip(&scales).map(|(&v, &s)| v * s).collect::<Vec<T>>();
        let [sum, along] = [&sums, &products].map(|of| g.spread(&g.gather(&scaled(of))));
        let inv: Vec<T> = var.iter().map(|&v| inverse_sqrt(v, epsilon)).collect();
        let inv = g.spread(&inv);
        let of = |f: &dyn Fn(usize) -> T| (0..scales.len()).map(f).collect::<Vec<T>>();
        let mean = |v: f64| T::from_f64(v / g.count());
        let p = [
            of(&|c| T::ZERO - inv[c] * mean(along[c]) * backs[c]),
            of(&|c| inv[c] * scales[c]),
            of(&|c| T::ZERO - inv[c] * mean(sum[c])),
        ];
        for (d, elements, c) in g.parts() {
            let (y, dy) = (&y[elements.clone()], &dy[elements.clone()]);
            let [p0, p1, p3] = p.each_ref().map(|p| &p[c.clone()]);
            d.linear([y, dy, dy], 2, &biases[c], [p0, p1, p1, p3], &mut dx[elements]);
        }
    }
    for (to, of) in [(out.dscale, products), (out.dbias, sums)] {
        let Some(to) = to else { continue };
        for (c, to) in to.iter_mut().enumerate() {
            *to = T::from_f64(of.iter().skip(c).step_by(g.channels()).map(|v| v.to_f64()).sum());
        }
    }
}
