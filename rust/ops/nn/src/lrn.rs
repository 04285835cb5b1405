//! lrn: local response normalization across channels.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool::{self, Shared};
use oar_ops_common::axis::like;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct LrnAttrs {
        n: i32 = 5, k: f32 = 2.0, alpha: f32 = 0.0001, beta: f32 = 0.75, use_mkldnn: bool = false,
        data_format: Text = "AnyLayout".into(), is_test: bool = false,
    }
}

slots! {
    mod lrn { X "X" => OUT "Out", MID "MidOut" }
    mod lrn_grad { X "X", OUT "Out", MID "MidOut", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The memory layout: channel c of pixel p of image i is at `i * channels * pixels + c * step + p * stride`.
#[derive(Clone, Copy)]
struct Layout {
    images: usize,
    channels: usize,
    pixels: usize,
    step: usize,
    stride: usize,
}

impl Layout {
    fn new(op: &str, a: &LrnAttrs, x: &[i64]) -> Result<Layout> {
        check(op, a, x)?;
        let [n, a1, a2, a3] = [x[0] as usize, x[1] as usize, x[2] as usize, x[3] as usize];
        Ok(match a.data_format == "NHWC" {
            true => Layout { images: n, channels: a3, pixels: a1 * a2, step: 1, stride: a3 },
            false => Layout { images: n, channels: a1, pixels: a2 * a3, step: a2 * a3, stride: 1 },
        })
    }

    /// Calls `f(first, pixels)` for runs of pixels: the offset of their channel 0, and their number.
    fn runs(&self, f: impl Fn(usize, usize) + Sync) {
        const MOST: usize = 256;
        let parts = self.pixels.div_ceil(MOST);
        let image = self.channels * self.pixels;
        pool::ranges(self.images * parts, (1 << 14) / (self.channels * MOST).max(1), |range| {
            for i in range {
                let first = i % parts * MOST;
                f(i / parts * image + first * self.stride, MOST.min(self.pixels - first));
            }
        });
    }

    /// The range of channels within the window of size `n` around `c`.
    fn window(&self, c: usize, n: usize) -> std::ops::Range<usize> {
        let before = (n - 1) / 2;
        c.saturating_sub(before)..(c + (n - before)).min(self.channels)
    }
}

fn check(op: &str, a: &LrnAttrs, x: &[i64]) -> Result<()> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    ensure!(a.n > 0 && a.n % 2 == 1, InvalidArgument, "operator {op}: n must be positive and odd, got {}", a.n);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(lrn::X)?, cx.attrs::<LrnAttrs>());
    let l = Layout::new(cx.op.name, a, x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    let (mut out, mut mid) = (cx.take_out(lrn::OUT)?, cx.take_out(lrn::MID)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let x = x.data::<T>();
        let (y, m) = (Shared::new(out.data_mut::<T>()?), Shared::new(mid.data_mut::<T>()?));
        let (k, alpha, beta) = (a.k as T, a.alpha as T, a.beta as T);
        l.runs(|first, pixels| {
            for c in 0..l.channels {
                let around = l.window(c, a.n as usize);
                for p in 0..pixels {
                    let pixel = first + p * l.stride;
                    let squares = around.clone().map(|o| x[pixel + o * l.step]).fold(0.0, |sum, v| sum + v * v);
                    let (at, scale) = (pixel + c * l.step, k + alpha * squares);
                    // SAFETY: every pixel belongs to exactly one run.
                    unsafe {
                        m.part(at..at + 1)[0] = scale;
                        y.part(at..at + 1)[0] = x[at] * scale.powf(-beta);
                    }
                }
            }
        });
    }, other => return cx.unsupported(other));
    cx.set(lrn::OUT, out);
    cx.set(lrn::MID, mid);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use lrn_grad::{DOUT, DX, MID, OUT, X};
    let (x, out, mid, d) = (cx.input(X)?, cx.input(OUT)?, cx.input(MID)?, cx.input(DOUT)?);
    for (t, what) in [(out, "Out"), (mid, "MidOut"), (d, "the gradient of Out")] {
        like(cx, t, x.dims(), x.dtype(), what)?;
    }
    let a = cx.attrs::<LrnAttrs>();
    let l = Layout::new(cx.op.name, a, x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, out, mid, d) = (x.data::<T>(), out.data::<T>(), mid.data::<T>(), d.data::<T>());
        let (beta, ratio) = (a.beta as T, -2.0 * a.alpha as T * a.beta as T);
        let dx = Shared::new(cx.out_data::<T>(DX)?);
        l.runs(|first, pixels| {
            for c in 0..l.channels {
                // The window is symmetric: the channels whose windows contain c are those of c's window.
                let around = l.window(c, a.n as usize);
                for p in 0..pixels {
                    let pixel = first + p * l.stride;
                    let at = pixel + c * l.step;
                    let sum = around.clone().map(|o| pixel + o * l.step).fold(0.0, |s, o| s + d[o] * out[o] / mid[o]);
                    // SAFETY: every pixel belongs to exactly one run.
                    unsafe { dx.part(at..at + 1)[0] = d[at] * mid[at].powf(-beta) + ratio * x[at] * sum };
                }
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(lrn::X)?;
    check(cx.op.name, cx.attrs(), &x)?;
    cx.like(lrn::OUT, lrn::X)?;
    cx.like(lrn::MID, lrn::X)?;
    cx.share_lod(lrn::OUT, lrn::X);
    Ok(())
}

pub static LRN: Op = Op {
    name: "lrn",
    inputs: lrn::INS,
    outputs: lrn::OUTS,
    attrs: LrnAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, lrn::X, run)),
    grad: Grad::By(&LRN_GRAD),
    ..OP
};

pub static LRN_GRAD: Op = Op {
    name: "lrn_grad",
    inputs: lrn_grad::INS,
    outputs: lrn_grad::OUTS,
    attrs: LrnAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, lrn_grad::X, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LRN, &LRN_GRAD];
