//! Deformable convolution: windows whose elements have fractional positions. Each element is interpolated between the
//! four pixels around its position, and scaled.

use crate::conv::band::share;
use crate::pool::SharedPtr;
use crate::types::Float;

/// Deformed windows over one image of planes.
#[derive(Clone, Copy, Debug)]
pub struct Deform {
    pub channels: usize,
    pub size: (usize, usize),
    /// Windows along each axis.
    pub out: (usize, usize),
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub dilation: (usize, usize),
    pub pad: (usize, usize),
    /// Number of groups of channels with common displacements.
    pub groups: usize,
}

/// The interpolation of an element: up to four pixels, their weights, and the derivatives of the weights by row and
/// column.
#[derive(Clone, Copy)]
struct Sample<T> {
    count: usize,
    at: [usize; 4],
    weight: [T; 4],
    by_row: [T; 4],
    by_col: [T; 4],
    scale: T,
}

/// The samples of an image: one per (group, tap, window).
pub struct Samples<T> {
    d: Deform,
    all: Vec<Sample<T>>,
}

impl Deform {
    fn taps(&self) -> usize {
        self.kernel.0 * self.kernel.1
    }
    fn windows(&self) -> usize {
        self.out.0 * self.out.1
    }
    fn plane(&self) -> usize {
        self.size.0 * self.size.1
    }
    pub fn in_len(&self) -> usize {
        self.channels * self.plane()
    }
    /// Entries of the matrix of windows, [channel, tap, window].
    pub fn matrix_len(&self) -> usize {
        self.channels * self.taps() * self.windows()
    }
    pub fn mask_len(&self) -> usize {
        self.groups * self.taps() * self.windows()
    }

    /// Samples for displacements [group, tap, (row, column), window] and optional scales [group, tap, window].
    pub fn samples<T: Float>(&self, offset: &[T], mask: Option<&[T]>) -> Samples<T> {
        assert!(self.groups > 0 && self.channels.is_multiple_of(self.groups));
        assert!(offset.len() == 2 * self.mask_len() && mask.is_none_or(|m| m.len() == self.mask_len()));
        let empty = Sample {
            count: 0,
            at: [0; 4],
            weight: [T::ZERO; 4],
            by_row: [T::ZERO; 4],
            by_col: [T::ZERO; 4],
            scale: T::ONE,
        };
        let mut all = vec![empty; self.mask_len()];
        let windows = self.windows();
        if windows == 0 {
            return Samples { d: *self, all };
        }
        let grain = ((1usize << 14) / windows).max(1) * windows;
        crate::pool::parts(&mut all, grain, |start, part| {
            for (u, samples) in part.chunks_exact_mut(windows).enumerate() {
                let unit = start / windows + u;
                let tap = unit % self.taps();
                let [rows, cols] = [0, 1].map(|i| &offset[(2 * unit + i) * windows..][..windows]);
                for (p, sample) in samples.iter_mut().enumerate() {
                    let base = |i: usize, k: usize, stride: usize, dilation: usize, pad: usize| {
                        T::from_f64((i * stride + k * dilation) as f64 - pad as f64)
                    };
                    let (i, j) = (p / self.out.1, p % self.out.1);
                    let y = base(i, tap / self.kernel.1, self.stride.0, self.dilation.0, self.pad.0) + rows[p];
                    let x = base(j, tap % self.kernel.1, self.stride.1, self.dilation.1, self.pad.1) + cols[p];
                    self.place(sample, y, x);
                    sample.scale = mask.map_or(T::ONE, |m| m[unit * windows + p]);
                }
            }
        });
        Samples { d: *self, all }
    }

    /// Sets the pixels around (y, x); none for a position a pixel or more outside the image, and for NaN.
    fn place<T: Float>(&self, s: &mut Sample<T>, y: T, x: T) {
        let (h, w) = (self.size.0 as f64, self.size.1 as f64);
        let (fy, fx) = (y.to_f64(), x.to_f64());
        if !(fy > -1.0 && fx > -1.0 && fy < h && fx < w) {
            return;
        }
        let (top, left) = (fy.floor(), fx.floor());
        let (ly, lx) = (y - T::from_f64(top), x - T::from_f64(left));
        let (hy, hx) = (T::ONE - ly, T::ONE - lx);
        let minus = |v: T| T::ZERO - v;
        let corners = [
            (top, left, hy * hx, minus(hx), minus(hy)),
            (top, left + 1.0, hy * lx, minus(lx), hy),
            (top + 1.0, left, ly * hx, hx, minus(ly)),
            (top + 1.0, left + 1.0, ly * lx, lx, ly),
        ];
        for (row, col, weight, by_row, by_col) in corners {
            if row >= 0.0 && row < h && col >= 0.0 && col < w {
                let n = s.count;
                s.at[n] = row as usize * self.size.1 + col as usize;
                (s.weight[n], s.by_row[n], s.by_col[n]) = (weight, by_row, by_col);
                s.count += 1;
            }
        }
    }
}

impl<T: Float> Sample<T> {
    #[inline(always)]
    fn sum(&self, factors: &[T; 4], x: &[T]) -> T {
        let mut sum = T::ZERO;
        for k in 0..self.count {
            sum += factors[k] * x[self.at[k]];
        }
        sum
    }
}

impl<T: Float> Samples<T> {
    /// The samples of a tap for a group of channels.
    fn of_tap(&self, group: usize, tap: usize) -> &[Sample<T>] {
        let windows = self.d.windows();
        &self.all[(group * self.d.taps() + tap) * windows..][..windows]
    }

    fn check(&self, x: usize, matrix: usize) {
        assert!(x == self.d.in_len() && matrix == self.d.matrix_len());
    }

    /// The matrix of windows, [channel, tap, window].
    pub fn unfold(&self, x: &[T], matrix: &mut [T]) {
        self.check(x.len(), matrix.len());
        let (d, taps, windows) = (&self.d, self.d.taps(), self.d.windows());
        if windows == 0 {
            return;
        }
        let grain = ((1usize << 16) / windows).max(1) * windows;
        crate::pool::parts(matrix, grain, |start, part| {
            for (row, out) in part.chunks_exact_mut(windows).enumerate() {
                let (c, tap) = ((start / windows + row) / taps, (start / windows + row) % taps);
                let x = &x[c * d.plane()..][..d.plane()];
                for (v, s) in out.iter_mut().zip(self.of_tap(c / (d.channels / d.groups), tap)) {
                    *v = s.sum(&s.weight, x) * s.scale;
                }
            }
        });
    }

    /// Adds the gradient of the image, from the gradient of the matrix.
    pub fn fold(&self, dmatrix: &[T], dx: &mut [T]) {
        self.check(dx.len(), dmatrix.len());
        let (d, taps, windows, plane) = (&self.d, self.d.taps(), self.d.windows(), self.d.plane());
        if plane == 0 {
            return;
        }
        let grain = ((1usize << 16) / (taps * windows).max(1)).max(1) * plane;
        crate::pool::parts(dx, grain, |start, part| {
            for (c, dx) in part.chunks_exact_mut(plane).enumerate() {
                let c = start / plane + c;
                for tap in 0..taps {
                    let from = &dmatrix[(c * taps + tap) * windows..][..windows];
                    for (&v, s) in from.iter().zip(self.of_tap(c / (d.channels / d.groups), tap)) {
                        for k in 0..s.count {
                            dx[s.at[k]] += v * s.scale * s.weight[k];
                        }
                    }
                }
            }
        });
    }

    /// Computes the gradients of displacements and scales from the gradient of the matrix.
    pub fn places_grad(&self, x: &[T], dmatrix: &[T], doffset: Option<&mut [T]>, dmask: Option<&mut [T]>) {
        self.check(x.len(), dmatrix.len());
        let (d, taps, windows, plane) = (&self.d, self.d.taps(), self.d.windows(), self.d.plane());
        assert!(doffset.as_ref().is_none_or(|o| o.len() == 2 * self.all.len()));
        assert!(dmask.as_ref().is_none_or(|m| m.len() == self.all.len()));
        let doffset = doffset.map(|o| SharedPtr(o.as_mut_ptr()));
        let dmask = dmask.map(|m| SharedPtr(m.as_mut_ptr()));
        let channels = d.channels / d.groups;
        share(d.groups * taps, channels * windows * 8, |unit| {
            let (group, tap) = (unit / taps, unit % taps);
            for (p, s) in self.of_tap(group, tap).iter().enumerate() {
                let (mut by_row, mut by_col, mut by_scale) = (T::ZERO, T::ZERO, T::ZERO);
                for c in group * channels..(group + 1) * channels {
                    let (x, v) = (&x[c * plane..][..plane], dmatrix[(c * taps + tap) * windows + p]);
                    by_row += s.sum(&s.by_row, x) * v * s.scale;
                    by_col += s.sum(&s.by_col, x) * v * s.scale;
                    by_scale += s.sum(&s.weight, x) * v;
                }
                // SAFETY: entries of different (group, tap) are disjoint; the lengths have been checked.
                unsafe {
                    if let Some(o) = &doffset {
                        *o.get().add(2 * unit * windows + p) = by_row;
                        *o.get().add((2 * unit + 1) * windows + p) = by_col;
                    }
                    if let Some(m) = &dmask {
                        *m.get().add(unit * windows + p) = by_scale;
                    }
                }
            }
        });
    }
}
