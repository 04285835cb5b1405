//! Pooling of images over windows.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::window::{channels_last, paddings};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::pooling as kernel;
use smallvec::SmallVec;

attrs! {
    pub struct PoolAttrs {
        pooling_type: String, ksize: Vec<i32>, global_pooling: bool = false, strides: Vec<i32> = vec![1, 1],
        paddings: Vec<i32> = vec![0, 0], exclusive: bool = true, adaptive: bool = false, use_cudnn: bool = false,
        ceil_mode: bool = false, use_mkldnn: bool = false, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(), data_format: Text = "NCHW".into(), is_test: bool = false,
        padding_algorithm: Text = "EXPLICIT".into(),
    }
}

const MOST_WINDOWS: i64 = 1 << 26;

/// What shapes and attributes say of a pooling; sizes may be -1 while a Program is built.
pub struct Geometry {
    pub out: Dims,
    pub kernel: SmallVec<[i64; 3]>,
    /// Padding before each axis.
    pub pads: SmallVec<[i64; 3]>,
}

/// Checks a pooling of `x` along 2 or 3 axes.
pub fn geometry(op: &str, a: &PoolAttrs, x: &[i64], is_run: bool) -> Result<Geometry> {
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
    let last = channels_last(&a.data_format);
    let size = if last { &x[1..n + 1] } else { &x[2..] };
    let kernel: SmallVec<[i64; 3]> =
        if a.global_pooling { size.iter().copied().collect() } else { a.ksize.iter().map(|&k| k as i64).collect() };
    ensure!(
        (a.global_pooling || kernel.iter().all(|&k| k > 0)) && a.strides.iter().all(|&s| s > 0),
        InvalidArgument,
        "operator {op}: ksize {:?} and strides {:?} must be positive",
        a.ksize,
        a.strides
    );
    let mut pads = paddings(op, &a.padding_algorithm, &a.paddings, size, &a.strides, &kernel)?;
    if a.global_pooling || a.adaptive {
        pads.fill((0, 0));
    }
    let mut out = Dims::from_slice(&[x[0]]);
    if !last {
        out.push(x[1]);
    }
    for i in 0..n {
        if a.adaptive {
            ensure!(!is_run || size[i] > 0, InvalidArgument, "operator {op}: X of shape {x:?} has an empty axis");
            out.push(kernel[i]);
            continue;
        }
        if !is_run && size[i] < 0 {
            out.push(size[i]);
            continue;
        }
        ensure!(
            pads[i].0 >= 0 && pads[i].1 >= 0,
            InvalidArgument,
            "operator {op}: paddings must not be negative, got {:?}",
            a.paddings
        );
        let stride = a.strides[i] as i64;
        let room = size[i] - kernel[i] + pads[i].0 + pads[i].1 + if a.ceil_mode { stride - 1 } else { 0 };
        // As in Paddle the quotient is rounded towards zero: a window that is too large by less than a stride is there.
        let count = room / stride + 1;
        ensure!(
            count > 0 && size[i] > 0,
            InvalidArgument,
            "operator {op}: the output size must be greater than 0: an axis of size {} padded by {:?} is smaller than \
             the window {} (stride {stride})",
            size[i],
            pads[i],
            kernel[i]
        );
        out.push(count);
    }
    if last {
        out.push(x[n + 1]);
    }
    // The kernel keeps a table of windows for each axis.
    ensure!(
        out.iter().all(|&d| d <= MOST_WINDOWS) || !is_run,
        ResourceExhausted,
        "operator {op}: a result of shape {:?} has too many windows along one axis",
        &out[..]
    );
    Ok(Geometry { out, kernel, pads: pads.iter().map(|p| p.0).collect() })
}

/// The kernel's description; planes are volumes of depth 1.
fn plan(cx: &Run, x: &Tensor) -> Result<(kernel::Pool, Dims)> {
    let a = cx.attrs::<PoolAttrs>();
    let g = geometry(cx.op.name, a, x.dims(), true)?;
    let (x, n, last) = (x.dims(), a.ksize.len(), channels_last(&a.data_format));
    let at = if last { 1 } else { 2 };
    let three = |v: &dyn Fn(usize) -> i64, fill: usize| -> [usize; 3] {
        std::array::from_fn(|i| if i + n < 3 { fill } else { v(i + n - 3) as usize })
    };
    let p = kernel::Pool {
        images: x[0] as usize,
        channels: if last { x[n + 1] } else { x[1] } as usize,
        in_size: three(&|i| x[at + i], 1),
        out_size: three(&|i| g.out[at + i], 1),
        kernel: three(&|i| g.kernel[i], 1),
        // With one output along an axis the stride says nothing; the kernel would make room for it.
        stride: three(&|i| if g.out[at + i] > 1 { a.strides[i] as i64 } else { 1 }, 1),
        pad: three(&|i| g.pads[i], 0),
        adaptive: a.adaptive,
        exclusive: a.exclusive,
        channels_last: last,
    };
    Ok((p, g.out))
}

fn infer(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let g = geometry(cx.op.name, cx.attrs(), &x, cx.is_run())?;
    cx.set(0, &g.out, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn pool(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let (p, _) = plan(cx, x)?;
    let max = cx.attrs::<PoolAttrs>().pooling_type == "max";
    dispatch!(x.dtype(), T in [f32, f64], {
        let run = if max { kernel::max_pool::<T> } else { kernel::avg_pool::<T> };
        run(&p, x.data::<T>(), cx.out_data::<T>(0)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn pool_grad(cx: &mut Run) -> Result<()> {
    let (x, out, dout) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
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
        let dx = cx.out_data::<T>(0)?;
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
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: PoolAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, pool)),
    grad: Grad::By(&POOL2D_GRAD),
    ..OP
};

pub static POOL2D_GRAD: Op = Op {
    name: "pool2d_grad",
    inputs: &[slot("X"), slot("Out"), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: PoolAttrs::FIELDS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, pool_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&POOL2D, &POOL2D_GRAD];
