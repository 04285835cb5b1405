//! sync_batch_norm and inplace_abn. The first normalizes by the statistics of the whole batch, which is divided among
//! the processes; with one process it is batch_norm. The second is a batch norm with an activation that keeps only its
//! result: the gradient recomputes the normalized values.

use oar_comm::{group, run};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Attrs, Dst, Fwd, Grad, GradOp, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::norm::batch_norm::{self as kernel, BatchNormGrad, Channels};
use oar_kernels::norm::inplace_abn::{undo, Activation};
use oar_kernels::types::Float;
use oar_net::{CollectiveCall, Dtype, Group, ReduceOp, Region};
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{
    check_channel, check_epsilon, check_like, check_statistics, infer_channel, statistics_dtype,
};
use oar_ops_common::tensor_attr;
use oar_ops_common::window::{channels_last, split_images};
use std::sync::Arc;

attrs! {
    pub struct SyncAttrs {
        is_test: bool = false, momentum: f32 = 0.9, epsilon: f32 = 1e-5, data_layout: Text = "NCHW".into(),
        use_mkldnn: bool = false, fuse_with_relu: bool = false, use_global_stats: bool = false,
        trainable_statistics: bool = false,
    }
    pub struct AbnAttrs {
        is_test: bool = false, momentum: f32 = 0.9, epsilon: f32 = 1e-5, data_layout: Text = "NCHW".into(),
        use_mkldnn: bool = false, fuse_with_relu: bool = false, use_global_stats: bool = false,
        trainable_statistics: bool = false, activation: Text = "".into(), alpha: f32 = 0.1, use_sync_bn: bool = false,
    }
}

slots! {
    mod norm {
        X "X", SCALE "Scale", BIAS "Bias", MEAN "Mean", VARIANCE "Variance", MOMENTUM "MomentumTensor".dispensable()
        => Y "Y", MEAN_OUT "MeanOut".aliases("Mean"), VARIANCE_OUT "VarianceOut".aliases("Variance"),
        SAVED_MEAN "SavedMean".intermediate(), SAVED_VARIANCE "SavedVariance".intermediate(), RESERVE "ReserveSpace".dispensable().kernel_allocated()
    }
    /// `X` is the forward operator's input, or its result if only that was kept.
    mod norm_grad {
        X "X", DY "Y@GRAD", SCALE "Scale", BIAS "Bias", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance",
        MEAN "Mean".dispensable(), VARIANCE "Variance".dispensable() => DX "X@GRAD", DSCALE "Scale@GRAD", DBIAS "Bias@GRAD"
    }
    mod abn_grad {
        Y "Y", DY "Y@GRAD", SCALE "Scale", BIAS "Bias", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance",
        MEAN "Mean".dispensable(), VARIANCE "Variance".dispensable() => DX "X@GRAD", DSCALE "Scale@GRAD", DBIAS "Bias@GRAD"
    }
}

/// The common attributes of both operators.
struct Norm {
    /// Use the running statistics, not the batch's.
    global: bool,
    /// The batch is divided among all processes.
    shared: bool,
    momentum: f32,
    epsilon: f32,
    last: bool,
    activation: Activation,
}

fn norm_of(op: &str, attrs: &Attrs) -> Result<Norm> {
    macro_rules! view {
        ($a:expr, $shared:expr, $activation:expr) => {
            Norm {
                global: $a.use_global_stats || $a.is_test && !$a.trainable_statistics,
                shared: $shared,
                momentum: $a.momentum,
                epsilon: $a.epsilon,
                last: channels_last(&$a.data_layout),
                activation: $activation,
            }
        };
    }
    Ok(match attrs.as_any().downcast_ref::<SyncAttrs>() {
        Some(a) => view!(a, true, Activation::None),
        None => {
            let a = attrs.as_any().downcast_ref::<AbnAttrs>().expect("attributes of another operator");
            let activation = match &a.activation[..] {
                "" | "identity" => Activation::None,
                "leaky_relu" => Activation::Leaky(a.alpha as f64),
                "elu" => Activation::Elu(a.alpha as f64),
                other => bail!(
                    InvalidArgument,
                    "operator {op}: activation must be identity, leaky_relu or elu, got '{other}'"
                ),
            };
            view!(a, a.use_sync_bn, activation)
        }
    })
}

impl Norm {
    fn layout(&self, op: &str, x: &[i64]) -> Result<Channels> {
        check_rank(op, x)?;
        let (images, channels, axes) = split_images(x, self.last);
        let pixels = axes.iter().product::<i64>() as usize;
        Ok(Channels { images: images as usize, channels: channels as usize, pixels, last: self.last })
    }

    /// The group of all processes, if the batch is divided among them.
    fn world(&self, op: &str) -> Result<Option<Arc<Group>>> {
        match self.shared {
            true => Ok(Some(group(op, 0)?).filter(|g| g.world() > 1)),
            false => Ok(None),
        }
    }
}

fn check_rank(op: &str, x: &[i64]) -> Result<()> {
    ensure!((2..=5).contains(&x.len()), InvalidArgument, "operator {op}: X must have 2 to 5 dimensions, got {x:?}");
    Ok(())
}

/// Sums numbers over all processes.
fn add_up(world: &Option<Arc<Group>>, numbers: &mut [f64]) -> Result<()> {
    let Some(group) = world else { return Ok(()) };
    let bytes = std::mem::size_of_val(numbers);
    // SAFETY: `numbers` is exclusively borrowed, and `run` returns when the operation has ended.
    let region = unsafe { Region::raw(numbers.as_mut_ptr().cast(), bytes, None) };
    run(group, CollectiveCall::all_reduce(region, Dtype::F64, ReduceOp::Sum)).map(drop)
}

/// Number of elements per channel, mean and variance of the whole batch. The variance is summed around the common mean,
/// which avoids cancellation.
fn statistics<T: Element + Float>(world: &Option<Arc<Group>>, d: &Channels, x: &[T]) -> Result<(f64, Vec<T>, Vec<T>)> {
    let c = d.channels;
    let (mut mean, mut var) = (vec![T::ZERO; c], vec![T::ZERO; c]);
    let mine = d.count() as f64;
    if d.count() > 0 {
        kernel::batch_stats(d, x, &mut mean, &mut var);
    }
    if world.is_none() {
        return Ok((mine, mean, var));
    }
    let mut sums: Vec<f64> = mean.iter().map(|&m| T::to_f64(m) * mine).chain([mine]).collect();
    add_up(world, &mut sums)?;
    let count = sums[c];
    let means: Vec<f64> = sums[..c].iter().map(|s| s / count.max(1.0)).collect();
    let around = |(k, &m): (usize, &f64)| mine * (T::to_f64(var[k]) + (T::to_f64(mean[k]) - m).powi(2));
    let mut squares: Vec<f64> = means.iter().enumerate().map(around).collect();
    add_up(world, &mut squares)?;
    let of = |v: f64| T::from_f64(v);
    let var = squares.iter().map(|s| of(s / count.max(1.0))).collect();
    Ok((count, means.into_iter().map(of).collect(), var))
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(norm::X)?;
    dispatch!(x.dtype(), T in [f32, f64], forward_in::<T>(cx, x), other => cx.unsupported(other))
}

fn forward_in<T: Element + Float>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use norm::{BIAS, MEAN_OUT, MOMENTUM, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE_OUT, Y};
    let a = norm_of(cx.op.name, cx.attrs)?;
    let (scale, bias) = (cx.input(SCALE)?, cx.input(BIAS)?);
    let d = a.layout(cx.op.name, x.dims())?;
    let of = |v: f64| T::from_f64(v);
    let (mut mean, mut inv, mut unchanged) = (vec![T::ZERO; d.channels], vec![T::ZERO; d.channels], false);
    if a.global {
        mean.copy_from_slice(cx.out(MEAN_OUT)?.data::<T>());
        inv = kernel::inverse_deviation(cx.out(VARIANCE_OUT)?.data::<T>(), a.epsilon as f64);
    } else {
        let (count, batch_mean, var) = statistics(&a.world(cx.op.name)?, &d, x.data::<T>())?;
        // With one element per channel there is no deviation: the input is returned unchanged.
        unchanged = count <= 1.0;
        if !unchanged {
            mean = batch_mean;
            let momentum = match cx.has(MOMENTUM) {
                true => tensor_attr::scalar(cx, MOMENTUM)?,
                false => a.momentum as f64,
            };
            let (old, new) = (of(momentum), of(1.0 - momentum));
            for (slot, batch) in [(MEAN_OUT, &mean), (VARIANCE_OUT, &var)] {
                kernel::mix_running(cx.out_data::<T>(slot)?, batch, old, new);
            }
            inv = kernel::inverse_deviation(&var, a.epsilon as f64);
        }
    }
    for (slot, values) in [(SAVED_MEAN, &mean), (SAVED_VARIANCE, &inv)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(values);
        }
    }
    let y = cx.out_data::<T>(Y)?;
    if unchanged {
        y.copy_from_slice(x.data::<T>());
    } else if !d.is_empty() {
        kernel::batch_norm(&d, x.data::<T>(), &mean, &inv, scale.data::<T>(), bias.data::<T>(), y);
    }
    a.activation.apply(y);
    Ok(())
}

/// Mean and inverse deviation by which the forward operator normalized.
fn used<T: Element + Float>(cx: &KernelContext, a: &Norm, c: usize) -> Result<(Vec<T>, Vec<T>)> {
    use norm_grad::{MEAN, SAVED_MEAN, SAVED_VARIANCE, VARIANCE};
    let slots = if a.global { [MEAN, VARIANCE] } else { [SAVED_MEAN, SAVED_VARIANCE] };
    check_channel(cx, &slots, c, T::DTYPE)?;
    let of = |slot: InSlot| Ok::<_, oar_core::base::Error>(cx.input(slot)?.data::<T>().to_vec());
    let (mean, inv) = (of(slots[0])?, of(slots[1])?);
    Ok((mean, if a.global { kernel::inverse_deviation(&inv, a.epsilon as f64) } else { inv }))
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(norm_grad::X)?;
    dispatch!(x.dtype(), T in [f32, f64], backward_in::<T>(cx, x), other => cx.unsupported(other))
}

fn backward_in<T: Element + Float>(cx: &mut KernelContext, x: &Tensor) -> Result<()> {
    use norm_grad::{BIAS, DBIAS, DSCALE, DX, DY, SCALE};
    let a = norm_of(cx.op.name, cx.attrs)?;
    let (dy, scale, bias) = (cx.input(DY)?, cx.input(SCALE)?, cx.input(BIAS)?);
    let d = a.layout(cx.op.name, x.dims())?;
    check_like(cx, x, &[DY])?;
    check_channel(cx, &[SCALE, BIAS], d.channels, T::DTYPE)?;
    let (mean, inv) = used::<T>(cx, &a, d.channels)?;
    let kept = cx.op.inputs[norm_grad::X.0].name == "Y";
    let (scale, bias) = (scale.data::<T>(), bias.data::<T>());
    let (back, before);
    let (x, dy) = match kept {
        false => (x.data::<T>(), dy.data::<T>()),
        true => {
            (back, before) = undo(a.activation, &d, (x.data::<T>(), dy.data::<T>()), (&mean, &inv), (scale, bias));
            (&back[..], &before[..])
        }
    };
    let (mut dscale, mut dbias) = (vec![T::ZERO; d.channels], vec![T::ZERO; d.channels]);
    let out = BatchNormGrad { dx: None, dscale: Some(&mut dscale[..]), dbias: Some(&mut dbias[..]) };
    kernel::batch_norm_grad(&d, x, dy, &mean, &inv, scale, a.global, out);
    let mut sums: Vec<f64> = dbias.iter().chain(&dscale).map(|&v| T::to_f64(v)).chain([d.count() as f64]).collect();
    if !a.global {
        add_up(&a.world(cx.op.name)?, &mut sums)?;
    }
    let count = sums[2 * d.channels];
    let unchanged = count <= 1.0 && !a.global;
    let [dx, ds, db] = cx.each_out([DX, DSCALE, DBIAS]);
    for (t, values) in [(ds, &dscale), (db, &dbias)] {
        let Some(t) = t else { continue };
        match unchanged {
            true => t.data_mut::<T>()?.fill(T::ZERO),
            false => t.data_mut::<T>()?.copy_from_slice(values),
        }
    }
    let Some(dx) = dx else { return Ok(()) };
    let dx = dx.data_mut::<T>()?;
    if unchanged {
        dx.copy_from_slice(dy);
    } else if a.global {
        let out = BatchNormGrad { dx: Some(dx), dscale: None, dbias: None };
        kernel::batch_norm_grad(&d, x, dy, &mean, &inv, scale, true, out);
    } else if !d.is_empty() {
        let of = |v: &f64| T::from_f64(*v);
        let whole: Vec<T> = sums[..2 * d.channels].iter().map(of).collect();
        let (sum, product) = whole.split_at(d.channels);
        kernel::batch_norm_dx(&d, x, dy, &mean, &inv, scale, (sum, product, count), dx);
    }
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    use norm::{BIAS, MEAN, MEAN_OUT, RESERVE, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE, VARIANCE_OUT, X, Y};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    let a = norm_of(cx.op.name, cx.attrs)?;
    check_epsilon(cx.op.name, a.epsilon)?;
    check_rank(cx.op.name, &x)?;
    let c = split_images(&x, a.last).1;
    infer_channel(cx, &[SCALE, BIAS, MEAN, VARIANCE], c)?;
    cx.set(Y, &x, dtype);
    cx.set_each(&[MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_VARIANCE], &[c], statistics_dtype(dtype));
    cx.set(RESERVE, &[-1], dtype); // cuDNN's; never allocated here
    cx.share_lod(Y, X);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use norm_grad::{DBIAS, DSCALE, DX, X};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    check_rank(cx.op.name, &x)?;
    let c = split_images(&x, norm_of(cx.op.name, cx.attrs)?.last).1;
    cx.set(DX, &x, dtype);
    cx.set(DSCALE, &[c], statistics_dtype(dtype));
    cx.set(DBIAS, &[c], statistics_dtype(dtype));
    cx.share_lod(DX, X);
    Ok(())
}

/// The running statistics are inputs only if the forward operator normalized by them.
fn wire(f: &Fwd) -> Result<Vec<GradOp>> {
    use norm::{BIAS, MEAN_OUT, SAVED_MEAN, SAVED_VARIANCE, SCALE, VARIANCE_OUT, X, Y};
    let global = norm_of(f.op.name, f.attrs)?.global;
    let running = |out: OutSlot| if global { vec![Src::Out(out.0, None)] } else { vec![] };
    let sync = f.op.name == SYNC_BATCH_NORM.name;
    Ok(vec![GradOp {
        op: if sync { &SYNC_BATCH_NORM_GRAD } else { &INPLACE_ABN_GRAD },
        attrs: f.attrs.clone(),
        ins: vec![
            vec![if sync { Src::In(X.0, None) } else { Src::Out(Y.0, None) }],
            vec![Src::GradOut(Y.0, None)],
            vec![Src::In(SCALE.0, None)],
            vec![Src::In(BIAS.0, None)],
            vec![Src::Out(SAVED_MEAN.0, None)],
            vec![Src::Out(SAVED_VARIANCE.0, None)],
            running(MEAN_OUT),
            running(VARIANCE_OUT),
        ],
        outs: [X, SCALE, BIAS].map(|slot| vec![Dst(slot.0, None)]).into(),
    }])
}

fn checked(cx: &mut KernelContext) -> Result<()> {
    use norm::{BIAS, MEAN_OUT, SCALE, VARIANCE_OUT, X};
    let dtype = cx.input(X)?.dtype();
    check_statistics(cx, dtype, &[SCALE, BIAS], &[MEAN_OUT, VARIANCE_OUT])?;
    in_f32(cx, X, forward)
}

macro_rules! norms {
    ($($op:ident $name:literal $attrs:ident, $grad:ident $grad_name:literal $slots:ident;)*) => {
        $(pub static $op: Op = Op {
            name: $name,
            inputs: norm::INS,
            outputs: norm::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: DTypes::FLOATS.union(DTypes::HALVES),
            infer,
            cpu: Kernel::Host(checked),
            grad: Grad::Fn(wire),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: $slots::INS,
            outputs: $slots::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: DTypes::FLOATS.union(DTypes::HALVES),
            infer: infer_grad,
            cpu: Kernel::Host(|cx| in_f32(cx, norm_grad::X, backward)),
            ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$op, &$grad),*];
    };
}
norms! {
    SYNC_BATCH_NORM "sync_batch_norm" SyncAttrs, SYNC_BATCH_NORM_GRAD "sync_batch_norm_grad" norm_grad;
    INPLACE_ABN "inplace_abn" AbnAttrs, INPLACE_ABN_GRAD "inplace_abn_grad" abn_grad;
}
