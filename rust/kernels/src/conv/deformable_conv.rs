//! deformable_conv: every element of a window is displaced, and may be scaled. The windows of one image at a time are
//! gathered into a matrix, which is multiplied by the filters.

use super::deformable::{Deform, Samples};
use crate::gemm::{gemm, Epilogue, Gemm, View};
use crate::types::Float;

/// Images, filters, and the displacements and scales of windows.
#[derive(Clone, Copy)]
pub struct DeformableConv<'a, T> {
    pub deform: Deform,
    /// Groups of channels and filters.
    pub groups: usize,
    pub images: usize,
    pub filters: usize,
    pub x: &'a [T],
    pub w: &'a [T],
    pub offset: &'a [T],
    pub mask: Option<&'a [T]>,
}

/// The requested gradients.
pub struct DeformableGrad<'a, T> {
    pub x: Option<&'a mut [T]>,
    pub w: Option<&'a mut [T]>,
    pub offset: Option<&'a mut [T]>,
    pub mask: Option<&'a mut [T]>,
}

/// Image `n` of `images`.
fn image<T>(all: &[T], n: usize, images: usize) -> &[T] {
    let size = all.len() / images;
    &all[n * size..][..size]
}

fn image_mut<T>(all: &mut [T], n: usize, images: usize) -> &mut [T] {
    let size = all.len() / images;
    &mut all[n * size..][..size]
}

impl<T: Float + Gemm> DeformableConv<'_, T> {
    fn samples(&self, n: usize) -> Samples<T> {
        self.deform.samples(image(self.offset, n, self.images), self.mask.map(|m| image(m, n, self.images)))
    }

    /// (filter rows per group, depth, windows), and the group's sizes in filters, matrix and output.
    fn extents(&self) -> ((usize, usize, usize), [usize; 3]) {
        let (rows, windows) = (self.filters / self.groups, self.deform.out.0 * self.deform.out.1);
        let depth = self.deform.matrix_len() / (windows * self.groups).max(1);
        ((rows, depth, windows), [rows * depth, depth * windows, rows * windows])
    }

    pub fn forward(&self, y: &mut [T]) {
        let ((rows, depth, windows), [of_w, of_matrix, of_y]) = self.extents();
        let (w, images) = (self.w, self.images);
        let mut matrix = vec![T::ZERO; self.deform.matrix_len()];
        for n in 0..images {
            let samples = self.samples(n);
            samples.unfold(image(self.x, n, images), &mut matrix);
            let y = image_mut(y, n, images);
            for g in 0..self.groups {
                let a = View::rows(&w[g * of_w..][..of_w], depth, false);
                let b = View::rows(&matrix[g * of_matrix..][..of_matrix], windows, false);
                let y = &mut y[g * of_y..][..of_y];
                gemm((rows, windows, depth), T::ONE, a, b, T::ZERO, y, windows, Epilogue::NONE);
            }
        }
    }

    /// Writes the requested gradients.
    pub fn backward(&self, dy: &[T], grads: DeformableGrad<T>) {
        let ((rows, depth, windows), [of_w, of_matrix, of_y]) = self.extents();
        let (w, images) = (self.w, self.images);
        let DeformableGrad { x: mut dx, w: mut dw, offset: mut doffset, mask: mut dmask } = grads;
        for grad in [&mut dx, &mut dw, &mut doffset, &mut dmask].into_iter().flatten() {
            grad.fill(T::ZERO);
        }
        let mut matrix = vec![T::ZERO; self.deform.matrix_len()];
        for n in 0..images {
            let (x, dy) = (image(self.x, n, images), image(dy, n, images));
            let samples = self.samples(n);
            if let Some(dw) = &mut dw {
                samples.unfold(x, &mut matrix);
                for g in 0..self.groups {
                    let a = View::rows(&dy[g * of_y..][..of_y], windows, false);
                    let b = View::rows(&matrix[g * of_matrix..][..of_matrix], windows, true);
                    let dw = &mut dw[g * of_w..][..of_w];
                    gemm((rows, depth, windows), T::ONE, a, b, T::ONE, dw, depth, Epilogue::NONE);
                }
            }
            if dx.is_none() && doffset.is_none() && dmask.is_none() {
                continue;
            }
            for g in 0..self.groups {
                let a = View::rows(&w[g * of_w..][..of_w], depth, true);
                let b = View::rows(&dy[g * of_y..][..of_y], windows, false);
                let to = &mut matrix[g * of_matrix..][..of_matrix];
                gemm((depth, windows, rows), T::ONE, a, b, T::ZERO, to, windows, Epilogue::NONE);
            }
            if let Some(dx) = &mut dx {
                samples.fold(&matrix, image_mut(dx, n, images));
            }
            let [doffset, dmask] =
                [&mut doffset, &mut dmask].map(|d| d.as_deref_mut().map(|d| image_mut(d, n, images)));
            if doffset.is_some() || dmask.is_some() {
                samples.places_grad(x, &matrix, doffset, dmask);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 211) as f64 / 131.0 - 0.8).collect()
    }

    const DEFORM: Deform = Deform {
        channels: 4,
        size: (5, 4),
        out: (3, 2),
        kernel: (2, 3),
        stride: (2, 1),
        dilation: (1, 1),
        pad: (1, 0),
        groups: 2,
    };

    struct Case {
        x: Vec<f64>,
        w: Vec<f64>,
        offset: Vec<f64>,
        mask: Vec<f64>,
    }

    fn case() -> Case {
        Case {
            x: values(2 * 4 * 20, 1),
            w: values(6 * 2 * 6, 2),
            offset: values(2 * 2 * 12 * 6, 3),
            mask: values(2 * 2 * 6 * 6, 4),
        }
    }

    fn conv(c: &Case, masked: bool) -> DeformableConv<'_, f64> {
        let mask = masked.then_some(&c.mask[..]);
        DeformableConv { deform: DEFORM, groups: 2, images: 2, filters: 6, x: &c.x, w: &c.w, offset: &c.offset, mask }
    }

    #[test]
    fn windows_are_displaced_and_scaled() {
        let c = case();
        for masked in [false, true] {
            let mut y = vec![9.0; 2 * 6 * 6];
            conv(&c, masked).forward(&mut y);
            for (k, &got) in y.iter().enumerate() {
                let (n, filter, place) = (k / 36, k / 6 % 6, k % 6);
                let mut want = 0.0;
                for (channel, tap) in (0..2).flat_map(|c| (0..6).map(move |t| (c, t))) {
                    let own = filter / 3 * 2 + channel;
                    let (part, (i, j)) = (own / 2, (tap / 3, tap % 3));
                    let at = |axis: usize| c.offset[((n * 2 + part) * 12 + tap * 2 + axis) * 6 + place];
                    let row = (place / 2 * 2 + i) as f64 - 1.0 + at(0);
                    let column = (place % 2 + j) as f64 + at(1);
                    let hat = |a: f64| (1.0 - a.abs()).max(0.0);
                    let cells = (0..20).map(|p| {
                        hat(row - (p / 4) as f64) * hat(column - (p % 4) as f64) * c.x[(n * 4 + own) * 20 + p]
                    });
                    let scale = if masked { c.mask[((n * 2 + part) * 6 + tap) * 6 + place] } else { 1.0 };
                    want += cells.sum::<f64>() * scale * c.w[(filter * 2 + channel) * 6 + tap];
                }
                assert!((got - want).abs() < 1e-9, "{k} {got} {want}");
            }
        }
    }

    #[test]
    fn gradients_are_the_numeric_ones() {
        let mut c = case();
        let d = values(72, 5);
        let mut grads =
            [vec![9.0; c.x.len()], vec![9.0; c.w.len()], vec![9.0; c.offset.len()], vec![9.0; c.mask.len()]];
        let [x, w, offset, mask] = &mut grads;
        let out = DeformableGrad { x: Some(x), w: Some(w), offset: Some(offset), mask: Some(mask) };
        conv(&c, true).backward(&d, out);
        let loss = |c: &Case| {
            let mut y = vec![0.0; 72];
            conv(c, true).forward(&mut y);
            y.iter().zip(&d).map(|(y, d)| y * d).sum::<f64>()
        };
        for (which, grad) in grads.iter().enumerate() {
            for k in (0..grad.len()).step_by(7) {
                let mut at = |by: f64| {
                    [&mut c.x, &mut c.w, &mut c.offset, &mut c.mask][which][k] += by;
                    loss(&c)
                };
                let (high, low) = (at(1e-6), at(-2e-6));
                at(1e-6);
                let want = (high - low) / 2e-6;
                assert!((grad[k] - want).abs() < 1e-5, "{which} {k} {} {want}", grad[k]);
            }
        }
        conv(&c, true).backward(&d, DeformableGrad { x: None, w: None, offset: None, mask: None });
    }
}
