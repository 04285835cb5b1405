//! instance_norm, its gradient and second gradient: each channel of each image is normalized separately, as a
//! batch_norm of one image with all channels of the batch.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::batch_norm::{self as kernel, BatchNormGrad, BatchNormSeeds, Channels};
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{check_channel, check_epsilon, check_like, check_statistics, statistics_dtype, SECOND_GRAD};

attrs! {
    pub struct InstanceNormAttrs { epsilon: f32 = 1e-5 }
}

slots! {
    mod norm {
        X "X", SCALE "Scale".dispensable(), BIAS "Bias".dispensable()
        => Y "Y", MEAN "SavedMean".intermediate(), INVERSE "SavedVariance".intermediate()
    }
    mod norm_grad {
        X "X", DY "Y@GRAD", SCALE "Scale".dispensable(), MEAN "SavedMean", INVERSE "SavedVariance"
        => DX "X@GRAD", DSCALE "Scale@GRAD", DBIAS "Bias@GRAD"
    }
    mod norm_grad_grad {
        X "X", SCALE "Scale".dispensable(), MEAN "SavedMean", INVERSE "SavedVariance", DDX "DDX".dispensable(),
        DDSCALE "DDScale".dispensable(), DDBIAS "DDBias".dispensable(), DY "DY" => DX "DX", DSCALE "DScale", DDY "DDY"
    }
}

/// The channels of all images as those of one image, and the channels per image.
fn layout(op: &str, x: &[i64]) -> Result<(Channels, usize)> {
    check_rank(op, x)?;
    let [images, channels] = [x[0] as usize, x[1] as usize];
    let pixels = x[2..].iter().product::<i64>() as usize;
    Ok((Channels { images: 1, channels: images * channels, pixels, last: false }, channels))
}

fn check_rank(op: &str, x: &[i64]) -> Result<()> {
    ensure!((2..=5).contains(&x.len()), InvalidArgument, "operator {op}: X must have 2 to 5 dimensions, got {x:?}");
    Ok(())
}

/// Repeats one value per channel for all images.
fn for_each_image<T: Element>(t: Option<&Tensor>, all: usize, absent: T) -> Vec<T> {
    match t {
        Some(t) => t.data::<T>().iter().copied().cycle().take(all).collect(),
        None => vec![absent; all],
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    use norm::{BIAS, INVERSE, MEAN, SCALE, X, Y};
    let x = cx.input(X)?;
    let (d, channels) = layout(cx.op.name, x.dims())?;
    check_channel(cx, &[SCALE, BIAS], channels, statistics_dtype(x.dtype()))?;
    let epsilon = cx.attrs::<InstanceNormAttrs>().epsilon as f64;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut mean, mut var) = (vec![0.0; d.channels], vec![0.0; d.channels]);
        let scale = for_each_image::<T>(cx.opt(SCALE), d.channels, 1.0);
        let bias = for_each_image::<T>(cx.opt(BIAS), d.channels, 0.0);
        let (values, y) = (x.data::<T>(), cx.out_data::<T>(Y)?);
        let inverse = kernel::batch_norm_train(&d, values, &scale, &bias, epsilon, &mut mean, &mut var, y);
        for (slot, values) in [(MEAN, &mean), (INVERSE, &inverse)] {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.copy_from_slice(values);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

/// The statistics that the forward operator saved: one value per channel and image.
fn saved<'a>(cx: &KernelContext<'a>, slots: [InSlot; 2], d: &Channels, x: &Tensor) -> Result<[&'a Tensor; 2]> {
    check_channel(cx, &slots, d.channels, x.dtype())?;
    Ok([cx.input(slots[0])?, cx.input(slots[1])?])
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use norm_grad::{DBIAS, DSCALE, DX, DY, INVERSE, MEAN, SCALE, X};
    let (x, dy) = (cx.input(X)?, cx.input(DY)?);
    let (d, channels) = layout(cx.op.name, x.dims())?;
    check_like(cx, x, &[DY])?;
    check_channel(cx, &[SCALE], channels, x.dtype())?;
    let [mean, inverse] = saved(cx, [MEAN, INVERSE], &d, x)?;
    let given = cx.opt(SCALE);
    let [dx, dscale, dbias] = cx.each_out([DX, DSCALE, DBIAS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let scale = for_each_image::<T>(given, d.channels, 1.0);
        let (mut scales, mut biases) = (vec![0.0; d.channels], vec![0.0; d.channels]);
        let out = BatchNormGrad {
            dx: dx.map(|t| t.data_mut::<T>()).transpose()?,
            dscale: dscale.is_some().then_some(&mut scales[..]),
            dbias: dbias.is_some().then_some(&mut biases[..]),
        };
        let (x, dy, mean, inverse) = (x.data::<T>(), dy.data::<T>(), mean.data::<T>(), inverse.data::<T>());
        kernel::batch_norm_grad(&d, x, dy, mean, inverse, &scale, false, out);
        for (t, all) in [(dscale, &scales), (dbias, &biases)] {
            if let Some(t) = t {
                kernel::over_images(all, t.data_mut::<T>()?);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn second(cx: &mut KernelContext) -> Result<()> {
    use norm_grad_grad::{DDBIAS, DDSCALE, DDX, DDY, DSCALE, DX, DY, INVERSE, MEAN, SCALE, X};
    let (x, dy) = (cx.input(X)?, cx.input(DY)?);
    let (d, channels) = layout(cx.op.name, x.dims())?;
    check_like(cx, x, &[DY, DDX])?;
    check_channel(cx, &[SCALE, DDSCALE, DDBIAS], channels, x.dtype())?;
    let [mean, inverse] = saved(cx, [MEAN, INVERSE], &d, x)?;
    let (given, ddx, seeds) = (cx.opt(SCALE), cx.opt(DDX), [cx.opt(DDSCALE), cx.opt(DDBIAS)]);
    let [dx, dscale, ddy] = cx.each_out([DX, DSCALE, DDY]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let scale = for_each_image::<T>(given, d.channels, 1.0);
        // An absent incoming gradient is zero.
        let ddx = ddx.map_or_else(|| vec![0.0; d.len()], |t| t.data::<T>().to_vec());
        let [ddscale, ddbias] = seeds.map(|t| for_each_image::<T>(t, d.channels, 0.0));
        let mut scales = vec![0.0; d.channels];
        kernel::batch_norm_double_grad(
            &d, x.data::<T>(), dy.data::<T>(), mean.data::<T>(), inverse.data::<T>(), &scale, false,
            BatchNormSeeds { ddx: &ddx, ddscale: &ddscale, ddbias: &ddbias },
            dx.map(|t| t.data_mut::<T>()).transpose()?,
            dscale.is_some().then_some(&mut scales[..]),
            ddy.map(|t| t.data_mut::<T>()).transpose()?,
        );
        if let Some(t) = dscale {
            kernel::over_images(&scales, t.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    use norm::{BIAS, INVERSE, MEAN, SCALE, X, Y};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    check_epsilon(cx.op.name, cx.attrs::<InstanceNormAttrs>().epsilon)?;
    check_rank(cx.op.name, &x)?;
    for slot in [SCALE, BIAS] {
        if !cx.has(slot) {
            continue;
        }
        let d = cx.dims(slot)?;
        ensure!(
            d.len() == 1 && (d[0] == x[1] || d[0] < 0 || x[1] < 0),
            InvalidArgument,
            "operator {}: {} must have shape [{}], got {:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            x[1],
            &d[..]
        );
    }
    let all = if x[0] < 0 || x[1] < 0 { -1 } else { x[0].saturating_mul(x[1]) };
    cx.set(Y, &x, dtype);
    cx.set(MEAN, &[all], statistics_dtype(dtype));
    cx.set(INVERSE, &[all], statistics_dtype(dtype));
    cx.share_lod(Y, X);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use norm_grad::{DBIAS, DSCALE, DX, X};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    check_rank(cx.op.name, &x)?;
    cx.set(DX, &x, dtype);
    cx.set(DSCALE, &[x[1]], statistics_dtype(dtype));
    cx.set(DBIAS, &[x[1]], statistics_dtype(dtype));
    cx.share_lod(DX, X);
    Ok(())
}

fn infer_second(cx: &mut ShapeContext) -> Result<()> {
    use norm_grad_grad::{DDY, DSCALE, DX, X};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    check_rank(cx.op.name, &x)?;
    cx.set(DX, &x, dtype);
    cx.set(DSCALE, &[x[1]], statistics_dtype(dtype));
    cx.set(DDY, &x, dtype);
    Ok(())
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static INSTANCE_NORM: Op = Op {
    name: "instance_norm",
    inputs: norm::INS,
    outputs: norm::OUTS,
    attrs: InstanceNormAttrs::FIELDS,
    dtypes: TYPES,
    infer,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(norm::X)?.dtype();
        check_statistics(cx, dtype, &[norm::SCALE, norm::BIAS], &[])?;
        in_f32(cx, norm::X, forward)
    }),
    grad: Grad::By(&INSTANCE_NORM_GRAD),
    ..OP
};

pub static INSTANCE_NORM_GRAD: Op = Op {
    name: "instance_norm_grad",
    inputs: norm_grad::INS,
    outputs: norm_grad::OUTS,
    attrs: InstanceNormAttrs::FIELDS,
    dtypes: TYPES,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, norm_grad::X, backward)),
    grad: Grad::Map(&INSTANCE_NORM_GRAD_GRAD, SECOND_GRAD),
    ..OP
};

pub static INSTANCE_NORM_GRAD_GRAD: Op = Op {
    name: "instance_norm_grad_grad",
    inputs: norm_grad_grad::INS,
    outputs: norm_grad_grad::OUTS,
    attrs: InstanceNormAttrs::FIELDS,
    dtypes: TYPES,
    infer: infer_second,
    cpu: Kernel::Pure(|cx| in_f32(cx, norm_grad_grad::X, second)),
    ..OP
};

pub static TABLE: &[&Op] = &[&INSTANCE_NORM, &INSTANCE_NORM_GRAD, &INSTANCE_NORM_GRAD_GRAD];
