//! spectral_norm: a weight divided by its largest singular value, which power iteration estimates.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::spectral_norm::{self as kernel, PowerIteration, WeightMatrix};
use oar_kernels::types::Number;
use oar_ops_common::axis::like;

attrs! {
    pub struct SpectralAttrs { dim: i32 = 0, power_iters: i32 = 1, eps: f32 = 1e-12 }
}

slots! {
    mod spectral { WEIGHT "Weight", U "U", V "V" => OUT "Out" }
    mod spectral_grad { DOUT "Out@GRAD", WEIGHT "Weight", U "U", V "V" => DWEIGHT "Weight@GRAD" }
}

/// Far beyond convergence: larger values are rejected.
const MOST_ITERATIONS: i32 = 1_000_000;

fn check(op: &str, a: &SpectralAttrs, w: &[i64]) -> Result<()> {
    ensure!(
        (2..=5).contains(&w.len()),
        InvalidArgument,
        "operator {op}: Weight must have 2 to 5 dimensions, got {w:?}"
    );
    ensure!(matches!(a.dim, 0 | 1), InvalidArgument, "operator {op}: dim must be 0 or 1, got {}", a.dim);
    ensure!(
        (0..=MOST_ITERATIONS).contains(&a.power_iters),
        InvalidArgument,
        "operator {op}: power_iters must be in [0, {MOST_ITERATIONS}], got {}",
        a.power_iters
    );
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (w, a) = (cx.dims(spectral::WEIGHT)?, cx.attrs::<SpectralAttrs>());
    check(cx.op.name, a, &w)?;
    let rows = w[a.dim as usize];
    let others = w.iter().enumerate().filter(|(i, _)| *i != a.dim as usize).map(|(_, &d)| d);
    let cols = others.fold(1, |n, d| if n < 0 || d < 0 { -1 } else { n * d });
    for (slot, size) in [(spectral::U, rows), (spectral::V, cols)] {
        let d = cx.dims(slot)?;
        let got = d.iter().fold(1, |n, &d| if n < 0 || d < 0 { -1 } else { n * d });
        ensure!(
            got < 0 || size < 0 || got == size,
            InvalidArgument,
            "operator {}: {} must have {size} elements for a Weight of shape {:?} and dim {}, got shape {:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            &w[..],
            a.dim,
            &d[..]
        );
    }
    like_first(cx)
}

fn find<T: Element + Number>(
    cx: &KernelContext,
    a: &SpectralAttrs,
    w: &Tensor,
    u: &Tensor,
    v: &Tensor,
) -> Result<(WeightMatrix, PowerIteration)> {
    check(cx.op.name, a, w.dims())?;
    let dim = a.dim as usize;
    let rows = w.dims()[dim] as usize;
    let inner = w.dims()[dim + 1..].iter().product::<i64>() as usize;
    let m = WeightMatrix { rows, cols: w.numel() / rows.max(1), inner: inner.max(1) };
    for (t, n, what) in [(u, rows, "U"), (v, m.cols, "V")] {
        like(cx, t, t.dims(), w.dtype(), what)?;
        ensure!(t.numel() == n, InvalidArgument, "operator {}: {what} must have {n} elements, got {t:?}", cx.op.name);
    }
    let found = kernel::iterate(m, w.data::<T>(), u.data::<T>(), v.data::<T>(), a.power_iters, a.eps as f64);
    Ok((m, found))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (w, u, v) = (cx.input(spectral::WEIGHT)?, cx.input(spectral::U)?, cx.input(spectral::V)?);
    dispatch!(w.dtype(), T in [f32, f64], {
        let (_, found) = find::<T>(cx, cx.attrs(), w, u, v)?;
        kernel::normalize(w.data::<T>(), found.sigma, cx.out_data::<T>(spectral::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use spectral_grad::{DOUT, DWEIGHT, U, V, WEIGHT};
    let (w, u, v, d) = (cx.input(WEIGHT)?, cx.input(U)?, cx.input(V)?, cx.input(DOUT)?);
    like(cx, d, w.dims(), w.dtype(), "the gradient of Out")?;
    dispatch!(w.dtype(), T in [f32, f64], {
        let (m, found) = find::<T>(cx, cx.attrs(), w, u, v)?;
        kernel::normalize_grad(m, &found, w.data::<T>(), d.data::<T>(), cx.out_data::<T>(DWEIGHT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SPECTRAL_NORM: Op = Op {
    name: "spectral_norm",
    inputs: spectral::INS,
    outputs: spectral::OUTS,
    attrs: SpectralAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SPECTRAL_NORM_GRAD),
    ..OP
};

pub static SPECTRAL_NORM_GRAD: Op = Op {
    name: "spectral_norm_grad",
    inputs: spectral_grad::INS,
    outputs: spectral_grad::OUTS,
    attrs: SpectralAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SPECTRAL_NORM, &SPECTRAL_NORM_GRAD];
