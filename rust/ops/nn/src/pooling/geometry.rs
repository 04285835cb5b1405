//! Pooling geometry: shared argument checks, and the kernels' description.

use oar_core::base::{DTypes, Dims, Result};
use oar_core::ensure;
use oar_kernels::pooling as kernel;
use oar_ops_common::window::{channels_last, split_images, Axis, Geometry, Windows};

pub const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// Attributes of a pooling operator.
pub struct Pooling<'a> {
    pub op: &'a str,
    pub pooling_type: &'a str,
    pub ksize: &'a [i32],
    pub strides: &'a [i32],
    pub paddings: &'a [i32],
    pub padding_algorithm: &'a str,
    pub data_format: &'a str,
    pub global_pooling: bool,
    pub adaptive: bool,
    pub exclusive: bool,
    pub ceil_mode: bool,
}

/// Limits the kernel's table of windows per axis.
const MOST_WINDOWS: i64 = 1 << 26;

impl Pooling<'_> {
    /// Checks a pooling of `x` along 2 or 3 axes; sizes may be -1 while a Program is built.
    pub fn geometry(&self, x: &[i64]) -> Result<Geometry> {
        let (op, n) = (self.op, self.ksize.len());
        ensure!(
            x.len() == n + 2 && (2..=3).contains(&n) && self.strides.len() == n,
            InvalidArgument,
            "operator {op}: X must have two dimensions more than ksize and strides numbers, got a shape {x:?}, ksize {:?} \
             and strides {:?}",
            self.ksize,
            self.strides
        );
        ensure!(
            matches!(self.pooling_type, "max" | "avg"),
            InvalidArgument,
            "operator {op}: pooling_type must be max or avg, got '{}'",
            self.pooling_type
        );
        ensure!(
            (self.global_pooling || self.ksize.iter().all(|&k| k > 0)) && self.strides.iter().all(|&s| s > 0),
            InvalidArgument,
            "operator {op}: ksize {:?} and strides {:?} must be positive",
            self.ksize,
            self.strides
        );
        let (_, _, sizes) = split_images(x, channels_last(self.data_format));
        ensure!(!sizes.contains(&0), InvalidArgument, "operator {op}: X of shape {x:?} has an empty axis");
        let kernel: Dims =
            if self.global_pooling { Dims::from_slice(sizes) } else { self.ksize.iter().map(|&k| k as i64).collect() };
        let whole = self.global_pooling || self.adaptive; // the windows cover the image: no padding
        let windows = Windows {
            op,
            data_format: self.data_format,
            // Adaptive pooling: `ksize` is the number of windows.
            kernel: if self.adaptive { &[1; 3][..n] } else { &kernel },
            strides: self.strides,
            dilations: &[1; 3][..n],
            paddings: self.paddings,
            padding_algorithm: if whole { "VALID" } else { self.padding_algorithm },
            ceil_mode: self.ceil_mode,
        };
        let mut g = Geometry::new(&windows, x)?;
        for axis in g.axes.iter_mut().filter(|axis| axis.out > 0 && !whole) {
            ensure!(
                axis.pad.0 < axis.kernel && axis.pad.1 < axis.kernel,
                InvalidArgument,
                "operator {op}: paddings {:?} must be below ksize {:?}: a window of padding alone has no value",
                self.paddings,
                self.ksize
            );
            // With ceil_mode a last window that begins after the elements would be empty.
            axis.out = axis.out.min((axis.size + axis.pad.0 - 1) / axis.stride + 1);
        }
        if self.adaptive {
            g.axes.iter_mut().zip(kernel).for_each(|(axis, count)| (axis.kernel, axis.out) = (count, count));
        }
        ensure!(
            g.axes.iter().all(|axis| axis.out <= MOST_WINDOWS),
            ResourceExhausted,
            "operator {op}: a result of shape {:?} has too many windows along one axis",
            &g.out(g.channels)[..]
        );
        Ok(g)
    }

    pub fn out(&self, x: &[i64]) -> Result<Dims> {
        let g = self.geometry(x)?;
        Ok(g.out(g.channels))
    }

    /// The kernel's description (images are volumes of depth 1), and the output shape.
    pub fn plan(&self, x: &[i64]) -> Result<(kernel::Pool, Dims)> {
        let g = self.geometry(x)?;
        let p = kernel::Pool {
            images: g.images as usize,
            channels: g.channels as usize,
            in_size: g.each(1, |a| a.size),
            out_size: g.each(1, |a| a.out),
            kernel: g.each(1, |a| a.kernel),
            stride: g.each(1, Axis::step),
            pad: g.each(0, |a| a.pad.0),
            pad_after: g.each(0, |a| a.pad.1),
            adaptive: self.adaptive,
            exclusive: self.exclusive,
            channels_last: g.channels_last,
        };
        Ok((p, g.out(g.channels)))
    }
}
