//! batch_norm and its two gradients.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::norm::{check_channel, check_epsilon, check_like, of_statistics};
use oar_core::op::{slot, Dst, Fwd, Grad, GradOp, Infer, Kernel, Op, Run, Src, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::norm::{self as kernel, BatchNormGrad, BatchNormSeeds, Channels};

attrs! {
    pub struct BatchNormAttrs {
        is_test: bool = false, momentum: f32 = 0.9, epsilon: f32 = 1e-5, data_layout: Text = "NCHW".into(),
        use_mkldnn: bool = false, fuse_with_relu: bool = false, use_global_stats: bool = false,
        trainable_statistics: bool = false,
    }
}

impl BatchNormAttrs {
    /// Are the statistics the running ones, not the batch's?
    fn global(&self) -> bool {
        self.use_global_stats || self.is_test && !self.trainable_statistics
    }
    fn last(&self) -> bool {
        matches!(&self.data_layout[..], "NHWC" | "NDHWC" | "NLC")
    }
    fn channels(&self, x: &[i64]) -> i64 {
        x[if self.last() { x.len() - 1 } else { 1 }]
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

fn infer_batch(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let a = cx.attrs::<BatchNormAttrs>();
    check_epsilon(cx.op.name, a.epsilon)?;
    check_rank(cx.op.name, &x)?;
    let c = a.channels(&x);
    for slot in 1..5 {
        let d = cx.dims(slot)?;
        let fits = d.len() == 1 && (d[0] == c || !cx.is_run() && (d[0] < 0 || c < 0));
        ensure!(
            fits && (!cx.is_run() || cx.dtype(slot)? == of_statistics(dtype)),
            InvalidArgument,
            "operator {}: {} must have shape [{c}] and data type {}, got {:?} and {}",
            cx.op.name,
            cx.op.inputs[slot].name,
            of_statistics(dtype),
            &d[..],
            cx.dtype(slot)?
        );
    }
    cx.set(0, &x, dtype);
    for slot in 1..5 {
        cx.set(slot, &[c], of_statistics(dtype));
    }
    if !cx.is_run() {
        cx.set(5, &[-1], dtype);
    }
    cx.share_lod(0, 0);
    Ok(())
}

fn layout(a: &BatchNormAttrs, x: &[i64]) -> Channels {
    let spatial = if a.last() { &x[1..x.len() - 1] } else { &x[2..] };
    Channels {
        images: x[0] as usize,
        channels: a.channels(x) as usize,
        pixels: spatial.iter().product::<i64>() as usize,
        last: a.last(),
    }
}

fn batch_norm(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    dispatch!(x.dtype(), T in [f32, f64], batch_norm_in::<T>(cx, x), other => cx.unsupported(other))
}

fn batch_norm_in<T: Element + oar_kernels::gemm_simd::Real>(cx: &mut Run, x: &Tensor) -> Result<()> {
    let a = cx.attrs::<BatchNormAttrs>();
    let (scale, bias) = (cx.input(1)?, cx.input(2)?);
    let d = layout(a, x.dims());
    let (mut mean, mut inv) = (vec![T::ZERO; d.channels], vec![T::ZERO; d.channels]);
    if a.global() {
        mean.copy_from_slice(cx.out(1)?.data::<T>());
        inv = kernel::inverse_deviation(cx.out(2)?.data::<T>(), a.epsilon as f64);
    } else if d.count() > 1 {
        let mut var = vec![T::ZERO; d.channels];
        kernel::batch_stats(&d, x.data::<T>(), &mut mean, &mut var);
        let momentum = match cx.has(5) {
            true => oar_core::op::parts::given::scalar(cx, 5)?,
            false => a.momentum as f64,
        };
        let (old, new) = (T::from_f64(momentum), T::from_f64(1.0 - momentum));
        for (slot, batch) in [(1, &mean), (2, &var)] {
            for (r, &b) in cx.out_data::<T>(slot)?.iter_mut().zip(batch) {
                *r = *r * old + b * new;
            }
        }
        inv = kernel::inverse_deviation(&var, a.epsilon as f64);
    }
    for (slot, values) in [(3, &mean), (4, &inv)] {
        if cx.wants(slot) {
            cx.out_data::<T>(slot)?.copy_from_slice(values);
        }
    }
    if d.is_empty() {
        return Ok(());
    }
    if d.count() == 1 && !a.global() {
        // One element a channel has no deviation: it passes unchanged.
        let same = x.clone();
        cx.set(0, same);
        return Ok(());
    }
    kernel::batch_norm(&d, x.data::<T>(), &mean, &inv, scale.data::<T>(), bias.data::<T>(), cx.out_data::<T>(0)?);
    Ok(())
}

/// The statistics that a gradient uses: mean and inverse deviation.
fn statistics<T: Element + oar_kernels::gemm_simd::Real>(
    cx: &Run,
    a: &BatchNormAttrs,
    saved: [usize; 2],
    running: [usize; 2],
    c: usize,
) -> Result<(Vec<T>, Vec<T>)> {
    let of = |slot: usize| -> Result<Vec<T>> {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == T::DTYPE && t.numel() == c,
            InvalidArgument,
            "operator {}: {} must have shape [{c}] and data type {}, got {t:?}",
            cx.op.name,
            cx.op.inputs[slot].name,
            T::DTYPE
        );
        Ok(t.data::<T>().to_vec())
    };
    if a.global() {
        return Ok((of(running[0])?, kernel::inverse_deviation(&of(running[1])?, a.epsilon as f64)));
    }
    Ok((of(saved[0])?, of(saved[1])?))
}

fn batch_norm_grad(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    dispatch!(x.dtype(), T in [f32, f64], batch_norm_grad_in::<T>(cx, x), other => cx.unsupported(other))
}

fn batch_norm_grad_in<T: Element + oar_kernels::gemm_simd::Real>(cx: &mut Run, x: &Tensor) -> Result<()> {
    let a = cx.attrs::<BatchNormAttrs>();
    let (dy, scale) = (cx.input(1)?, cx.input(2)?);
    check_rank(cx.op.name, x.dims())?;
    let d = layout(a, x.dims());
    check_like(cx, x, &[1])?;
    check_channel(cx, &[2], d.channels, T::DTYPE)?;
    let (mean, inv) = statistics::<T>(cx, a, [4, 5], [7, 8], d.channels)?;
    if d.count() <= 1 && !a.global() {
        // As the forward operator: X passed unchanged, scale and bias were not used.
        for slot in 1..3 {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.fill(T::ZERO);
            }
        }
        let same = dy.clone();
        cx.set(0, same);
        return Ok(());
    }
    let wants = [cx.wants(0), cx.wants(1), cx.wants(2)];
    let mut made: Vec<Tensor> = Vec::with_capacity(3);
    for (slot, wanted) in wants.into_iter().enumerate() {
        made.push(if wanted { cx.take_out(slot)? } else { Tensor::empty(T::DTYPE, &[0])? });
    }
    if let [dx, dscale, dbias] = &mut made[..] {
        let out = BatchNormGrad {
            dx: wants[0].then(|| dx.data_mut::<T>()).transpose()?,
            dscale: wants[1].then(|| dscale.data_mut::<T>()).transpose()?,
            dbias: wants[2].then(|| dbias.data_mut::<T>()).transpose()?,
        };
        kernel::batch_norm_grad(&d, x.data::<T>(), dy.data::<T>(), &mean, &inv, scale.data::<T>(), a.global(), out);
    }
    for (slot, t) in made.into_iter().enumerate() {
        if wants[slot] {
            cx.set(slot, t);
        }
    }
    Ok(())
}

fn infer_batch_grad(cx: &mut Infer) -> Result<()> {
    cx.like(0, 0)?;
    let x = cx.dims(0)?;
    check_rank(cx.op.name, &x)?;
    let c = cx.attrs::<BatchNormAttrs>().channels(&x);
    let dtype = of_statistics(cx.dtype(0)?);
    cx.set(1, &[c], dtype);
    cx.set(2, &[c], dtype);
    cx.share_lod(0, 0);
    Ok(())
}

/// The running statistics are read only where the forward operator normalised by them.
fn wire_batch_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let global = f.attrs::<BatchNormAttrs>().global();
    let running = |i: usize| if global { vec![Src::Out(i, None)] } else { vec![] };
    let reserve = if f.outs.get(5).is_some_and(|&n| n > 0) { vec![Src::Out(5, None)] } else { vec![] };
    Ok(vec![GradOp {
        op: &BATCH_NORM_GRAD,
        attrs: f.attrs.clone(),
        ins: vec![
            vec![Src::In(0, None)],
            vec![Src::GradOut(0, None)],
            vec![Src::In(1, None)],
            vec![Src::In(2, None)],
            vec![Src::Out(3, None)],
            vec![Src::Out(4, None)],
            reserve,
            running(1),
            running(2),
        ],
        outs: vec![vec![Dst(0, None)], vec![Dst(1, None)], vec![Dst(2, None)]],
    }])
}

fn batch_norm_grad_grad(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    dispatch!(x.dtype(), T in [f32, f64], second_in::<T>(cx, x), other => cx.unsupported(other))
}

fn second_in<T: Element + oar_kernels::gemm_simd::Real>(cx: &mut Run, x: &Tensor) -> Result<()> {
    let a = cx.attrs::<BatchNormAttrs>();
    let (scale, dy) = (cx.input(1)?, cx.input(9)?);
    check_rank(cx.op.name, x.dims())?;
    let d = layout(a, x.dims());
    check_like(cx, x, &[6, 9])?;
    check_channel(cx, &[1, 7, 8], d.channels, T::DTYPE)?;
    let (mean, inv) = statistics::<T>(cx, a, [2, 3], [4, 5], d.channels)?;
    let zeros = |n: usize| vec![T::ZERO; n];
    let seed = |slot: usize, n: usize| cx.opt(slot).map_or_else(|| zeros(n), |t| t.data::<T>().to_vec());
    let (ddx, ddscale, ddbias) = (seed(6, d.len()), seed(7, d.channels), seed(8, d.channels));
    let mut dx = Tensor::zeros(T::DTYPE, x.dims())?;
    let mut dscale = Tensor::zeros(T::DTYPE, scale.dims())?;
    let mut ddy = Tensor::zeros(T::DTYPE, x.dims())?;
    if d.count() <= 1 && !a.global() {
        ddy.data_mut::<T>()?.copy_from_slice(&ddx);
    } else {
        let seeds = BatchNormSeeds { ddx: &ddx, ddscale: &ddscale, ddbias: &ddbias };
        kernel::batch_norm_double_grad(
            &d,
            x.data::<T>(),
            dy.data::<T>(),
            &mean,
            &inv,
            scale.data::<T>(),
            a.global(),
            seeds,
            Some(dx.data_mut::<T>()?),
            Some(dscale.data_mut::<T>()?),
            Some(ddy.data_mut::<T>()?),
        );
    }
    cx.set(0, dx);
    cx.set(1, dscale);
    cx.set(2, ddy);
    Ok(())
}

pub static BATCH_NORM: Op = Op {
    name: "batch_norm",
    inputs: &[slot("X"), slot("Scale"), slot("Bias"), slot("Mean"), slot("Variance"), slot("MomentumTensor").opt()],
    outputs: &[
        slot("Y"),
        slot("MeanOut").aliases("Mean"),
        slot("VarianceOut").aliases("Variance"),
        slot("SavedMean").mid(),
        slot("SavedVariance").mid(),
        slot("ReserveSpace").opt(),
    ],
    attrs: BatchNormAttrs::FIELDS,
    infer: infer_batch,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, batch_norm)),
    grad: Grad::Fn(wire_batch_grad),
    ..OP
};

pub static BATCH_NORM_GRAD: Op = Op {
    name: "batch_norm_grad",
    inputs: &[
        slot("X"),
        slot("Y@GRAD"),
        slot("Scale"),
        slot("Bias"),
        slot("SavedMean"),
        slot("SavedVariance"),
        slot("ReserveSpace").opt(),
        slot("Mean").opt(),
        slot("Variance").opt(),
    ],
    outputs: &[slot("X@GRAD"), slot("Scale@GRAD"), slot("Bias@GRAD")],
    attrs: BatchNormAttrs::FIELDS,
    infer: infer_batch_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, batch_norm_grad)),
    grad: Grad::Map(&BATCH_NORM_GRAD_GRAD, SECOND),
    ..OP
};

const SECOND: &[(&str, &str)] = &[
    ("DDX", "X@GRAD@GRAD"),
    ("DDScale", "Scale@GRAD@GRAD"),
    ("DDBias", "Bias@GRAD@GRAD"),
    ("DY", "Y@GRAD"),
    ("DX", "X@GRAD"),
    ("DScale", "Scale@GRAD"),
    ("DDY", "Y@GRAD@GRAD"),
];

pub static BATCH_NORM_GRAD_GRAD: Op = Op {
    name: "batch_norm_grad_grad",
    inputs: &[
        slot("X"),
        slot("Scale"),
        slot("SavedMean"),
        slot("SavedVariance"),
        slot("Mean").opt(),
        slot("Variance").opt(),
        slot("DDX").opt(),
        slot("DDScale").opt(),
        slot("DDBias").opt(),
        slot("DY"),
    ],
    outputs: &[slot("DX"), slot("DScale"), slot("DDY")],
    attrs: BatchNormAttrs::FIELDS,
    infer: |cx| {
        if cx.is_run() {
            return Ok(());
        }
        cx.like(0, 0)?;
        cx.like(1, 1)?;
        cx.like(2, 0)
    },
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, batch_norm_grad_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&BATCH_NORM, &BATCH_NORM_GRAD, &BATCH_NORM_GRAD_GRAD];
