//! Convolution of images of different sizes, which lie one after the other. Windows are centred at every `stride`-th element;
//! elements outside of an image are zeros.

use crate::gemm::{gemm, matmul, Epilogue, GemmFloat, View};

/// An image: offsets of its elements, windows and results, and its sizes.
#[derive(Clone, Copy)]
pub struct Image {
    pub at: usize,
    pub height: usize,
    pub width: usize,
    pub windows_at: usize,
    pub out_at: usize,
    /// Number of windows, vertically and horizontally.
    pub windows: (usize, usize),
}

impl Image {
    fn count(&self) -> usize {
        self.windows.0 * self.windows.1
    }
}

/// The convolution of all images; vertical before horizontal sizes.
pub struct VarConv<'a> {
    pub images: &'a [Image],
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    /// Output channels.
    pub channels: usize,
    /// Elements of a window: input channels times those of the kernel.
    pub depth: usize,
}

impl VarConv<'_> {
    /// Calls `f(window element, element of the images)` for each position within an image.
    fn each(&self, image: &Image, mut f: impl FnMut(usize, usize)) {
        let (kh, kw) = self.kernel;
        let count = image.count();
        for line in 0..self.depth {
            let (channel, ky, kx) = (line / (kh * kw), line / kw % kh, line % kw);
            for window in 0..count {
                let y = window / image.windows.1 * self.stride.0 + ky;
                let x = window % image.windows.1 * self.stride.1 + kx;
                let (Some(y), Some(x)) = (y.checked_sub(kh / 2), x.checked_sub(kw / 2)) else { continue };
                if y < image.height && x < image.width {
                    f(line * count + window, image.at + (channel * image.height + y) * image.width + x);
                }
            }
        }
    }

    /// Writes the windows [depth, windows] of each image to `windows`, which holds zeros.
    pub fn unfold<T: Copy>(&self, x: &[T], windows: &mut [T]) {
        for image in self.images {
            let to = &mut windows[image.windows_at..];
            self.each(image, |at, from| to[at] = x[from]);
        }
    }

    /// Products of the filters `w` [channels, depth] with the windows.
    pub fn forward<T: GemmFloat>(&self, w: &[T], windows: &[T], out: &mut [T]) {
        for i in self.images.iter().filter(|i| i.count() > 0) {
            let (n, m) = (i.count(), self.channels);
            let b = &windows[i.windows_at..][..n * self.depth];
            matmul((m, n, self.depth), w, false, b, false, &mut out[i.out_at..][..m * n]);
        }
    }

    /// Adds the gradients to those of the images and of the filters.
    pub fn backward<T: GemmFloat>(
        &self,
        w: &[T],
        windows: &[T],
        dout: &[T],
        mut dx: Option<&mut [T]>,
        mut dw: Option<&mut [T]>,
    ) {
        let m = self.channels;
        for i in self.images.iter().filter(|i| i.count() > 0) {
            let n = i.count();
            let d = &dout[i.out_at..][..m * n];
            if let Some(dw) = dw.as_deref_mut() {
                let b = View::rows(&windows[i.windows_at..][..n * self.depth], n, true);
                let (a, one) = (View::rows(d, n, false), T::ONE);
                gemm((m, self.depth, n), one, a, b, one, dw, self.depth, Epilogue::NONE);
            }
            if let Some(dx) = dx.as_deref_mut() {
                let mut dwindows = vec![T::ZERO; n * self.depth];
                matmul((self.depth, n, m), w, true, d, false, &mut dwindows);
                self.each(i, |at, to| dx[to] += dwindows[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolution_equals_a_plain_loop() {
        // Images of 2 channels, [3, 4] and [2, 1], and an empty one; kernel [3, 2], strides 2 and 1.
        let (channels, inputs, kernel, stride) = (3, 2, (3, 2), (2, 1));
        let depth = inputs * kernel.0 * kernel.1;
        let (mut images, mut at, mut windows_at, mut out_at) = (Vec::new(), 0, 0, 0);
        for (height, width) in [(3usize, 4usize), (0, 5), (2, 1)] {
            let windows = (height.div_ceil(stride.0), width.div_ceil(stride.1));
            images.push(Image { at, height, width, windows_at, out_at, windows });
            at += inputs * height * width;
            windows_at += windows.0 * windows.1 * depth;
            out_at += windows.0 * windows.1 * channels;
        }
        let x: Vec<f64> = (0..at).map(|i| (i * 7 % 11) as f64 - 4.0).collect();
        let w: Vec<f64> = (0..channels * depth).map(|i| (i * 5 % 7) as f64 - 3.0).collect();
        let dout: Vec<f64> = (0..out_at).map(|i| (i % 5) as f64 - 2.0).collect();
        let conv = VarConv { images: &images, kernel, stride, channels, depth };
        let (mut windows, mut out) = (vec![0.0; windows_at], vec![0.0; out_at]);
        conv.unfold(&x, &mut windows);
        conv.forward(&w, &windows, &mut out);
        let (mut dx, mut dw) = (vec![0.0; at], vec![0.0; w.len()]);
        conv.backward(&w, &windows, &dout, Some(&mut dx), Some(&mut dw));
        let (mut want, mut want_dx, mut want_dw) = (vec![0.0; out_at], vec![0.0; at], vec![0.0; w.len()]);
        for i in &images {
            for m in 0..channels {
                for wy in 0..i.windows.0 {
                    for wx in 0..i.windows.1 {
                        let to = i.out_at + (m * i.windows.0 + wy) * i.windows.1 + wx;
                        for k in 0..depth {
                            let (c, ky, kx) = (k / 6, k / 2 % 3, k % 2);
                            let (y, x_at) = (wy as i64 * 2 + ky as i64 - 1, wx as i64 + kx as i64 - 1);
                            if y < 0 || x_at < 0 || y >= i.height as i64 || x_at >= i.width as i64 {
                                continue;
                            }
                            let from = i.at + (c * i.height + y as usize) * i.width + x_at as usize;
                            want[to] += w[m * depth + k] * x[from];
                            want_dx[from] += w[m * depth + k] * dout[to];
                            want_dw[m * depth + k] += x[from] * dout[to];
                        }
                    }
                }
            }
        }
        assert_eq!((out, dx, dw), (want, want_dx, want_dw));
    }
}
