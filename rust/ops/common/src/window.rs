//! Geometry of sliding windows over images (convolution, pooling), along any number of axes.

use oar_core::base::{Dims, Result};
use oar_core::ensure;
use smallvec::SmallVec;

/// The window attributes of an operator; every list has one entry per axis.
pub struct Windows<'a> {
    pub op: &'a str,
    /// `NCHW` (channels first), `NHWC` (channels last), and the like for other numbers of axes.
    pub data_format: &'a str,
    /// Sizes of the window; -1: unknown while a Program is built.
    pub kernel: &'a [i64],
    pub strides: &'a [i32],
    /// Distances between the elements of a window.
    pub dilations: &'a [i32],
    /// One number per axis, or two (before and after).
    pub paddings: &'a [i32],
    /// `SAME` and `VALID` compute the padding, `EXPLICIT` uses `paddings`.
    pub padding_algorithm: &'a str,
    /// Count a last window that extends beyond the padded axis.
    pub ceil_mode: bool,
}

/// One axis of the images and the windows along it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub size: i64,
    pub kernel: i64,
    pub stride: i64,
    pub dilation: i64,
    /// Padding before and after the axis.
    pub pad: (i64, i64),
    /// Number of windows; -1 while sizes are unknown.
    pub out: i64,
}

impl Axis {
    /// The stride for kernels: 1 if there is one window, so that no buffer is sized by a meaningless stride.
    pub fn step(&self) -> i64 {
        if self.out > 1 {
            self.stride
        } else {
            1
        }
    }
}

/// Images `[N, C, axes..]` or `[N, axes.., C]` and windows along the axes.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub images: i64,
    pub channels: i64,
    pub channels_last: bool,
    pub axes: SmallVec<[Axis; 3]>,
}

/// Whether the format has the channels last.
pub fn channels_last(format: &str) -> bool {
    matches!(format, "NHWC" | "NDHWC" | "NLC" | "NWC")
}

/// `[N, C, axes..]` or `[N, axes.., C]` as (images, channels, axes).
pub fn split_images(x: &[i64], channels_last: bool) -> (i64, i64, &[i64]) {
    let n = x.len() - 1;
    if channels_last {
        (x[0], x[n], &x[1..n])
    } else {
        (x[0], x[1], &x[2..])
    }
}

impl Geometry {
    /// Windows over images of shape `x`, which has two dimensions more than there are strides.
    pub fn new(w: &Windows, x: &[i64]) -> Result<Geometry> {
        w.check(x)?;
        let channels_last = channels_last(w.data_format);
        let (images, channels, sizes) = split_images(x, channels_last);
        let mut axes = SmallVec::new();
        for (i, &size) in sizes.iter().enumerate() {
            axes.push(w.axis(i, size)?);
        }
        Ok(Geometry { images, channels, channels_last, axes })
    }

    /// The output shape.
    pub fn out(&self, channels: i64) -> Dims {
        let mut out = Dims::from_slice(&[self.images]);
        if !self.channels_last {
            out.push(channels);
        }
        out.extend(self.axes.iter().map(|a| a.out));
        if self.channels_last {
            out.push(channels);
        }
        out
    }

    /// `number` of each axis, for a kernel of `N` axes; missing leading axes get `fill`.
    pub fn each<const N: usize>(&self, fill: usize, number: impl Fn(&Axis) -> i64) -> [usize; N] {
        let missing = N.saturating_sub(self.axes.len());
        std::array::from_fn(|i| if i < missing { fill } else { number(&self.axes[i - missing]) as usize })
    }
}

impl Windows<'_> {
    /// Padding before and after axis `i` of size `size`.
    pub fn padding(&self, i: usize, size: i64) -> Result<(i64, i64)> {
        let pad = match self.padding_algorithm {
            "SAME" => {
                let stride = self.strides[i] as i64;
                let out = size.saturating_add(stride - 1) / stride;
                let sum = ((out - 1) * stride + self.kernel[i]).saturating_sub(size).max(0);
                (sum / 2, sum - sum / 2)
            }
            "VALID" => (0, 0),
            _ if self.paddings.len() == self.strides.len() => (self.paddings[i] as i64, self.paddings[i] as i64),
            _ => (self.paddings[2 * i] as i64, self.paddings[2 * i + 1] as i64),
        };
        ensure!(
            pad.0 >= 0 && pad.1 >= 0,
            InvalidArgument,
            "operator {}: paddings must not be negative, got {:?}",
            self.op,
            self.paddings
        );
        Ok(pad)
    }

    /// The dilation along axis `i`; `SAME` padding ignores dilations.
    pub fn dilation(&self, i: usize) -> i64 {
        if self.padding_algorithm == "SAME" {
            1
        } else {
            self.dilations[i] as i64
        }
    }

    /// Fails unless the lists have one entry per axis; `paddings` may have two.
    pub fn check(&self, x: &[i64]) -> Result<()> {
        let (op, n) = (self.op, self.strides.len());
        ensure!(
            n > 0 && x.len() == n + 2 && self.kernel.len() == n,
            InvalidArgument,
            "operator {op}: images of shape {x:?} and windows of sizes {:?} do not fit strides {:?}, one per axis",
            self.kernel,
            self.strides
        );
        ensure!(
            self.dilations.len() == n && self.strides.iter().chain(self.dilations).all(|&v| v > 0),
            InvalidArgument,
            "operator {op}: strides {:?} and dilations {:?} must be positive, one per axis",
            self.strides,
            self.dilations
        );
        ensure!(
            self.paddings.len() == n || self.paddings.len() == 2 * n,
            InvalidArgument,
            "operator {op}: paddings must have {n} or {} numbers, got {:?}",
            2 * n,
            self.paddings
        );
        Ok(())
    }

    fn axis(&self, i: usize, size: i64) -> Result<Axis> {
        let op = self.op;
        let (kernel, stride, dilation) = (self.kernel[i], self.strides[i] as i64, self.dilation(i));
        let mut axis = Axis { size, kernel, stride, dilation, pad: (0, 0), out: -1 };
        if size < 0 || kernel < 0 {
            return Ok(axis);
        }
        ensure!(kernel > 0, InvalidArgument, "operator {op}: window sizes must be positive, got {:?}", self.kernel);
        axis.pad = self.padding(i, size)?;
        let reach = (kernel - 1).saturating_mul(dilation).saturating_add(1);
        let padded = size.saturating_add(axis.pad.0 + axis.pad.1);
        let up = if self.ceil_mode { stride - 1 } else { 0 };
        // As in Paddle the quotient is rounded towards zero: a window that is too large by less than a stride counts
        // and reads padding after the axis.
        axis.out = padded.saturating_sub(reach).saturating_add(up) / stride + 1;
        ensure!(
            axis.out > 0,
            InvalidArgument,
            "operator {op}: the output would be empty, its size must be greater than 0: an axis of size {size} padded by \
             {:?} is smaller than the reach {reach} of a window of {kernel} (dilation {dilation}, stride {stride})",
            axis.pad
        );
        Ok(axis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONES: [i32; 4] = [1; 4];
    const ZEROS: [i32; 4] = [0; 4];

    fn windows<'a>(kernel: &'a [i64], strides: &'a [i32], padding_algorithm: &'a str) -> Windows<'a> {
        let n = kernel.len();
        Windows {
            op: "test",
            data_format: "NCHW",
            kernel,
            strides,
            dilations: &ONES[..n],
            paddings: &ZEROS[..n],
            padding_algorithm,
            ceil_mode: false,
        }
    }

    /// Counts the windows within the padded axis one by one.
    fn counted(size: i64, kernel: i64, stride: i64, dilation: i64, pad: i64) -> i64 {
        let starts = (-pad..).step_by(stride as usize);
        starts.take_while(|s| s + dilation * (kernel - 1) < size + pad).count() as i64
    }

    #[test]
    fn counts_windows_along_any_number_of_axes() {
        for n in 1..=4 {
            for (kernel, stride, dilation, pad) in
                [(1, 1, 1, 0), (3, 1, 1, 1), (3, 2, 1, 0), (2, 3, 2, 1), (3, 2, 3, 4)]
            {
                let x: Vec<i64> = [2, 5].into_iter().chain((0..n).map(|i| 9 + i)).collect();
                let (kernels, strides) = (vec![kernel; n as usize], vec![stride as i32; n as usize]);
                let (dilations, paddings) = (vec![dilation as i32; n as usize], vec![pad as i32; n as usize]);
                let w =
                    Windows { dilations: &dilations, paddings: &paddings, ..windows(&kernels, &strides, "EXPLICIT") };
                let g = Geometry::new(&w, &x).unwrap();
                let wanted: Vec<i64> = (0..n).map(|i| counted(9 + i, kernel, stride, dilation, pad)).collect();
                assert_eq!(g.out(7)[..], [&[2, 7][..], &wanted].concat()[..]);
            }
        }
    }

    #[test]
    fn same_keeps_the_size_over_the_stride() {
        for (size, kernel, stride) in [(7, 3, 1), (7, 3, 2), (8, 2, 3), (5, 1, 2), (4, 4, 1)] {
            let g = Geometry::new(&windows(&[kernel], &[stride as i32], "SAME"), &[1, 1, size]).unwrap();
            let a = g.axes[0];
            assert_eq!(a.out, (size + stride - 1) / stride);
            assert!(a.pad.1 == a.pad.0 || a.pad.1 == a.pad.0 + 1);
        }
    }

    #[test]
    fn paddings_on_both_sides_channels_last_and_ceil_mode() {
        let w = Windows {
            data_format: "NHWC",
            paddings: &[1, 0, 0, 2],
            ceil_mode: true,
            ..windows(&[2, 3], &[2, 2], "EXPLICIT")
        };
        let g = Geometry::new(&w, &[3, 6, 6, 8]).unwrap();
        assert_eq!((g.images, g.channels), (3, 8));
        // 7 and 8 long with padding: windows at 0, 2, 4, (6); and at 0, 2, 4, 6 (the last reaches beyond).
        assert_eq!(g.out(8)[..], [3, 4, 4, 8]);
        assert_eq!(g.each::<3>(1, |a| a.size), [1, 6, 6]);
    }

    #[test]
    fn unknown_sizes_stay_unknown_and_windows_must_fit() {
        let w = windows(&[3, 3], &[1, 1], "EXPLICIT");
        assert_eq!(Geometry::new(&w, &[-1, 4, -1, 5]).unwrap().out(4)[..], [-1, 4, -1, 3]);
        assert!(Geometry::new(&w, &[1, 4, 2, 5]).is_err());
        assert!(Geometry::new(&w, &[1, 4, 5]).is_err());
    }
}
