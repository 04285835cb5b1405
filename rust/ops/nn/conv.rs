//! Convolution of images, its gradients and second gradients.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::sum::accumulate;
use oar_core::op::parts::window::{channels_last, paddings};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, Slot, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::conv::{self as kernel, Conv2d};
use smallvec::SmallVec;

attrs! {
    pub struct ConvAttrs {
        is_test: bool = false, strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0],
        padding_algorithm: Text = "EXPLICIT".into(), groups: i32 = 1, dilations: Vec<i32> = vec![1, 1],
        use_cudnn: bool = false, fuse_relu_before_depthwise_conv: bool = false, use_mkldnn: bool = false,
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), fuse_relu: bool = false,
        fuse_brelu: bool = false, fuse_brelu_threshold: f32 = 6.0, fuse_activation: Text = "".into(),
        fuse_alpha: f32 = 0.0, fuse_beta: f32 = 0.0, use_addto: bool = false, fuse_residual_connection: bool = false,
        Scale_in: f32 = 1.0, Scale_out: f32 = 1.0, Scale_in_eltwise: f32 = 1.0, Scale_weights: Vec<f32> = vec![1.0],
        force_fp32_output: bool = false, data_format: Text = "NCHW".into(), workspace_size_MB: i32 = 512,
        exhaustive_search: bool = false,
    }
}

/// What the shapes and attributes of a convolution say; sizes may be -1 while a Program is built.
pub struct Geometry {
    pub out: Dims,
    pub pads: SmallVec<[(i64, i64); 3]>,
    pub dilations: SmallVec<[i64; 3]>,
}

/// Checks a convolution of `x` by `w` along 2 or 3 axes.
pub fn geometry(op: &str, a: &ConvAttrs, x: &[i64], w: &[i64], is_run: bool) -> Result<Geometry> {
    let n = a.strides.len();
    ensure!(
        x.len() == w.len() && x.len() == n + 2 && (2..=3).contains(&n),
        InvalidArgument,
        "operator {op}: Input and Filter must have {} dimensions (the strides are {:?}), got {x:?} and {w:?}",
        n + 2,
        a.strides
    );
    ensure!(
        a.dilations.len() == n && a.groups > 0 && a.strides.iter().chain(&a.dilations).all(|&v| v > 0),
        InvalidArgument,
        "operator {op}: strides {:?}, dilations {:?} and groups {} must be positive, one stride and dilation an axis",
        a.strides,
        a.dilations,
        a.groups
    );
    let last = channels_last(&a.data_format);
    let (channels, size) = if last { (x[n + 1], &x[1..n + 1]) } else { (x[1], &x[2..]) };
    let groups = a.groups as i64;
    let known = is_run || (channels >= 0 && w[1] >= 0);
    ensure!(
        !known || w[1].checked_mul(groups) == Some(channels),
        InvalidArgument,
        "operator {op}: the input's channels must be the filter's channels times groups, got an Input of shape {x:?} \
         ({}), a Filter of shape {w:?} and {groups} groups",
        a.data_format
    );
    ensure!(
        w[0] % groups == 0,
        InvalidArgument,
        "operator {op}: the number of filters must be divisible by groups, got a Filter of shape {w:?} and {groups}"
    );
    let pads = paddings(op, &a.padding_algorithm, &a.paddings, size, &a.strides, &w[2..])?;
    let same = a.padding_algorithm == "SAME";
    let dilations: SmallVec<[i64; 3]> = a.dilations.iter().map(|&d| if same { 1 } else { d as i64 }).collect();
    let mut out = Dims::from_slice(&[x[0]]);
    if !last {
        out.push(w[0]);
    }
    for i in 0..n {
        if !is_run && (size[i] <= 0 || w[i + 2] <= 0) {
            out.push(-1);
            continue;
        }
        ensure!(
            pads[i].0 >= 0 && pads[i].1 >= 0,
            InvalidArgument,
            "operator {op}: paddings must not be negative, got {:?}",
            a.paddings
        );
        ensure!(w[i + 2] > 0, InvalidArgument, "operator {op}: a Filter of shape {w:?} is empty");
        let reach = dilations[i] * (w[i + 2] - 1) + 1;
        let room = size[i] + pads[i].0 + pads[i].1 - reach;
        // As in Paddle the quotient is rounded towards zero: with a stride above 1 there is one output of a filter that is
        // too large by less than that; it meets zeros behind the input.
        let count = room / a.strides[i] as i64 + 1;
        ensure!(
            count > 0,
            InvalidArgument,
            "operator {op}: the output would be empty: an axis of size {} padded by {:?} is smaller than the filter's \
             reach {reach} (filter {}, dilation {})",
            size[i],
            pads[i],
            w[i + 2],
            dilations[i]
        );
        out.push(count);
    }
    if last {
        out.push(w[0]);
    }
    Ok(Geometry { out, pads, dilations })
}

/// The kernel's description of a convolution, and its output's shape.
fn plan(cx: &Run, x: &Tensor, w: &Tensor) -> Result<(Conv2d, Dims)> {
    let a = cx.attrs::<ConvAttrs>();
    let (name, x, w) = (cx.op.name, x.dims(), w.dims());
    let g = geometry(name, a, x, w, true)?;
    ensure!(x.len() == 4, InvalidArgument, "operator {name}: Input must have 4 dimensions, got {x:?}");
    let last = channels_last(&a.data_format);
    let at = if last { 1 } else { 2 };
    let pair = |d: &[i64]| (d[0] as usize, d[1] as usize);
    // With one output along an axis the stride says nothing; the kernels would make room for it.
    let stride = |i: usize| if g.out[at + i] > 1 { a.strides[i] as usize } else { 1 };
    let c = Conv2d {
        images: x[0] as usize,
        in_channels: if last { x[3] } else { x[1] } as usize,
        in_size: pair(&x[at..]),
        out_channels: w[0] as usize,
        out_size: pair(&g.out[at..]),
        kernel: pair(&w[2..]),
        stride: (stride(0), stride(1)),
        dilation: pair(&g.dilations),
        pad: (g.pads[0].0 as usize, g.pads[1].0 as usize),
        groups: a.groups as usize,
        channels_last: last,
    };
    room(name, &c)?;
    Ok((c, g.out))
}

/// Refuses strides, dilations and paddings so large that the kernels' padded copies of a few rows cannot be held.
fn room(name: &str, c: &Conv2d) -> Result<()> {
    let span = |i: usize, kernel: usize, dilation: usize, stride: usize| {
        (kernel.saturating_sub(1)).saturating_mul(dilation).saturating_add(i.saturating_mul(stride)).saturating_add(1)
    };
    let rows = span(2, c.kernel.0, c.dilation.0, c.stride.0);
    let columns = span(c.out_size.1, c.kernel.1, c.dilation.1, c.stride.1);
    let elements = rows.saturating_mul(columns).saturating_mul(c.in_channels.max(1));
    // Far above what an input that exists needs.
    let most = (c.in_len() / c.images.max(1)).saturating_mul(64).max(1 << 24);
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

fn same_types(cx: &Run, x: &Tensor, others: &[&Tensor]) -> Result<()> {
    for t in others {
        ensure!(
            t.dtype() == x.dtype(),
            InvalidArgument,
            "operator {}: input and filter must have one dtype, got {} and {}",
            cx.op.name,
            x.dtype(),
            t.dtype()
        );
    }
    Ok(())
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, w, dtype) = (cx.dims(0)?, cx.dims(1)?, cx.dtype(0)?);
    let g = geometry(cx.op.name, cx.attrs(), &x, &w, cx.is_run())?;
    cx.set(0, &g.out, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn conv(cx: &mut Run) -> Result<()> {
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let bias = cx.opt(2);
    same_types(cx, x, &[w])?;
    let (c, _) = plan(cx, x, w)?;
    if let Some(b) = bias {
        same_types(cx, x, &[b])?;
        ensure!(
            b.numel() == c.out_channels,
            InvalidArgument,
            "operator {}: Bias must have one number a filter, got shape {:?}",
            cx.op.name,
            b.dims()
        );
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::conv2d(&c, x.data::<T>(), w.data::<T>(), bias.map(|b| b.data::<T>()), false, cx.out_data::<T>(0)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// The output's gradient must have the output's shape.
fn check_grad(cx: &Run, dy: &Tensor, out: &[i64]) -> Result<()> {
    ensure!(
        dy.dims() == out,
        InvalidArgument,
        "operator {}: the gradient of Output must have shape {out:?}, got {:?}",
        cx.op.name,
        dy.dims()
    );
    Ok(())
}

fn conv_grad(cx: &mut Run) -> Result<()> {
    let (x, w, dy) = (cx.input(0)?, cx.input(1)?, cx.input(3)?);
    same_types(cx, x, &[w, dy])?;
    let (c, out) = plan(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        if cx.wants(0) {
            kernel::conv2d_input_grad(&c, dy.data::<T>(), w.data::<T>(), cx.out_data::<T>(0)?);
        }
        if cx.wants(1) {
            kernel::conv2d_filter_grad(&c, x.data::<T>(), dy.data::<T>(), cx.out_data::<T>(1)?);
        }
        if cx.has(2) && cx.wants(2) {
            let axis = if c.channels_last { 3 } else { 1 };
            let axes: [bool; 4] = std::array::from_fn(|i| i != axis);
            let shape = oar_core::base::shape::to_usize(&out);
            oar_kernels::reduce::reduce(
                oar_kernels::reduce::Reduce::Sum, dy.data::<T>(), &shape, &axes, cx.out_data::<T>(2)?,
            );
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Every `X@GRAD` is like `X`, where there is an `X`.
fn infer_grad(cx: &mut Infer) -> Result<()> {
    for slot in 0..3 {
        if cx.has(slot) {
            cx.like(slot, slot)?;
        }
    }
    cx.share_lod(0, 0);
    Ok(())
}

/// ddO = conv(ddI, W) + conv(I, ddW); dW from ddI and dO; dI from dO and ddW.
fn conv_grad_grad(cx: &mut Run) -> Result<()> {
    let (x, w, dy) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let (ddx, ddw) = (cx.opt(3), cx.opt(4));
    let (c, out) = plan(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    for (given, like) in [(ddx, x), (ddw, w)] {
        let Some(t) = given else { continue };
        ensure!(t.dims() == like.dims(), InvalidArgument, "operator {}: shapes of gradients differ", cx.op.name);
        same_types(cx, x, &[t])?;
    }
    same_types(cx, x, &[w, dy])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        if cx.wants(0) {
            let mut total: Option<Tensor> = None;
            for (a, b) in [(ddx, Some(w)), (Some(x), ddw)] {
                let (Some(a), Some(b)) = (a, b) else { continue };
                let mut t = Tensor::empty(x.dtype(), &out)?;
                kernel::conv2d(&c, a.data::<T>(), b.data::<T>(), None, false, t.data_mut::<T>()?);
                match &mut total {
                    None => total = Some(t),
                    Some(sum) => accumulate(sum, &t)?,
                }
            }
            cx.set(0, match total {
                Some(t) => t,
                None => Tensor::zeros(x.dtype(), &out)?,
            });
        }
        if cx.wants(1) {
            let mut t = Tensor::zeros(x.dtype(), w.dims())?;
            if let Some(ddx) = ddx {
                kernel::conv2d_filter_grad(&c, ddx.data::<T>(), dy.data::<T>(), t.data_mut::<T>()?);
            }
            cx.set(1, t);
        }
        if cx.wants(2) {
            let mut t = Tensor::zeros(x.dtype(), x.dims())?;
            if let Some(ddw) = ddw {
                kernel::conv2d_input_grad(&c, dy.data::<T>(), ddw.data::<T>(), t.data_mut::<T>()?);
            }
            cx.set(2, t);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

const INPUTS: &[Slot] = &[slot("Input"), slot("Filter"), slot("Bias").opt(), slot("ResidualData").opt()];
const GRAD_INPUTS: &[Slot] = &[slot("Input"), slot("Filter"), slot("Bias").opt(), slot("Output@GRAD")];
const GRAD_OUTPUTS: &[Slot] = &[slot("Input@GRAD"), slot("Filter@GRAD"), slot("Bias@GRAD")];
const SECOND: &[(&str, &str)] = &[
    ("DOutput", "Output@GRAD"),
    ("DDInput", "Input@GRAD@GRAD"),
    ("DDFilter", "Filter@GRAD@GRAD"),
    ("DDOutput", "Output@GRAD@GRAD"),
    ("DFilter", "Filter@GRAD"),
    ("DInput", "Input@GRAD"),
];

macro_rules! conv_ops {
    ($($op:ident $name:literal, $grad:ident $grad_name:literal, $second:ident $second_name:literal;)*) => {$(
        pub static $op: Op = Op {
            name: $name,
            inputs: INPUTS,
            outputs: &[slot("Output")],
            attrs: ConvAttrs::FIELDS,
            infer,
            cpu: Kernel::Pure(|cx| in_f32(cx, 0, conv)),
            grad: Grad::By(&$grad),
            amp: oar_core::op::Amp::White,
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: GRAD_INPUTS,
            outputs: GRAD_OUTPUTS,
            attrs: ConvAttrs::FIELDS,
            infer: infer_grad,
            cpu: Kernel::Pure(|cx| in_f32(cx, 0, conv_grad)),
            grad: Grad::Map(&$second, SECOND),
            ..OP
        };
        pub static $second: Op = Op {
            name: $second_name,
            inputs: &[
                slot("Input"), slot("Filter"), slot("DOutput"), slot("DDInput").opt(), slot("DDFilter").opt(),
            ],
            outputs: &[slot("DDOutput"), slot("DFilter"), slot("DInput")],
            attrs: ConvAttrs::FIELDS,
            infer: |cx| {
                if cx.is_run() {
                    return Ok(());
                }
                cx.like(0, 2)?;
                cx.like(1, 1)?;
                cx.like(2, 0)
            },
            cpu: Kernel::Pure(|cx| in_f32(cx, 0, conv_grad_grad)),
            ..OP
        };
    )*};
}

conv_ops! {
    CONV "conv2d", CONV_GRAD "conv2d_grad", CONV_GRAD_GRAD "conv2d_grad_grad";
    DEPTHWISE "depthwise_conv2d", DEPTHWISE_GRAD "depthwise_conv2d_grad",
        DEPTHWISE_GRAD_GRAD "depthwise_conv2d_grad_grad";
}

pub static TABLE: &[&Op] = &[&CONV, &CONV_GRAD, &CONV_GRAD_GRAD, &DEPTHWISE, &DEPTHWISE_GRAD, &DEPTHWISE_GRAD_GRAD];
