//! spectral_norm: a weight divided by its largest singular value, which power iteration estimates.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
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

/// The weight as a matrix of dimension `dim` by all others. Element (i, j) is at i * cols + j if `outer` = 1, else at
/// (j / inner * rows + i) * inner + j % inner.
#[derive(Clone, Copy)]
struct Matrix {
    rows: usize,
    cols: usize,
    inner: usize,
}

impl Matrix {
    fn at(&self, i: usize, j: usize) -> usize {
        (j / self.inner * self.rows + i) * self.inner + j % self.inner
    }
}

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

/// Result of the power iteration.
struct PowerIteration {
    m: Matrix,
    u: Vec<f64>,
    v: Vec<f64>,
    sigma: f64,
}

fn unit(x: &mut [f64], eps: f64) {
    let length = x.iter().map(|v| v * v).sum::<f64>().sqrt() + eps;
    x.iter_mut().for_each(|v| *v /= length);
}

fn find<T: Element + Number>(
    cx: &KernelContext,
    a: &SpectralAttrs,
    w: &Tensor,
    u: &Tensor,
    v: &Tensor,
) -> Result<PowerIteration> {
    check(cx.op.name, a, w.dims())?;
    let dim = a.dim as usize;
    let rows = w.dims()[dim] as usize;
    let inner = w.dims()[dim + 1..].iter().product::<i64>() as usize;
    let m = Matrix { rows, cols: w.numel() / rows.max(1), inner: inner.max(1) };
    for (t, n, what) in [(u, rows, "U"), (v, m.cols, "V")] {
        like(cx, t, t.dims(), w.dtype(), what)?;
        ensure!(t.numel() == n, InvalidArgument, "operator {}: {what} must have {n} elements, got {t:?}", cx.op.name);
    }
    let vector = |t: &Tensor| t.data::<T>().iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    let (mut u, mut v, w, eps) = (vector(u), vector(v), w.data::<T>(), a.eps as f64);
    let by = |v: &[f64], out: &mut [f64]| {
        for (i, o) in out.iter_mut().enumerate() {
            *o = (0..m.cols).map(|j| w[m.at(i, j)].to_f64() * v[j]).sum();
        }
    };
    for _ in 0..a.power_iters {
        let before = u.clone();
        for (j, o) in v.iter_mut().enumerate() {
            *o = (0..m.rows).map(|i| w[m.at(i, j)].to_f64() * u[i]).sum();
        }
        unit(&mut v, eps);
        by(&v, &mut u);
        unit(&mut u, eps);
        // A fixed point, bit for bit (NaN included): further iterations change nothing.
        if u.iter().zip(&before).all(|(a, b)| a.to_bits() == b.to_bits()) {
            break;
        }
    }
    let mut wv = vec![0.0; m.rows];
    by(&v, &mut wv);
    let sigma = u.iter().zip(&wv).map(|(a, b)| a * b).sum();
    Ok(PowerIteration { m, u, v, sigma })
}

#[allow(clippy::unnecessary_cast)] // one of the types is f64
fn run(cx: &mut KernelContext) -> Result<()> {
    let (w, u, v) = (cx.input(spectral::WEIGHT)?, cx.input(spectral::U)?, cx.input(spectral::V)?);
    dispatch!(w.dtype(), T in [f32, f64], {
        let found = find::<T>(cx, cx.attrs(), w, u, v)?;
        let out = cx.out_data::<T>(spectral::OUT)?;
        out.iter_mut().zip(w.data::<T>()).for_each(|(o, &w)| *o = (w as f64 / found.sigma) as T);
    }, other => return cx.unsupported(other));
    Ok(())
}

/// sigma = u' W v has the derivative u v' (changes of u and v are of second order).
#[allow(clippy::unnecessary_cast)] // one of the types is f64
fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use spectral_grad::{DOUT, DWEIGHT, U, V, WEIGHT};
    let (w, u, v, d) = (cx.input(WEIGHT)?, cx.input(U)?, cx.input(V)?, cx.input(DOUT)?);
    like(cx, d, w.dims(), w.dtype(), "the gradient of Out")?;
    dispatch!(w.dtype(), T in [f32, f64], {
        let PowerIteration { m, u, v, sigma } = find::<T>(cx, cx.attrs(), w, u, v)?;
        let (w, d, out) = (w.data::<T>(), d.data::<T>(), cx.out_data::<T>(DWEIGHT)?);
        let along = w.iter().zip(d).map(|(&w, &d)| w as f64 / sigma * d as f64).sum::<f64>();
        for (i, &u) in u.iter().enumerate() {
            for (j, &v) in v.iter().enumerate() {
                let at = m.at(i, j);
                out[at] = ((d[at] as f64 - along * u * v) / sigma) as T;
            }
        }
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
