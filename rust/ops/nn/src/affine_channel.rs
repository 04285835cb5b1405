//! affine_channel: a scale and a bias per channel.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::batch_norm::{self as kernel, BatchNormGrad, Channels};
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{check_channel, check_like, infer_channel};
use oar_ops_common::window::split_images;

attrs! {
    pub struct AffineAttrs { data_layout: Text = "AnyLayout".into() }
}

slots! {
    mod affine { X "X", SCALE "Scale", BIAS "Bias" => OUT "Out" }
    mod affine_grad { X "X", DOUT "Out@GRAD", SCALE "Scale" => DX "X@GRAD", DSCALE "Scale@GRAD", DBIAS "Bias@GRAD" }
}

/// Any data_layout but NCHW is channels last.
fn last(a: &AffineAttrs) -> bool {
    a.data_layout != "NCHW"
}

fn check(op: &str, a: &AffineAttrs, x: &[i64]) -> Result<i64> {
    ensure!(x.len() >= 2, InvalidArgument, "operator {op}: X must have 2 dimensions or more, got shape {x:?}");
    Ok(split_images(x, last(a)).1)
}

fn layout(a: &AffineAttrs, x: &[i64]) -> Channels {
    let (images, channels, axes) = split_images(x, last(a));
    let pixels = axes.iter().product::<i64>() as usize;
    Channels { images: images as usize, channels: channels as usize, pixels, last: last(a) }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(affine::X)?;
    let c = check(cx.op.name, cx.attrs(), &x)?;
    infer_channel(cx, &[affine::SCALE, affine::BIAS], c)?;
    cx.like(affine::OUT, affine::X)?;
    cx.share_lod(affine::OUT, affine::X);
    Ok(())
}

/// A batch normalization with mean 0 and deviation 1.
fn run(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(affine::X)?;
    let d = layout(cx.attrs(), x.dims());
    check_channel(cx, &[affine::SCALE, affine::BIAS], d.channels, x.dtype())?;
    let (scale, bias) = (cx.input(affine::SCALE)?, cx.input(affine::BIAS)?);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mean, inv) = (vec![0.0; d.channels], vec![1.0; d.channels]);
        let (scale, bias) = (scale.data::<T>(), bias.data::<T>());
        kernel::batch_norm(&d, x.data::<T>(), &mean, &inv, scale, bias, cx.out_data::<T>(affine::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use affine_grad::{DBIAS, DOUT, DSCALE, DX, SCALE, X};
    let (x, dout, scale) = (cx.input(X)?, cx.input(DOUT)?, cx.input(SCALE)?);
    check(cx.op.name, cx.attrs(), x.dims())?;
    let d = layout(cx.attrs(), x.dims());
    check_like(cx, x, &[DOUT])?;
    check_channel(cx, &[SCALE], d.channels, x.dtype())?;
    let [dx, dscale, dbias] = cx.each_out([DX, DSCALE, DBIAS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mean, inv) = (vec![0.0; d.channels], vec![1.0; d.channels]);
        let out = BatchNormGrad {
            dx: dx.map(|t| t.data_mut::<T>()).transpose()?,
            dscale: dscale.map(|t| t.data_mut::<T>()).transpose()?,
            dbias: dbias.map(|t| t.data_mut::<T>()).transpose()?,
        };
        kernel::batch_norm_grad(&d, x.data::<T>(), dout.data::<T>(), &mean, &inv, scale.data::<T>(), true, out);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    grads_like_inputs(cx)?;
    cx.like(affine_grad::DBIAS, affine_grad::SCALE)
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);
const X: InSlot = affine::X;

pub static AFFINE_CHANNEL: Op = Op {
    name: "affine_channel",
    inputs: affine::INS,
    outputs: affine::OUTS,
    attrs: AffineAttrs::FIELDS,
    dtypes: TYPES,
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, X, run)),
    grad: Grad::By(&AFFINE_CHANNEL_GRAD),
    ..OP
};

pub static AFFINE_CHANNEL_GRAD: Op = Op {
    name: "affine_channel_grad",
    inputs: affine_grad::INS,
    outputs: affine_grad::OUTS,
    attrs: AffineAttrs::FIELDS,
    dtypes: TYPES,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, X, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&AFFINE_CHANNEL, &AFFINE_CHANNEL_GRAD];
