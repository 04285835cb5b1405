//! Shared by convolution operators: argument checks, and the kernels' description of a convolution. A transposed
//! convolution is the input gradient of a convolution.

use super::window::{channels_last, split_images, Axis, Geometry, Windows};
use oar_core::base::{DType, Dims, Result};
use oar_core::ensure;
use oar_core::tensor::Tensor;
use oar_kernels::conv::{self as kernel, Conv, Convolve};
use smallvec::SmallVec;

/// The attributes of a convolution.
pub struct Convolution<'a> {
    pub op: &'a str,
    pub data_format: &'a str,
    pub groups: i32,
    pub strides: &'a [i32],
    pub dilations: &'a [i32],
    pub paddings: &'a [i32],
    pub padding_algorithm: &'a str,
    /// `output_size` and `output_padding` of a transposed convolution, empty if not given.
    pub transposed: Option<(&'a [i32], &'a [i32])>,
}

impl Convolution<'_> {
    /// The output shape for images `x` and filters `w`; sizes may be -1 while a Program is built.
    pub fn out(&self, x: &[i64], w: &[i64]) -> Result<Dims> {
        Ok(self.result(&self.geometry(x, w)?, w))
    }

    /// The kernels' description of the convolution, and the output shape.
    pub fn plan(&self, x: &[i64], w: &[i64]) -> Result<(ConvPlan, Dims)> {
        let g = self.geometry(x, w)?;
        let axes: SmallVec<[&Axis; 3]> = g.axes.iter().filter(|a| !is_trivial(a)).collect();
        let each = |fill: usize, number: fn(&Axis) -> i64| {
            let first = 3 - axes.len();
            std::array::from_fn(|i| if i < first { fill } else { number(axes[i - first]) as usize })
        };
        let groups = self.groups as usize;
        let (from, to) = (g.channels as usize, self.filters(w) as usize);
        let (in_channels, out_channels) = if self.transposed.is_some() { (to, from) } else { (from, to) };
        let conv = Conv {
            images: g.images as usize,
            in_channels,
            in_size: each(1, |a| a.size),
            out_channels,
            out_size: each(1, |a| a.out),
            kernel: each(1, |a| a.kernel),
            stride: each(1, Axis::step),
            dilation: each(1, |a| a.dilation),
            pad: each(0, |a| a.pad.0),
            groups,
            channels_last: g.channels_last,
            bf16: false,
        };
        check_size(self.op, &conv)?;
        Ok((ConvPlan { conv, transposed: self.transposed.is_some() }, self.result(&g, w)))
    }

    /// Output channels.
    fn filters(&self, w: &[i64]) -> i64 {
        match self.transposed {
            Some(_) if w[1] >= 0 => w[1] * self.groups as i64,
            Some(_) => -1,
            None => w[0],
        }
    }

    fn result(&self, g: &Geometry, w: &[i64]) -> Dims {
        if self.transposed.is_none() {
            return g.out(self.filters(w));
        }
        let mut output = g.clone();
        output.axes.iter_mut().for_each(|a| a.out = a.size);
        output.out(self.filters(w))
    }

    /// The windows of the convolution; for a transposed one the windows over its output, one per element of `x`.
    pub fn geometry(&self, x: &[i64], w: &[i64]) -> Result<Geometry> {
        let op = self.op;
        ensure!(
            x.len() == w.len() && x.len() == self.strides.len() + 2 && (4..=5).contains(&x.len()),
            InvalidArgument,
            "operator {op}: Input and Filter must have 4 or 5 dimensions, two more than there are strides ({:?}), got \
             {x:?} and {w:?}",
            self.strides
        );
        ensure!(self.groups > 0, InvalidArgument, "operator {op}: groups must be positive, got {}", self.groups);
        let windows = Windows {
            op,
            data_format: self.data_format,
            kernel: &w[2..],
            strides: self.strides,
            dilations: self.dilations,
            paddings: self.paddings,
            padding_algorithm: self.padding_algorithm,
            ceil_mode: false,
        };
        let groups = self.groups as i64;
        let g = match self.transposed {
            None => Geometry::new(&windows, x)?,
            Some((size, padding)) => transposed_geometry(&windows, x, size, padding)?,
        };
        // The first size of a transposed convolution's filters is the number of input channels.
        let wanted = if self.transposed.is_some() { Some(w[0]) } else { w[1].checked_mul(groups) };
        ensure!(
            g.channels < 0 || w[0] < 0 || w[1] < 0 || wanted == Some(g.channels),
            InvalidArgument,
            "operator {op}: the input's channels must be {}, got an Input of shape {x:?} ({}), a Filter of shape {w:?} and \
             {groups} groups",
            if self.transposed.is_some() { "the filter's first size" } else { "the filter's channels times groups" },
            self.data_format
        );
        ensure!(
            w[0] < 0 || w[0] % groups == 0,
            InvalidArgument,
            "operator {op}: the filter's first size must be divisible by groups, got a Filter of shape {w:?} and {groups}"
        );
        Ok(g)
    }
}

/// A trivial axis (one element, filter size 1), which kernels skip.
fn is_trivial(a: &Axis) -> bool {
    (a.size, a.kernel, a.out, a.pad) == (1, 1, 1, (0, 0))
}

/// The windows over the output of a transposed convolution of `x`.
fn transposed_geometry(windows: &Windows, x: &[i64], size: &[i32], padding: &[i32]) -> Result<Geometry> {
    windows.check(x)?;
    let (op, n) = (windows.op, windows.strides.len());
    for (name, list) in [("output_size", size), ("output_padding", padding)] {
        ensure!(
            list.is_empty() || list.len() == n,
            InvalidArgument,
            "operator {op}: {name} must have one number per axis, {n}, got {list:?}"
        );
    }
    let channels_last = channels_last(windows.data_format);
    let (images, channels, sizes) = split_images(x, channels_last);
    let mut axes = SmallVec::new();
    for (i, &n) in sizes.iter().enumerate() {
        let (kernel, stride, dilation) = (windows.kernel[i], windows.strides[i] as i64, windows.dilation(i));
        let mut axis = Axis { size: -1, kernel, stride, dilation, pad: (0, 0), out: n };
        if n < 0 || kernel < 0 {
            axis.size = size.get(i).map_or(-1, |&s| s as i64);
            axes.push(axis);
            continue;
        }
        ensure!(kernel > 0, InvalidArgument, "operator {op}: window sizes must be positive, got {:?}", windows.kernel);
        axis.pad = windows.padding(i, n)?;
        let reach = (kernel - 1).saturating_mul(dilation).saturating_add(1);
        let least = (n - 1).saturating_mul(stride).saturating_add(reach).saturating_sub(axis.pad.0 + axis.pad.1);
        axis.size = match (size.get(i), padding.get(i)) {
            (Some(&s), _) => {
                ensure!(
                    (least..least.saturating_add(stride)).contains(&(s as i64)),
                    InvalidArgument,
                    "operator {op}: output_size {size:?} must be at least the size without it, and less than a stride \
                     more: axis {i} must be in [{least}, {least} + {stride})"
                );
                s as i64
            }
            (None, Some(&more)) => {
                ensure!(
                    (0..stride.max(dilation)).contains(&(more as i64)),
                    InvalidArgument,
                    "operator {op}: output_padding {padding:?} must not be negative, and less than the stride or the \
                     dilation ({stride}, {dilation} along axis {i})"
                );
                least.saturating_add(more as i64)
            }
            (None, None) => least,
        };
        ensure!(
            axis.size > 0,
            InvalidArgument,
            "operator {op}: the output would be empty: along axis {i} of size {n}, padded by {:?}, it would have the size {}",
            axis.pad,
            axis.size
        );
        axes.push(axis);
    }
    Ok(Geometry { images, channels, channels_last, axes })
}

/// Fails for strides, dilations and paddings whose padded rows would not fit in memory.
fn check_size(name: &str, c: &Conv) -> Result<()> {
    let span = |i: usize, a: usize| {
        let reach = (c.kernel[a].saturating_sub(1)).saturating_mul(c.dilation[a]);
        reach.saturating_add(i.saturating_mul(c.stride[a])).saturating_add(1)
    };
    let rows = span(1, 0).saturating_mul(span(2, 1));
    let columns = span(c.out_size[2], 2);
    let elements = rows.saturating_mul(columns).saturating_mul(c.in_channels.max(c.out_channels).max(1));
    // Far above the need of any valid input.
    let most = (c.in_len().max(c.out_len()) / c.images.max(1)).saturating_mul(64).max(1 << 24);
    ensure!(
        elements <= most,
        ResourceExhausted,
        "operator {name}: stride {:?}, dilation {:?} and padding {:?} are too large for an input of {:?}",
        c.stride,
        c.dilation,
        c.pad,
        c.in_size
    );
    Ok(())
}

/// A convolution or a transposed one, with its forward and gradient kernels.
#[derive(Clone, Copy, Debug)]
pub struct ConvPlan {
    pub conv: Conv,
    transposed: bool,
}

impl ConvPlan {
    /// Output channels.
    pub fn channels(&self) -> usize {
        if self.transposed {
            self.conv.in_channels
        } else {
            self.conv.out_channels
        }
    }

    /// Computes `y` from `x`, the filters and an optional bias per channel.
    pub fn forward<T: Convolve>(&self, x: &[T], w: &[T], bias: Option<&[T]>, y: &mut [T]) {
        self.forward_relu(x, w, bias, false, y)
    }

    /// As `forward`; with `relu`, which a transposed convolution ignores, negative results and NaN become 0.
    pub fn forward_relu<T: Convolve>(&self, x: &[T], w: &[T], bias: Option<&[T]>, relu: bool, y: &mut [T]) {
        if !self.transposed {
            return kernel::convolve(&self.conv, x, w, bias, relu, y);
        }
        kernel::input_grad(&self.conv, x, w, y);
        if let Some(bias) = bias {
            kernel::add_bias(&self.conv, self.channels(), bias, y);
        }
    }

    /// As `forward_relu`, with `residual` (of y's shape) added before the ReLU, by the panels of the filters. Returns false,
    /// and does nothing, where the panels are not those of this convolution or do not make it faster.
    pub fn forward_packed(
        &self,
        [x, w]: [&Tensor; 2],
        panels: Option<&Tensor>,
        bias: Option<&Tensor>,
        residual: Option<&Tensor>,
        relu: bool,
        y: &mut Tensor,
    ) -> Result<bool> {
        let Some(panels) = panels.filter(|p| p.dtype() == DType::U8 && x.dtype() == DType::F32 && !self.transposed)
        else {
            return Ok(false);
        };
        let [bias, residual] = [bias, residual].map(|t| t.map(|t| t.data::<f32>()));
        let (x, w, y) = (x.data::<f32>(), w.data::<f32>(), y.data_mut::<f32>()?);
        Ok(kernel::packed::convolve_packed(&self.conv, x, w, panels.data::<u8>(), bias, residual, relu, y))
    }

    /// Computes the gradient of `x`.
    pub fn input_grad<T: Convolve>(&self, dy: &[T], w: &[T], dx: &mut [T]) {
        if self.transposed {
            kernel::convolve(&self.conv, dy, w, None, false, dx);
        } else {
            kernel::input_grad(&self.conv, dy, w, dx);
        }
    }

    /// Computes the gradient of the filters.
    pub fn filter_grad<T: Convolve>(&self, x: &[T], dy: &[T], dw: &mut [T]) {
        let (x, dy) = if self.transposed { (dy, x) } else { (x, dy) };
        kernel::filter_grad(&self.conv, x, dy, dw);
    }
}
