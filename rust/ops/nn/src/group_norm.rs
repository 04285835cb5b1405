//! group_norm: normalization over groups of channels of each image.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::batch_norm::BatchNormGrad;
use oar_kernels::norm::group_norm::{self as kernel, Groups};
use oar_kernels::types::Float;
use oar_ops_common::window::split_images;

attrs! {
    pub struct GroupNormAttrs { epsilon: f32 = 1e-5, groups: i32, data_layout: String = "NCHW".into() }
}

slots! {
    mod group_norm { X "X", SCALE "Scale".dispensable(), BIAS "Bias".dispensable() => Y "Y", MEAN "Mean".intermediate(), VARIANCE "Variance".intermediate() }
    mod group_norm_grad {
        SCALE "Scale".dispensable(), BIAS "Bias".dispensable(), DY "Y@GRAD", Y "Y", VARIANCE "Variance"
        => DX "X@GRAD", DBIAS "Bias@GRAD", DSCALE "Scale@GRAD"
    }
}

impl GroupNormAttrs {
    fn last(&self) -> bool {
        self.data_layout == "NHWC"
    }
}

/// Fails unless the channels can be divided into groups; sizes may be -1 while a Program is built.
fn check(op: &str, a: &GroupNormAttrs, x: &[i64]) -> Result<()> {
    ensure!(x.len() >= 2, InvalidArgument, "operator {op}: X must have at least 2 dimensions, got {x:?}");
    let (_, channels, _) = split_images(x, a.last());
    ensure!(
        a.groups > 0 && (channels < 0 || channels % a.groups as i64 == 0),
        InvalidArgument,
        "operator {op}: attribute 'groups' must divide the number of channels, got {} and {channels}",
        a.groups
    );
    Ok(())
}

fn groups(op: &str, a: &GroupNormAttrs, x: &[i64]) -> Result<Groups> {
    check(op, a, x)?;
    let (images, channels, axes) = split_images(x, a.last());
    Ok(Groups {
        images: images as usize,
        groups: a.groups as usize,
        width: (channels / a.groups as i64) as usize,
        pixels: axes.iter().product::<i64>() as usize,
        last: a.last(),
    })
}

/// One value per channel; `or` if the slot is absent.
fn per_channel<T: Float + Element>(cx: &KernelContext, slot: InSlot, channels: usize, or: T) -> Result<Vec<T>> {
    let Some(t) = cx.opt(slot) else {
        let mut all = Vec::new();
        let there = all.try_reserve_exact(channels).is_ok();
        ensure!(there, ResourceExhausted, "operator {}: {channels} channels are too many", cx.op.name);
        all.resize(channels, or);
        return Ok(all);
    };
    ensure!(
        t.numel() == channels && t.dtype() == T::DTYPE,
        InvalidArgument,
        "operator {}: {} must have {channels} elements of {}, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        T::DTYPE
    );
    Ok(t.data::<T>().to_vec())
}

fn forward<T: Float + Element>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use group_norm::{BIAS, MEAN, SCALE, VARIANCE, Y};
    let a = cx.attrs::<GroupNormAttrs>();
    let g = groups(cx.op.name, a, x.dims())?;
    let (scale, bias) = (per_channel(cx, SCALE, g.channels(), T::ONE)?, per_channel(cx, BIAS, g.channels(), T::ZERO)?);
    let (mut mean, mut var) = (vec![T::ZERO; g.images * g.groups], vec![T::ZERO; g.images * g.groups]);
    let stats = [&mut mean[..], &mut var[..]];
    kernel::group_norm(&g, x.data::<T>(), &scale, &bias, a.epsilon as f64, stats, cx.out_data::<T>(Y)?);
    for (slot, values) in [(MEAN, mean), (VARIANCE, var)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(&values);
        }
    }
    Ok(())
}

fn backward<T: Float + Element>(cx: &mut KernelContext, y: &Tensor) -> Result<()> {
    use group_norm_grad::{BIAS, DBIAS, DSCALE, DX, DY, SCALE, VARIANCE};
    let a = cx.attrs::<GroupNormAttrs>();
    let g = groups(cx.op.name, a, y.dims())?;
    let (scale, bias) = (per_channel(cx, SCALE, g.channels(), T::ONE)?, per_channel(cx, BIAS, g.channels(), T::ZERO)?);
    let (dy, var) = (cx.input(DY)?, cx.input(VARIANCE)?);
    ensure!(
        dy.dims() == y.dims() && dy.dtype() == y.dtype() && var.dtype() == y.dtype(),
        InvalidArgument,
        "operator {}: Y@GRAD and Variance must fit Y {y:?}, got {dy:?} and {var:?}",
        cx.op.name
    );
    ensure!(
        var.numel() == g.images * g.groups,
        InvalidArgument,
        "operator {}: Variance must have shape [{}, {}], got {var:?}",
        cx.op.name,
        g.images,
        g.groups
    );
    let [dx, dscale, dbias] = cx.each_out([DX, DSCALE, DBIAS]).map(|t| t.map(|t| t.data_mut::<T>()).transpose());
    let out = BatchNormGrad { dx: dx?, dscale: dscale?, dbias: dbias? };
    let (y, dy, var) = (y.data::<T>(), dy.data::<T>(), var.data::<T>());
    kernel::group_norm_grad(&g, y, dy, &scale, &bias, var, a.epsilon as f64, out);
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    use group_norm::{MEAN, VARIANCE, X, Y};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    let a = cx.attrs::<GroupNormAttrs>();
    check(cx.op.name, a, &x)?;
    cx.set(Y, &x, dtype);
    cx.set(MEAN, &[x[0], a.groups as i64], dtype);
    cx.set(VARIANCE, &[x[0], a.groups as i64], dtype);
    cx.share_lod(Y, X);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use group_norm_grad::{DBIAS, DSCALE, DX, Y};
    let (y, dtype) = (cx.dims(Y)?, cx.dtype(Y)?);
    let a = cx.attrs::<GroupNormAttrs>();
    check(cx.op.name, a, &y)?;
    let (_, channels, _) = split_images(&y, a.last());
    cx.set(DX, &y, dtype);
    cx.set(DBIAS, &[channels], dtype);
    cx.set(DSCALE, &[channels], dtype);
    Ok(())
}

pub static GROUP_NORM: Op = Op {
    name: "group_norm",
    inputs: group_norm::INS,
    outputs: group_norm::OUTS,
    attrs: GroupNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(group_norm::X)?;
        dispatch!(x.dtype(), T in [f32, f64], forward::<T>(cx, x), other => cx.unsupported(other))
    }),
    grad: Grad::By(&GROUP_NORM_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};
pub static GROUP_NORM_GRAD: Op = Op {
    name: "group_norm_grad",
    inputs: group_norm_grad::INS,
    outputs: group_norm_grad::OUTS,
    attrs: GroupNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| {
        let y = cx.input(group_norm_grad::Y)?;
        dispatch!(y.dtype(), T in [f32, f64], backward::<T>(cx, y), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&GROUP_NORM, &GROUP_NORM_GRAD];
