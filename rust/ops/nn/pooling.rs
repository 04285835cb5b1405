//! Pooling of images over windows.

use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::window::{channels_last, split_images, Axis, Geometry, Windows};
use oar_core::op::{Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pooling as kernel;

attrs! {
    pub struct PoolAttrs {
        pooling_type: String, ksize: Vec<i32>, global_pooling: bool = false, strides: Vec<i32> = vec![1, 1],
        paddings: Vec<i32> = vec![0, 0], exclusive: bool = true, adaptive: bool = false, use_cudnn: bool = false,
        ceil_mode: bool = false, use_mkldnn: bool = false, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(), data_format: Text = "NCHW".into(), is_test: bool = false,
        padding_algorithm: Text = "EXPLICIT".into(),
    }
}

slots! {
    mod pool2d { X "X" => OUT "Out" }
    mod pool2d_grad { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The kernel keeps a table of windows for each axis.
const MOST_WINDOWS: i64 = 1 << 26;

/// Checks a pooling of `x` along 2 or 3 axes; sizes may be -1 while a Program is built.
fn geometry(op: &str, a: &PoolAttrs, x: &[i64]) -> Result<Geometry> {
    let n = a.ksize.len();
    ensure!(
        x.len() == n + 2 && (2..=3).contains(&n) && a.strides.len() == n,
        InvalidArgument,
        "operator {op}: X must have two dimensions more than ksize and strides numbers, got a shape {x:?}, ksize {:?} \
         and strides {:?}",
        a.ksize,
        a.strides
    );
    ensure!(
        matches!(&a.pooling_type[..], "max" | "avg"),
        InvalidArgument,
        "operator {op}: pooling_type must be max or avg, got '{}'",
        a.pooling_type
    );
    ensure!(
        (a.global_pooling || a.ksize.iter().all(|&k| k > 0)) && a.strides.iter().all(|&s| s > 0),
        InvalidArgument,
        "operator {op}: ksize {:?} and strides {:?} must be positive",
        a.ksize,
        a.strides
    );
    let (_, _, sizes) = split_images(x, channels_last(&a.data_format));
    ensure!(!sizes.contains(&0), InvalidArgument, "operator {op}: X of shape {x:?} has an empty axis");
    let kernel: Dims =
        if a.global_pooling { Dims::from_slice(sizes) } else { a.ksize.iter().map(|&k| k as i64).collect() };
    let whole = a.global_pooling || a.adaptive; // every element is in a window: no padding
    let windows = Windows {
        op,
        data_format: &a.data_format,
        // An adaptive pooling has as many windows as `ksize` says, whatever their sizes.
        kernel: if a.adaptive { &[1; 3][..n] } else { &kernel },
        strides: &a.strides,
        dilations: &[1; 3][..n],
        paddings: &a.paddings,
        padding_algorithm: if whole { "VALID" } else { &a.padding_algorithm },
        ceil_mode: a.ceil_mode,
    };
    let mut g = Geometry::new(&windows, x)?;
    if a.adaptive {
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

/// The kernel's description (planes are volumes of depth 1), and the output's shape.
fn plan(cx: &Run, x: &Tensor) -> Result<(kernel::Pool, Dims)> {
    let a = cx.attrs::<PoolAttrs>();
    let g = geometry(cx.op.name, a, x.dims())?;
    let p = kernel::Pool {
        images: g.images as usize,
        channels: g.channels as usize,
        in_size: g.each(1, |a| a.size),
        out_size: g.each(1, |a| a.out),
        kernel: g.each(1, |a| a.kernel),
        stride: g.each(1, Axis::step),
        pad: g.each(0, |a| a.pad.0),
        adaptive: a.adaptive,
        exclusive: a.exclusive,
        channels_last: g.channels_last,
    };
    Ok((p, g.out(g.channels)))
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(pool2d::X)?, cx.dtype(pool2d::X)?);
    let g = geometry(cx.op.name, cx.attrs(), &x)?;
    cx.set(pool2d::OUT, &g.out(g.channels), dtype);
    cx.share_lod(pool2d::OUT, pool2d::X);
    Ok(())
}

fn pool(cx: &mut Run) -> Result<()> {
    let x = cx.input(pool2d::X)?;
    let (p, _) = plan(cx, x)?;
    let max = cx.attrs::<PoolAttrs>().pooling_type == "max";
    dispatch!(x.dtype(), T in [f32, f64], {
        let run = if max { kernel::max_pool::<T> } else { kernel::avg_pool::<T> };
        run(&p, x.data::<T>(), cx.out_data::<T>(pool2d::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn pool_grad(cx: &mut Run) -> Result<()> {
    let (x, out, dout) = (cx.input(pool2d_grad::X)?, cx.input(pool2d_grad::OUT)?, cx.input(pool2d_grad::DOUT)?);
    let (p, dims) = plan(cx, x)?;
    ensure!(
        dout.dims() == &dims[..] && out.dims() == &dims[..] && dout.dtype() == x.dtype() && out.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: Out and its gradient must have shape {:?} and the type of X, got {out:?} and {dout:?}",
        cx.op.name,
        &dims[..]
    );
    let max = cx.attrs::<PoolAttrs>().pooling_type == "max";
    dispatch!(x.dtype(), T in [f32, f64], {
        let dx = cx.out_data::<T>(pool2d_grad::DX)?;
        if max {
            kernel::max_pool_grad(&p, x.data::<T>(), out.data::<T>(), dout.data::<T>(), dx);
        } else {
            kernel::avg_pool_grad(&p, dout.data::<T>(), dx);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static POOL2D: Op = Op {
    name: "pool2d",
    inputs: pool2d::INS,
    outputs: pool2d::OUTS,
    attrs: PoolAttrs::FIELDS,
    takes: DTypes::FLOATS.and(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, pool2d::X, pool)),
    grad: Grad::By(&POOL2D_GRAD),
    ..OP
};

pub static POOL2D_GRAD: Op = Op {
    name: "pool2d_grad",
    inputs: pool2d_grad::INS,
    outputs: pool2d_grad::OUTS,
    attrs: PoolAttrs::FIELDS,
    takes: DTypes::FLOATS.and(DTypes::HALVES),
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, pool2d_grad::X, pool_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&POOL2D, &POOL2D_GRAD];
