//! im2col and col2im: windows of planes as a matrix, and the sums of such a matrix back into planes.

use crate::conv::band::share;
use crate::pool::SharedPtr;
use crate::types::Float;

/// Windows over the planes of one image. The entry of (channel, tap, window) in a matrix is at `(channel * taps + tap)
/// * column + window * row`.
#[derive(Clone, Copy, Debug)]
pub struct Unfold {
    pub channels: usize,
    pub size: (usize, usize),
    /// Windows along each axis.
    pub out: (usize, usize),
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub dilation: (usize, usize),
    pub pad: (usize, usize),
    pub column: usize,
    pub row: usize,
}

impl Unfold {
    pub fn in_len(&self) -> usize {
        self.channels * self.size.0 * self.size.1
    }
    pub fn windows(&self) -> usize {
        self.out.0 * self.out.1
    }
    pub fn depth(&self) -> usize {
        self.channels * self.kernel.0 * self.kernel.1
    }

    fn check(&self, x: usize, matrix: usize) {
        let last = (self.depth().saturating_sub(1)) * self.column + self.windows().saturating_sub(1) * self.row;
        assert!(x == self.in_len() && (self.depth() == 0 || self.windows() == 0 || last < matrix));
        assert!(self.stride.0 > 0 && self.stride.1 > 0);
    }

    /// Calls `f(entry of the matrix, element of the plane or none, distances to the next entry and element, count)` for
    /// the entries of a tap in one row of windows: those before, inside and after the plane.
    #[inline(always)]
    fn runs(&self, tap: (usize, usize), mut f: impl FnMut(usize, Option<usize>, usize)) {
        let (h, w) = self.size;
        let first = (tap.1 * self.dilation.1) as isize - self.pad.1 as isize;
        let step = self.stride.1 as isize;
        // Windows lo..hi lie over the plane's columns.
        let lo = (if first < 0 { (-first + step - 1) / step } else { 0 }).min(self.out.1 as isize);
        let hi = (w as isize - first + step - 1).div_euclid(step).clamp(lo, self.out.1 as isize);
        let (lo, hi) = (lo as usize, hi as usize);
        for i in 0..self.out.0 {
            let at = i * self.out.1 * self.row;
            let y = (i * self.stride.0 + tap.0 * self.dilation.0) as isize - self.pad.0 as isize;
            if y < 0 || y >= h as isize {
                f(at, None, self.out.1);
                continue;
            }
            f(at, None, lo);
            if hi > lo {
                let x = (lo * self.stride.1) as isize + first;
                f(at + lo * self.row, Some(y as usize * w + x as usize), hi - lo);
            }
            f(at + hi * self.row, None, self.out.1 - hi);
        }
    }

    /// Writes the windows of an image to its matrix, zeros outside of the planes.
    pub fn unfold<T: Float>(&self, x: &[T], matrix: &mut [T]) {
        self.check(x.len(), matrix.len());
        let (plane, taps) = (self.size.0 * self.size.1, self.kernel.0 * self.kernel.1);
        let out = SharedPtr(matrix.as_mut_ptr());
        share(self.channels * taps, self.windows(), |k| {
            let (x, tap) = (&x[k / taps * plane..][..plane], k % taps);
            let (base, stride, row) = (k * self.column, self.stride.1, self.row);
            self.runs((tap / self.kernel.1, tap % self.kernel.1), |at, from, count| {
                // SAFETY: `check` has compared the lengths; entries of different (channel, tap) are disjoint.
                unsafe {
                    let to = out.get().add(base + at);
                    match from {
                        None => (0..count).for_each(|e| *to.add(e * row) = T::ZERO),
                        Some(from) if stride == 1 && row == 1 => {
                            std::ptr::copy_nonoverlapping(x[from..from + count].as_ptr(), to, count)
                        }
                        Some(from) => (0..count).for_each(|e| *to.add(e * row) = x[from + e * stride]),
                    }
                }
            });
        });
    }

    /// Each element of an image becomes the sum of its entries in the matrix.
    pub fn fold<T: Float>(&self, matrix: &[T], x: &mut [T]) {
        self.check(x.len(), matrix.len());
        let (plane, taps) = (self.size.0 * self.size.1, self.kernel.0 * self.kernel.1);
        if plane == 0 {
            return;
        }
        let (stride, row) = (self.stride.1, self.row);
        let grain = ((1usize << 18) / (taps * self.windows()).max(1)).max(1) * plane;
        crate::pool::parts(x, grain, |start, planes| {
            for (c, x) in planes.chunks_exact_mut(plane).enumerate() {
                x.fill(T::ZERO);
                for tap in 0..taps {
                    let base = ((start / plane + c) * taps + tap) * self.column;
                    self.runs((tap / self.kernel.1, tap % self.kernel.1), |at, to, count| {
                        let Some(to) = to else { return };
                        let from = &matrix[base + at..];
                        if stride == 1 && row == 1 {
                            x[to..to + count].iter_mut().zip(from).for_each(|(v, &m)| *v += m);
                        } else {
                            (0..count).for_each(|e| x[to + e * stride] += from[e * row]);
                        }
                    });
                }
            }
        });
    }

    /// [`Unfold::unfold`] of every image; images without elements have padding only.
    pub fn unfold_images<T: Float>(&self, x: &[T], matrices: &mut [T]) {
        if self.in_len() == 0 {
            return matrices.fill(T::ZERO);
        }
        let each = (self.depth() * self.windows()).max(1);
        for (x, matrix) in x.chunks_exact(self.in_len()).zip(matrices.chunks_exact_mut(each)) {
            self.unfold(x, matrix);
        }
    }

    /// [`Unfold::fold`] of every image.
    pub fn fold_images<T: Float>(&self, matrices: &[T], x: &mut [T]) {
        let each = (self.depth() * self.windows()).max(1);
        for (x, matrix) in x.chunks_exact_mut(self.in_len().max(1)).zip(matrices.chunks_exact(each)) {
            self.fold(matrix, x);
        }
    }

    /// [`Unfold::unfold`] of every image, with its own number of windows along each axis; the matrices follow each
    /// other.
    pub fn unfold_sizes<T: Float>(&self, x: &[T], windows: &[(usize, usize)], mut matrices: &mut [T]) {
        if self.in_len() == 0 {
            return matrices.fill(T::ZERO);
        }
        for (x, &out) in x.chunks_exact(self.in_len()).zip(windows) {
            let u = Unfold { out, ..*self };
            let (matrix, rest) = matrices.split_at_mut(u.windows() * u.depth());
            u.unfold(x, matrix);
            matrices = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNFOLD: Unfold = Unfold {
        channels: 2,
        size: (4, 5),
        out: (2, 3),
        kernel: (3, 2),
        stride: (2, 2),
        dilation: (1, 2),
        pad: (1, 1),
        column: 6,
        row: 1,
    };

    fn plain(u: &Unfold, x: &[f64], k: usize, window: usize) -> f64 {
        let (channel, tap) = (k / 6, k % 6);
        let row = (window / u.out.1 * 2 + tap / 2) as isize - 1;
        let column = (window % u.out.1 * 2 + tap % 2 * 2) as isize - 1;
        let inside = (0..4).contains(&row) && (0..5).contains(&column);
        if inside {
            x[channel * 20 + row as usize * 5 + column as usize]
        } else {
            0.0
        }
    }

    #[test]
    fn windows_of_images_are_matrices() {
        let x: Vec<f64> = (0..3 * 40).map(|i| (i * 7919 % 41) as f64 - 20.0).collect();
        let (mut y, mut back) = (vec![9.0; 3 * 72], vec![9.0; 120]);
        UNFOLD.unfold_images(&x, &mut y);
        for (k, &got) in y.iter().enumerate() {
            assert_eq!(got, plain(&UNFOLD, &x[k / 72 * 40..][..40], k / 6 % 12, k % 6), "{k}");
        }
        let d: Vec<f64> = (0..3 * 72).map(|i| (i * 31 % 13) as f64 - 6.0).collect();
        UNFOLD.fold_images(&d, &mut back);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert_eq!(dot(&y, &d), dot(&x, &back));
    }

    #[test]
    fn images_have_their_own_numbers_of_windows() {
        let x: Vec<f64> = (0..80).map(|i| (i * 7919 % 41) as f64 - 20.0).collect();
        let u = Unfold { column: 1, row: 12, ..UNFOLD };
        let mut y = vec![9.0; (6 + 2) * 12];
        u.unfold_sizes(&x, &[(2, 3), (1, 2)], &mut y);
        let second = Unfold { out: (1, 2), ..u };
        for (k, &got) in y.iter().enumerate() {
            let want = match k / 12 {
                window @ 0..6 => plain(&u, &x[..40], k % 12, window),
                window => plain(&second, &x[40..], k % 12, window - 6),
            };
            assert_eq!(got, want, "{k}");
        }
    }
}
