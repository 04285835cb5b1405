//! batch_norm, its gradient and second gradient.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Dst, Fwd, Grad, GradOp, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::batch_norm::{self as kernel, BatchNormGrad, BatchNormSeeds, Channels};
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{
    check_channel, check_epsilon, check_like, check_statistics, infer_channel, statistics_dtype, SECOND_GRAD,
};
use oar_ops_common::window::{channels_last, split_images};

attrs! {
    pub struct BatchNormAttrs {
        is_test: bool = false, momentum: f32 = 0.9, epsilon: f32 = 1e-5, data_layout: Text = "NCHW".into(),
        use_mkldnn: bool = false, fuse_with_relu: bool = false, use_global_stats: bool = false,
        trainable_statistics: bool = false,
    }
}

impl BatchNormAttrs {
    /// Whether the running statistics are used instead of the batch's.
    fn global(&self) -> bool {
        self.use_global_stats || self.is_test && !self.trainable_statistics
    }
    fn last(&self) -> bool {
        channels_last(&self.data_layout)
    }
    fn channels(&self, x: &[i64]) -> i64 {
        split_images(x, self.last()).1
    }
}

slots! {
    mod batch_norm {
        X "X", SCALE "Scale", BIAS "Bias", MEAN "Mean", VARIANCE "Variance", MOMENTUM "MomentumTensor".dispensable()
        => Y "Y", MEAN_OUT "MeanOut".aliases("Mean"), VARIANCE_OUT "VarianceOut".aliases("Variance"),
        SAVED_MEAN "SavedMean".intermediate(), SAVED_VARIANCE "SavedVariance".intermediate(), RESERVE "ReserveSpace".dispensable().kernel_allocated()
    }
    mod batch_norm_grad {
        X "X", DY "Y@GRAD", SCALE "Scale", BIAS "Bias", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance",
        RESERVE "ReserveSpace".dispensable(), MEAN "Mean".dispensable(), VARIANCE "Variance".dispensable()
        => DX "X@GRAD", DSCALE "Scale@GRAD", DBIAS "Bias@GRAD"
    }
    mod batch_norm_grad_grad {
        X "X", SCALE "Scale", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance", MEAN "Mean".dispensable(),
        VARIANCE "Variance".dispensable(), DDX "DDX".dispensable(), DDSCALE "DDScale".dispensable(), DDBIAS "DDBias".dispensable(), DY "DY"
        => DX "DX", DSCALE "DScale", DDY "DDY"
    }
}

fn check_rank(op: &str, x: &[i64]) -> Result<()> {
    ensure!(
        (2..=5).contains(&x.len()),
        InvalidArgument,
        "operator {op}: X must have 2 to 5 dimensions, got shape {x:?}"
    );
    Ok(())
}

fn infer_batch(cx: &mut ShapeContext) -> Result<()> {
    use batch_norm::{BIAS, MEAN, MEAN_OUT, RESERVE, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE, VARIANCE_OUT, X, Y};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    let a = cx.attrs::<BatchNormAttrs>();
    check_epsilon(cx.op.name, a.epsilon)?;
    check_rank(cx.op.name, &x)?;
    let c = a.channels(&x);
    infer_channel(cx, &[SCALE, BIAS, MEAN, VARIANCE], c)?;
    cx.set(Y, &x, dtype);
    for slot in [MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_VARIANCE] {
        cx.set(slot, &[c], statistics_dtype(dtype));
    }
    cx.set(RESERVE, &[-1], dtype); // workspace of cuDNN, never written
    cx.share_lod(Y, X);
    Ok(())
}

fn layout(a: &BatchNormAttrs, x: &[i64]) -> Channels {
    let (images, channels, axes) = split_images(x, a.last());
    Channels {
        images: images as usize,
        channels: channels as usize,
        pixels: axes.iter().product::<i64>() as usize,
        last: a.last(),
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(batch_norm::X)?;
    dispatch!(x.dtype(), T in [f32, f64], forward_in::<T>(cx, x), other => cx.unsupported(other))
}

fn forward_in<T: Element + oar_kernels::types::Float>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use batch_norm::{BIAS, MEAN_OUT, MOMENTUM, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE_OUT, Y};
    let a = cx.attrs::<BatchNormAttrs>();
    let (scale, bias) = (cx.input(SCALE)?, cx.input(BIAS)?);
    let d = layout(a, x.dims());
    let (mut mean, mut inv) = (vec![T::ZERO; d.channels], vec![T::ZERO; d.channels]);
    let (values, factors) = (x.data::<T>(), [scale.data::<T>(), bias.data::<T>()]);
    if a.global() {
        mean.copy_from_slice(cx.out(MEAN_OUT)?.data::<T>());
        inv = kernel::inverse_deviation(cx.out(VARIANCE_OUT)?.data::<T>(), a.epsilon as f64);
        kernel::batch_norm(&d, values, &mean, &inv, factors[0], factors[1], cx.out_data::<T>(Y)?);
    } else if d.count() > 1 {
        let mut var = vec![T::ZERO; d.channels];
        let (epsilon, y) = (a.epsilon as f64, cx.out_data::<T>(Y)?);
        inv = kernel::batch_norm_train(&d, values, factors[0], factors[1], epsilon, &mut mean, &mut var, y);
        let momentum = match cx.has(MOMENTUM) {
            true => oar_ops_common::tensor_attr::scalar(cx, MOMENTUM)?,
            false => a.momentum as f64,
        };
        let (old, new) = (T::from_f64(momentum), T::from_f64(1.0 - momentum));
        for (slot, batch) in [(MEAN_OUT, &mean), (VARIANCE_OUT, &var)] {
            kernel::mix_running(cx.out_data::<T>(slot)?, batch, old, new);
        }
    } else {
        // One element per channel has no deviation: X passes unchanged.
        cx.out_data::<T>(Y)?.copy_from_slice(values);
    }
    for (slot, values) in [(SAVED_MEAN, &mean), (SAVED_VARIANCE, &inv)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(values);
        }
    }
    Ok(())
}

/// Mean and inverse deviation, as the gradient uses them.
fn statistics<T: Element + oar_kernels::types::Float>(
    cx: &KernelContext,
    a: &BatchNormAttrs,
    saved: [InSlot; 2],
    running: [InSlot; 2],
    c: usize,
) -> Result<(Vec<T>, Vec<T>)> {
    let of = |slot: InSlot| -> Result<Vec<T>> {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == T::DTYPE && t.numel() == c,
            InvalidArgument,
            "operator {}: {} must have shape [{c}] and data type {}, got {t:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            T::DTYPE
        );
        Ok(t.data::<T>().to_vec())
    };
    if a.global() {
        return Ok((of(running[0])?, kernel::inverse_deviation(&of(running[1])?, a.epsilon as f64)));
    }
    Ok((of(saved[0])?, of(saved[1])?))
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(batch_norm_grad::X)?;
    dispatch!(x.dtype(), T in [f32, f64], backward_in::<T>(cx, x), other => cx.unsupported(other))
}

fn backward_in<T: Element + oar_kernels::types::Float>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use batch_norm_grad::{DBIAS, DSCALE, DX, DY, MEAN, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE};
    let a = cx.attrs::<BatchNormAttrs>();
    let (dy, scale) = (cx.input(DY)?, cx.input(SCALE)?);
    check_rank(cx.op.name, x.dims())?;
    let d = layout(a, x.dims());
    check_like(cx, x, &[DY])?;
    check_channel(cx, &[SCALE], d.channels, T::DTYPE)?;
    let (mean, inv) = statistics::<T>(cx, a, [SAVED_MEAN, SAVED_VARIANCE], [MEAN, VARIANCE], d.channels)?;
    let [dx, dscale, dbias] = cx.each_out([DX, DSCALE, DBIAS]);
    if d.count() <= 1 && !a.global() {
        // As in the forward operator X passed unchanged; scale and bias were not used.
        for t in [dscale, dbias].into_iter().flatten() {
            t.data_mut::<T>()?.fill(T::ZERO);
        }
        if let Some(dx) = dx {
            dx.data_mut::<T>()?.copy_from_slice(dy.data::<T>());
        }
        return Ok(());
    }
    let out = BatchNormGrad {
        dx: dx.map(|t| t.data_mut::<T>()).transpose()?,
        dscale: dscale.map(|t| t.data_mut::<T>()).transpose()?,
        dbias: dbias.map(|t| t.data_mut::<T>()).transpose()?,
    };
    kernel::batch_norm_grad(&d, x.data::<T>(), dy.data::<T>(), &mean, &inv, scale.data::<T>(), a.global(), out);
    Ok(())
}

fn infer_batch_grad(cx: &mut ShapeContext) -> Result<()> {
    use batch_norm_grad::{DBIAS, DSCALE, DX, X};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    check_rank(cx.op.name, &x)?;
    let c = cx.attrs::<BatchNormAttrs>().channels(&x);
    cx.set(DX, &x, dtype);
    cx.set(DSCALE, &[c], statistics_dtype(dtype));
    cx.set(DBIAS, &[c], statistics_dtype(dtype));
    cx.share_lod(DX, X);
    Ok(())
}

/// The gradient reads the running statistics only if the forward operator used them.
fn wire_batch_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    use batch_norm::{BIAS, MEAN_OUT, RESERVE, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE_OUT, X, Y};
    let global = f.attrs::<BatchNormAttrs>().global();
    let running = |out: OutSlot| if global { vec![Src::Out(out.0, None)] } else { vec![] };
    let reserve = if f.outs.get(RESERVE.0).is_some_and(|&n| n > 0) { vec![Src::Out(RESERVE.0, None)] } else { vec![] };
    Ok(vec![GradOp {
        op: &BATCH_NORM_GRAD,
        attrs: f.attrs.clone(),
        ins: vec![
            vec![Src::In(X.0, None)],
            vec![Src::GradOut(Y.0, None)],
            vec![Src::In(SCALE.0, None)],
            vec![Src::In(BIAS.0, None)],
            vec![Src::Out(SAVED_MEAN.0, None)],
            vec![Src::Out(SAVED_VARIANCE.0, None)],
            reserve,
            running(MEAN_OUT),
            running(VARIANCE_OUT),
        ],
        outs: [X, SCALE, BIAS].map(|slot| vec![Dst(slot.0, None)]).into(),
    }])
}

fn second(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(batch_norm_grad_grad::X)?;
    dispatch!(x.dtype(), T in [f32, f64], second_in::<T>(cx, x), other => cx.unsupported(other))
}

fn second_in<T: Element + oar_kernels::types::Float>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use batch_norm_grad_grad::{
        DDBIAS, DDSCALE, DDX, DDY, DSCALE, DX, DY, MEAN, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE,
    };
    let a = cx.attrs::<BatchNormAttrs>();
    let (scale, dy) = (cx.input(SCALE)?, cx.input(DY)?);
    check_rank(cx.op.name, x.dims())?;
    let d = layout(a, x.dims());
    check_like(cx, x, &[DDX, DY])?;
    check_channel(cx, &[SCALE, DDSCALE, DDBIAS], d.channels, T::DTYPE)?;
    let (mean, inv) = statistics::<T>(cx, a, [SAVED_MEAN, SAVED_VARIANCE], [MEAN, VARIANCE], d.channels)?;
    // An absent incoming gradient is zero.
    let seed = |slot: InSlot, n: usize| cx.opt(slot).map_or_else(|| vec![T::ZERO; n], |t| t.data::<T>().to_vec());
    let (ddx, ddscale, ddbias) = (seed(DDX, d.len()), seed(DDSCALE, d.channels), seed(DDBIAS, d.channels));
    let [dx, dscale, ddy] = cx.each_out([DX, DSCALE, DDY]);
    let dx = dx.map(|t| t.data_mut::<T>()).transpose()?;
    let dscale = dscale.map(|t| t.data_mut::<T>()).transpose()?;
    let ddy = ddy.map(|t| t.data_mut::<T>()).transpose()?;
    if d.count() <= 1 && !a.global() {
        // As in the forward operator X passed unchanged.
        for zero in [dx, dscale].into_iter().flatten() {
            zero.fill(T::ZERO);
        }
        if let Some(ddy) = ddy {
            ddy.copy_from_slice(&ddx);
        }
        return Ok(());
    }
    let seeds = BatchNormSeeds { ddx: &ddx, ddscale: &ddscale, ddbias: &ddbias };
    let (x, dy, scale) = (x.data::<T>(), dy.data::<T>(), scale.data::<T>());
    kernel::batch_norm_double_grad(&d, x, dy, &mean, &inv, scale, a.global(), seeds, dx, dscale, ddy);
    Ok(())
}

pub static BATCH_NORM: Op = Op {
    name: "batch_norm",
    inputs: batch_norm::INS,
    outputs: batch_norm::OUTS,
    attrs: BatchNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: infer_batch,
    cpu: Kernel::Pure(|cx| {
        use batch_norm::{BIAS, MEAN_OUT, SCALE, VARIANCE_OUT, X};
        let dtype = cx.input(X)?.dtype();
        check_statistics(cx, dtype, &[SCALE, BIAS], &[MEAN_OUT, VARIANCE_OUT])?;
        in_f32(cx, X, forward)
    }),
    grad: Grad::Fn(wire_batch_grad),
    ..OP
};

pub static BATCH_NORM_GRAD: Op = Op {
    name: "batch_norm_grad",
    inputs: batch_norm_grad::INS,
    outputs: batch_norm_grad::OUTS,
    attrs: BatchNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: infer_batch_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, batch_norm_grad::X, backward)),
    grad: Grad::Map(&BATCH_NORM_GRAD_GRAD, SECOND_GRAD),
    ..OP
};

pub static BATCH_NORM_GRAD_GRAD: Op = Op {
    name: "batch_norm_grad_grad",
    inputs: batch_norm_grad_grad::INS,
    outputs: batch_norm_grad_grad::OUTS,
    attrs: BatchNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        use batch_norm_grad_grad::{DDY, DSCALE, DX, SCALE, X};
        cx.like(DX, X)?;
        cx.like(DSCALE, SCALE)?;
        cx.like(DDY, X)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, batch_norm_grad_grad::X, second)),
    ..OP
};

pub static TABLE: &[&Op] = &[&BATCH_NORM, &BATCH_NORM_GRAD, &BATCH_NORM_GRAD_GRAD];
