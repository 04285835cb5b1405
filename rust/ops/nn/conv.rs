//! Convolution of images, its gradients and second gradients.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::sum::accumulate;
use oar_core::op::parts::window::{Axis, Geometry, Windows};
use oar_core::op::{Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::conv::{self as kernel, Conv2d};

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

/// Checks a convolution of `x` by filters `w` along 2 or 3 axes; sizes may be -1 while a Program is built.
fn geometry(op: &str, a: &ConvAttrs, x: &[i64], w: &[i64]) -> Result<Geometry> {
    ensure!(
        x.len() == w.len() && x.len() == a.strides.len() + 2 && (4..=5).contains(&x.len()),
        InvalidArgument,
        "operator {op}: Input and Filter must have 4 or 5 dimensions, two more than there are strides ({:?}), got {x:?} \
         and {w:?}",
        a.strides
    );
    ensure!(a.groups > 0, InvalidArgument, "operator {op}: groups must be positive, got {}", a.groups);
    let windows = Windows {
        op,
        data_format: &a.data_format,
        kernel: &w[2..],
        strides: &a.strides,
        dilations: &a.dilations,
        paddings: &a.paddings,
        padding_algorithm: &a.padding_algorithm,
        ceil_mode: false,
    };
    let g = Geometry::new(&windows, x)?;
    let groups = a.groups as i64;
    ensure!(
        g.channels < 0 || w[1] < 0 || w[1].checked_mul(groups) == Some(g.channels),
        InvalidArgument,
        "operator {op}: the input's channels must be the filter's channels times groups, got an Input of shape {x:?} \
         ({}), a Filter of shape {w:?} and {groups} groups",
        a.data_format
    );
    ensure!(
        w[0] < 0 || w[0] % groups == 0,
        InvalidArgument,
        "operator {op}: the number of filters must be divisible by groups, got a Filter of shape {w:?} and {groups}"
    );
    Ok(g)
}

/// The kernel's description of a convolution, and its output's shape.
fn plan(cx: &Run, x: &Tensor, w: &Tensor) -> Result<(Conv2d, Dims)> {
    let a = cx.attrs::<ConvAttrs>();
    let (name, x, w) = (cx.op.name, x.dims(), w.dims());
    let g = geometry(name, a, x, w)?;
    ensure!(x.len() == 4, InvalidArgument, "operator {name}: Input must have 4 dimensions, got {x:?}");
    let pair = |number: fn(&Axis) -> i64| g.each::<2>(1, number).into();
    let c = Conv2d {
        images: g.images as usize,
        in_channels: g.channels as usize,
        in_size: pair(|a| a.size),
        out_channels: w[0] as usize,
        out_size: pair(|a| a.out),
        kernel: pair(|a| a.kernel),
        stride: pair(Axis::step),
        dilation: pair(|a| a.dilation),
        pad: pair(|a| a.pad.0),
        groups: a.groups as usize,
        channels_last: g.channels_last,
    };
    room(name, &c)?;
    Ok((c, g.out(w[0])))
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
    let (x, w, dtype) = (cx.dims(conv::INPUT)?, cx.dims(conv::FILTER)?, cx.dtype(conv::INPUT)?);
    let g = geometry(cx.op.name, cx.attrs(), &x, &w)?;
    cx.set(conv::OUTPUT, &g.out(w[0]), dtype);
    cx.share_lod(conv::OUTPUT, conv::INPUT);
    Ok(())
}

fn convolve(cx: &mut Run) -> Result<()> {
    let (x, w) = (cx.input(conv::INPUT)?, cx.input(conv::FILTER)?);
    let bias = cx.opt(conv::BIAS);
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
        let out = cx.out_data::<T>(conv::OUTPUT)?;
        kernel::conv2d(&c, x.data::<T>(), w.data::<T>(), bias.map(|b| b.data::<T>()), false, out);
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

fn convolve_grad(cx: &mut Run) -> Result<()> {
    use conv_grad::{BIAS, DBIAS, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
    let (x, w, dy) = (cx.input(INPUT)?, cx.input(FILTER)?, cx.input(DOUTPUT)?);
    same_types(cx, x, &[w, dy])?;
    let (c, out) = plan(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        if cx.wants(DINPUT) {
            kernel::conv2d_input_grad(&c, dy.data::<T>(), w.data::<T>(), cx.out_data::<T>(DINPUT)?);
        }
        if cx.wants(DFILTER) {
            kernel::conv2d_filter_grad(&c, x.data::<T>(), dy.data::<T>(), cx.out_data::<T>(DFILTER)?);
        }
        if cx.has(BIAS) && cx.wants(DBIAS) {
            let axis = if c.channels_last { 3 } else { 1 };
            let axes: [bool; 4] = std::array::from_fn(|i| i != axis);
            let shape = oar_core::base::shape::to_usize(&out);
            oar_kernels::reduce::reduce(
                oar_kernels::reduce::Reduce::Sum, dy.data::<T>(), &shape, &axes, cx.out_data::<T>(DBIAS)?,
            );
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Every `X@GRAD` is like `X`, where there is an `X`.
fn infer_grad(cx: &mut Infer) -> Result<()> {
    use conv_grad::{BIAS, DBIAS, DFILTER, DINPUT, FILTER, INPUT};
    for (grad, of) in [(DINPUT, INPUT), (DFILTER, FILTER), (DBIAS, BIAS)] {
        if cx.has(of) {
            cx.like(grad, of)?;
        }
    }
    cx.share_lod(DINPUT, INPUT);
    Ok(())
}

/// ddO = conv(ddI, W) + conv(I, ddW); dW from ddI and dO; dI from dO and ddW.
fn convolve_grad_grad(cx: &mut Run) -> Result<()> {
    use conv_grad_grad::{DDFILTER, DDINPUT, DDOUTPUT, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
    let (x, w, dy) = (cx.input(INPUT)?, cx.input(FILTER)?, cx.input(DOUTPUT)?);
    let (ddx, ddw) = (cx.opt(DDINPUT), cx.opt(DDFILTER));
    let (c, out) = plan(cx, x, w)?;
    check_grad(cx, dy, &out)?;
    for (given, like) in [(ddx, x), (ddw, w)] {
        let Some(t) = given else { continue };
        ensure!(t.dims() == like.dims(), InvalidArgument, "operator {}: shapes of gradients differ", cx.op.name);
        same_types(cx, x, &[t])?;
    }
    same_types(cx, x, &[w, dy])?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let [ddout, dw, dx] = cx.each_out([DDOUTPUT, DFILTER, DINPUT]);
        if let Some(ddout) = ddout {
            let conv = |a: &Tensor, b: &Tensor, out: &mut Tensor| -> Result<()> {
                kernel::conv2d(&c, a.data::<T>(), b.data::<T>(), None, false, out.data_mut::<T>()?);
                Ok(())
            };
            match (ddx, ddw) {
                (None, None) => ddout.data_mut::<T>()?.fill(0.0),
                (Some(ddx), None) => conv(ddx, w, ddout)?,
                (None, Some(ddw)) => conv(x, ddw, ddout)?,
                (Some(ddx), Some(ddw)) => {
                    conv(ddx, w, ddout)?;
                    let mut second = ddout.empty_like()?;
                    conv(x, ddw, &mut second)?;
                    accumulate(ddout, &second)?;
                }
            }
        }
        if let Some(dw) = dw {
            let dw = dw.data_mut::<T>()?;
            match ddx {
                Some(ddx) => kernel::conv2d_filter_grad(&c, ddx.data::<T>(), dy.data::<T>(), dw),
                None => dw.fill(0.0),
            }
        }
        if let Some(dx) = dx {
            let dx = dx.data_mut::<T>()?;
            match ddw {
                Some(ddw) => kernel::conv2d_input_grad(&c, dy.data::<T>(), ddw.data::<T>(), dx),
                None => dx.fill(0.0),
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

slots! {
    mod conv { INPUT "Input", FILTER "Filter", BIAS "Bias".opt(), RESIDUAL "ResidualData".opt() => OUTPUT "Output" }
    mod conv_grad {
        INPUT "Input", FILTER "Filter", BIAS "Bias".opt(), DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD", DBIAS "Bias@GRAD"
    }
    mod conv_grad_grad {
        INPUT "Input", FILTER "Filter", DOUTPUT "DOutput", DDINPUT "DDInput".opt(), DDFILTER "DDFilter".opt()
        => DDOUTPUT "DDOutput", DFILTER "DFilter", DINPUT "DInput"
    }
}

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
            inputs: conv::INS,
            outputs: conv::OUTS,
            attrs: ConvAttrs::FIELDS,
            takes: DTypes::FLOATS.and(DTypes::HALVES),
            infer,
            cpu: Kernel::Pure(|cx| in_f32(cx, conv::INPUT, convolve)),
            grad: Grad::By(&$grad),
            amp: oar_core::op::Amp::White,
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: conv_grad::INS,
            outputs: conv_grad::OUTS,
            attrs: ConvAttrs::FIELDS,
            takes: DTypes::FLOATS.and(DTypes::HALVES),
            infer: infer_grad,
            cpu: Kernel::Pure(|cx| in_f32(cx, conv_grad::INPUT, convolve_grad)),
            grad: Grad::Map(&$second, SECOND),
            ..OP
        };
        pub static $second: Op = Op {
            name: $second_name,
            inputs: conv_grad_grad::INS,
            outputs: conv_grad_grad::OUTS,
            attrs: ConvAttrs::FIELDS,
            takes: DTypes::FLOATS.and(DTypes::HALVES),
            infer: |cx| {
                use conv_grad_grad::{DDOUTPUT, DFILTER, DINPUT, DOUTPUT, FILTER, INPUT};
                cx.like(DDOUTPUT, DOUTPUT)?;
                cx.like(DFILTER, FILTER)?;
                cx.like(DINPUT, INPUT)
            },
            cpu: Kernel::Pure(|cx| in_f32(cx, conv_grad_grad::INPUT, convolve_grad_grad)),
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
