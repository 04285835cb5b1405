//! cholesky and inverse of matrices in batches.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::decompose as kernel;
use oar_kernels::gemm::{self, strided_batch, Epilogue, View};
use oar_kernels::pool;
use oar_ops_common::axis::like;
use oar_ops_common::elements::copy_to;
use std::sync::atomic::{AtomicUsize, Ordering};

attrs! {
    pub struct CholeskyAttrs { upper: bool = false }
}

slots! {
    mod cholesky { X "X" => OUT "Out" }
    mod cholesky_grad { OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod inverse { X "Input" => OUT "Output" }
    mod inverse_grad { OUT "Output", DOUT "Output@GRAD" => DX "Input@GRAD" }
}

/// Fails unless the input is a square matrix or a batch of them.
fn square(cx: &ShapeContext, slot: InSlot) -> Result<()> {
    match cx.dims(slot)?[..] {
        [.., m, n] if m == n || m < 0 || n < 0 => Ok(()),
        _ => cx.wrong(slot, "square matrices"),
    }
}

fn side(dims: &[i64]) -> usize {
    dims.last().map_or(0, |&n| n as usize)
}

/// Runs `f` on each matrix; returns the index of the first one for which it fails.
fn each<T: Send>(data: &mut [T], n: usize, f: impl Fn(usize, &mut [T]) -> bool + Sync) -> Option<usize> {
    let (size, failed) = ((n * n).max(1), AtomicUsize::new(usize::MAX));
    let one = |at: usize, matrix: &mut [T]| {
        if !f(at, matrix) {
            failed.fetch_min(at, Ordering::Relaxed);
        }
    };
    // Large matrices run one by one, each on all threads.
    if n >= 96 {
        data.chunks_exact_mut(size).enumerate().for_each(|(i, m)| one(i, m));
    } else {
        let some = ((1 << 15) / (size * n.max(1))).max(1);
        pool::parts(data, some * size, |start, part| {
            part.chunks_exact_mut(size).enumerate().for_each(|(i, m)| one(start / size + i, m));
        });
    }
    Some(failed.into_inner()).filter(|&at| at != usize::MAX)
}

fn run_cholesky(cx: &mut KernelContext) -> Result<()> {
    let (x, upper, op) = (cx.input(cholesky::X)?, cx.attrs::<CholeskyAttrs>().upper, cx.op.name);
    let n = side(x.dims());
    let out = cx.out(cholesky::OUT)?;
    copy_to(x, out)?;
    let failed = dispatch!(x.dtype(), T in [f32, f64], {
        each(out.data_mut::<T>()?, n, |_, a| {
            // With upper = true the upper triangle is both read and written.
            if upper {
                kernel::transpose(a, n);
            }
            let done = kernel::cholesky(a, n);
            if upper {
                kernel::transpose(a, n);
            }
            done
        })
    }, other => return cx.unsupported(other));
    ensure!(
        failed.is_none(),
        InvalidArgument,
        "operator {op}: matrix {} of X is not positive definite",
        failed.unwrap_or(0)
    );
    Ok(())
}

fn run_cholesky_grad(cx: &mut KernelContext) -> Result<()> {
    use cholesky_grad::{DOUT, DX, OUT};
    let (l, dl, upper) = (cx.input(OUT)?, cx.input(DOUT)?, cx.attrs::<CholeskyAttrs>().upper);
    like(cx, dl, l.dims(), l.dtype(), "Out@GRAD")?;
    let n = side(l.dims());
    dispatch!(l.dtype(), T in [f32, f64], {
        let (l, dl) = (l.data::<T>(), dl.data::<T>());
        each(cx.out_data::<T>(DX)?, n, |i, dx| {
            let part = i * n * n..(i + 1) * n * n;
            if upper {
                let (mut l, mut dl) = (l[part.clone()].to_vec(), dl[part].to_vec());
                kernel::transpose(&mut l, n);
                kernel::transpose(&mut dl, n);
                kernel::cholesky_grad(&l, &dl, n, dx);
            } else {
                kernel::cholesky_grad(&l[part.clone()], &dl[part], n, dx);
            }
            true
        });
        Ok(())
    }, other => cx.unsupported(other))
}

pub static CHOLESKY: Op = Op {
    name: "cholesky",
    inputs: cholesky::INS,
    outputs: cholesky::OUTS,
    attrs: CholeskyAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        square(cx, cholesky::X)?;
        cx.like(cholesky::OUT, cholesky::X)
    },
    cpu: Kernel::Pure(run_cholesky),
    grad: Grad::By(&CHOLESKY_GRAD),
    ..OP
};
pub static CHOLESKY_GRAD: Op = Op {
    name: "cholesky_grad",
    inputs: cholesky_grad::INS,
    outputs: cholesky_grad::OUTS,
    attrs: CholeskyAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        square(cx, cholesky_grad::OUT)?;
        cx.like(cholesky_grad::DX, cholesky_grad::OUT)
    },
    cpu: Kernel::Pure(run_cholesky_grad),
    ..OP
};

// inverse

fn run_inverse(cx: &mut KernelContext) -> Result<()> {
    let (x, op) = (cx.input(inverse::X)?, cx.op.name);
    let n = side(x.dims());
    let out = cx.out(inverse::OUT)?;
    copy_to(x, out)?;
    let failed = dispatch!(x.dtype(), T in [f32, f64], {
        each(out.data_mut::<T>()?, n, |_, a| kernel::invert(a, n))
    }, other => return cx.unsupported(other));
    ensure!(
        failed.is_none(),
        InvalidArgument,
        "operator {op}: Input is not invertible (matrix {})",
        failed.unwrap_or(0)
    );
    Ok(())
}

/// - A^-T dOut A^-T.
fn run_inverse_grad(cx: &mut KernelContext) -> Result<()> {
    use inverse_grad::{DOUT, DX, OUT};
    let (y, dy) = (cx.input(OUT)?, cx.input(DOUT)?);
    like(cx, dy, y.dims(), y.dtype(), "Output@GRAD")?;
    let n = side(y.dims());
    let at = strided_batch(y.numel() / (n * n).max(1), n * n, n * n, n * n);
    dispatch!(y.dtype(), T in [f32, f64], {
        let (y, dy) = (y.data::<T>(), dy.data::<T>());
        let mut right = vec![0.0; y.len()];
        let (plain, turned) = (|m| View::rows(m, n, false), |m| View::rows(m, n, true));
        gemm::batched::<T>((n, n, n), 1.0, plain(dy), turned(y), 0.0, &mut right, n, Epilogue::NONE, &at);
        let dx = cx.out_data::<T>(DX)?;
        gemm::batched::<T>((n, n, n), -1.0, turned(y), plain(&right), 0.0, dx, n, Epilogue::NONE, &at);
        Ok(())
    }, other => cx.unsupported(other))
}

pub static INVERSE: Op = Op {
    name: "inverse",
    inputs: inverse::INS,
    outputs: inverse::OUTS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        square(cx, inverse::X)?;
        like_first(cx)
    },
    cpu: Kernel::Pure(run_inverse),
    grad: Grad::By(&INVERSE_GRAD),
    ..OP
};
pub static INVERSE_GRAD: Op = Op {
    name: "inverse_grad",
    inputs: inverse_grad::INS,
    outputs: inverse_grad::OUTS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        square(cx, inverse_grad::OUT)?;
        cx.like(inverse_grad::DX, inverse_grad::OUT)
    },
    cpu: Kernel::Pure(run_inverse_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CHOLESKY, &CHOLESKY_GRAD, &INVERSE, &INVERSE_GRAD];
