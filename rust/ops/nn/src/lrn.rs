//! lrn: local response normalization across channels.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::lrn::{self as kernel, LrnLayout, LrnRule};
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

fn layout(op: &str, a: &LrnAttrs, x: &[i64]) -> Result<LrnLayout> {
    check(op, a, x)?;
    let [images, a1, a2, a3] = [x[0] as usize, x[1] as usize, x[2] as usize, x[3] as usize];
    Ok(match a.data_format == "NHWC" {
        true => LrnLayout { images, channels: a3, pixels: a1 * a2, step: 1, stride: a3 },
        false => LrnLayout { images, channels: a1, pixels: a2 * a3, step: a2 * a3, stride: 1 },
    })
}

fn check(op: &str, a: &LrnAttrs, x: &[i64]) -> Result<()> {
    ensure!(x.len() == 4, InvalidArgument, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    ensure!(a.n > 0 && a.n % 2 == 1, InvalidArgument, "operator {op}: n must be positive and odd, got {}", a.n);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(lrn::X)?, cx.attrs::<LrnAttrs>());
    let l = layout(cx.op.name, a, x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    let (mut out, mut mid) = (cx.take_out(lrn::OUT)?, cx.take_out(lrn::MID)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let rule = LrnRule { window: a.n as usize, k: a.k as T, alpha: a.alpha as T, beta: a.beta as T };
        kernel::lrn(l, rule, x.data::<T>(), out.data_mut::<T>()?, mid.data_mut::<T>()?);
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
    let l = layout(cx.op.name, a, x.dims())?;
    if x.numel() == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let rule = LrnRule { window: a.n as usize, k: a.k as T, alpha: a.alpha as T, beta: a.beta as T };
        let saved = (x.data::<T>(), out.data::<T>(), mid.data::<T>(), d.data::<T>());
        kernel::lrn_grad(l, rule, saved, cx.out_data::<T>(DX)?);
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
