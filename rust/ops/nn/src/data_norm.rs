//! data_norm: columns normalized by statistics accumulated over all batches.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::norm::data_norm::{self as kernel, SlotColumns};
use oar_ops_common::axis::like;
use oar_ops_common::norm::check_epsilon;

attrs! {
    pub struct DataNormAttrs {
        epsilon: f32 = 1e-4, slot_dim: i32 = -1, summary_decay_rate: f32 = 0.9999999, enable_scale_and_shift: bool = false,
        data_layout: Text = "NCHW".into(), sync_stats: bool = false, use_mkldnn: bool = false,
    }
}

slots! {
    mod norm {
        SCALE_W "scale_w".dispensable(), BIAS "bias".dispensable(), X "X", SIZE "BatchSize", SUM "BatchSum", SQUARES "BatchSquareSum"
        => Y "Y", MEANS "Means".intermediate(), SCALES "Scales".intermediate()
    }
    /// BatchSize, BatchSum and BatchSquareSum are updated only on GPUs, with sync_stats.
    mod norm_grad {
        X "X", DY "Y@GRAD", SCALE_W "scale_w".dispensable(), BIAS "bias".dispensable(), SCALES "Scales", MEANS "Means"
        => SIZE "BatchSize".dispensable().kernel_allocated(), SUM "BatchSum".dispensable().kernel_allocated(), SQUARES "BatchSquareSum".dispensable().kernel_allocated(),
        DX "X@GRAD", DSIZE "BatchSize@GRAD", DSUM "BatchSum@GRAD", DSQUARES "BatchSquareSum@GRAD",
        DSCALE_W "scale_w@GRAD".dispensable(), DBIAS "bias@GRAD".dispensable()
    }
}

/// The number of channels (columns), which slot_dim must divide.
fn channels(op: &str, a: &DataNormAttrs, x: &[i64]) -> Result<i64> {
    ensure!(
        (2..=5).contains(&x.len()),
        InvalidArgument,
        "operator {op}: X must have 2 to 5 dimensions, got shape {x:?}"
    );
    let c = match &a.data_layout[..] {
        "NCHW" => x[1],
        "NHWC" => x[x.len() - 1],
        other => bail!(InvalidArgument, "operator {op}: data_layout must be NCHW or NHWC, got '{other}'"),
    };
    ensure!(
        a.slot_dim <= 0 || c < 0 || c % a.slot_dim as i64 == 0,
        InvalidArgument,
        "operator {op}: slot_dim must divide the {c} columns of X, got {}",
        a.slot_dim
    );
    Ok(c)
}

/// Programs may be built with images; the kernel requires rows.
fn check_rows(op: &str, x: &Tensor) -> Result<()> {
    ensure!(x.rank() == 2, InvalidArgument, "operator {op}: X must have 2 dimensions, got shape {:?}", x.dims());
    Ok(())
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<DataNormAttrs>());
    check_epsilon(op, a.epsilon)?;
    let (x, dtype) = (cx.dims(norm::X)?, cx.dtype(norm::X)?);
    let c = channels(op, a, &x)?;
    let affine = if a.enable_scale_and_shift { &[norm::SCALE_W, norm::BIAS][..] } else { &[] };
    for &slot in [norm::SIZE, norm::SUM, norm::SQUARES].iter().chain(affine) {
        let d = cx.dims(slot)?;
        ensure!(
            d.len() == 1 && (d[0] == c || d[0] < 0 || c < 0) && cx.dtype(slot)? == dtype,
            InvalidArgument,
            "operator {op}: {} must have shape [{c}] and type {dtype}, got {:?} of {}",
            cx.op.inputs[slot.0].name,
            &d[..],
            cx.dtype(slot)?
        );
    }
    cx.set(norm::Y, &x, dtype);
    cx.set(norm::MEANS, &[c], dtype);
    cx.set(norm::SCALES, &[c], dtype);
    cx.share_lod(norm::Y, norm::X);
    Ok(())
}

fn slots(a: &DataNormAttrs, columns: usize) -> SlotColumns {
    SlotColumns { columns, slot: a.slot_dim.max(0) as usize }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<DataNormAttrs>();
    let (x, size, sum, squares) =
        (cx.input(norm::X)?, cx.input(norm::SIZE)?, cx.input(norm::SUM)?, cx.input(norm::SQUARES)?);
    let (w, b) = if a.enable_scale_and_shift {
        (Some(cx.input(norm::SCALE_W)?), Some(cx.input(norm::BIAS)?))
    } else {
        (None, None)
    };
    check_rows(cx.op.name, x)?;
    let c = x.dims()[1] as usize;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (means, scales) = kernel::statistics(size.data::<T>(), sum.data::<T>(), squares.data::<T>());
        let affine = w.zip(b).map(|(w, b)| (w.data::<T>(), b.data::<T>()));
        kernel::forward(slots(a, c), x.data::<T>(), &means, &scales, affine, cx.out_data::<T>(norm::Y)?);
        for (slot, values) in [(norm::MEANS, means), (norm::SCALES, scales)] {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.copy_from_slice(&values);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use norm_grad::{DBIAS, DSCALE_W, DSIZE, DSQUARES, DSUM, DX, X};
    let (x, dtype) = (cx.dims(X)?, cx.dtype(X)?);
    let c = channels(cx.op.name, cx.attrs(), &x)?;
    cx.set(DX, &x, dtype);
    for slot in [DSIZE, DSUM, DSQUARES, DSCALE_W, DBIAS] {
        cx.set(slot, &[c], dtype);
    }
    Ok(())
}

/// The gradients of the statistics are this batch's contributions to them.
fn backward(cx: &mut KernelContext) -> Result<()> {
    use norm_grad::{DBIAS, DSCALE_W, DSIZE, DSQUARES, DSUM, DX, DY, MEANS, SCALES, SCALE_W, X};
    let a = cx.attrs::<DataNormAttrs>();
    let (x, d, means, scales) = (cx.input(X)?, cx.input(DY)?, cx.input(MEANS)?, cx.input(SCALES)?);
    let w = if a.enable_scale_and_shift { Some(cx.input(SCALE_W)?) } else { None };
    check_rows(cx.op.name, x)?;
    let c = channels(cx.op.name, a, x.dims())?;
    like(cx, d, x.dims(), x.dtype(), "the gradient of Y")?;
    for t in [Some(means), Some(scales), w].into_iter().flatten() {
        like(cx, t, &[c], x.dtype(), "each of Means, Scales and scale_w")?;
    }
    let c = c as usize;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (means, scales) = (means.data::<T>(), scales.data::<T>());
        let w = w.map(|t: &Tensor| t.data::<T>());
        let g = kernel::backward(slots(a, c), (x.data::<T>(), d.data::<T>()), (means, scales), w, a.epsilon as f64);
        for (slot, values) in [
            (DX, g.dx), (DSIZE, g.size), (DSUM, g.sum), (DSQUARES, g.squares), (DSCALE_W, g.dscale), (DBIAS, g.dbias),
        ] {
            if cx.wants(slot) {
                cx.out_data::<T>(slot)?.copy_from_slice(&values);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static NORM: Op = Op {
    name: "data_norm",
    inputs: norm::INS,
    outputs: norm::OUTS,
    attrs: DataNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&NORM_GRAD),
    ..OP
};

pub static NORM_GRAD: Op = Op {
    name: "data_norm_grad",
    inputs: norm_grad::INS,
    outputs: norm_grad::OUTS,
    attrs: DataNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&NORM, &NORM_GRAD];
