//! sequence_pool: pools each sequence to one row.

use oar_core::base::shape::numel;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::sequence::pool::{self as kernel, Pooling};
use oar_ops_common::half::in_f32;
use std::sync::Arc;

attrs! {
    pub struct SequencePoolAttrs {
        is_test: bool = false, pooltype: Text = "AVERAGE".into(), pad_value: f32 = 0.0,
    }
}

slots! {
    mod sequence_pool { X "X" => OUT "Out", MAX_INDEX "MaxIndex".intermediate().kernel_allocated() }
    mod sequence_pool_grad { X "X".meta_only(), MAX_INDEX "MaxIndex".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Fails unless the level's offsets ascend from 0 to at most `count`.
pub fn check_level(op: &str, level: &[usize], count: usize) -> Result<()> {
    let fine = level.first() == Some(&0) && level.is_sorted() && level.last().is_some_and(|&l| l <= count);
    ensure!(fine, InvalidArgument, "operator {op}: the LoD {level:?} must divide {count} rows into sequences");
    Ok(())
}

/// The offsets of the last level, which divides the rows.
fn last_level<'a>(op: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    let Some(level) = x.lod.as_ref().and_then(|l| l.last()) else {
        bail!(InvalidArgument, "operator {op}: input 'X' has no LoD")
    };
    ensure!(x.rank() > 0, InvalidArgument, "operator {op}: input 'X' must have a dimension");
    check_level(op, level, x.dims()[0] as usize)?;
    Ok(level)
}

/// Fails unless X@GRAD has the data type of Out@GRAD.
pub(crate) fn same_type(cx: &mut KernelContext, dx: OutSlot, dout: &Tensor) -> Result<()> {
    let (name, dtype) = (cx.op.name, cx.out(dx)?.dtype());
    ensure!(
        dtype == dout.dtype(),
        InvalidArgument,
        "operator {name}: X is of {dtype} but the gradient of Out of {}",
        dout.dtype()
    );
    Ok(())
}

pub(crate) fn width(x: &Tensor) -> usize {
    numel(&x.dims()[1..])
}

fn pooling(a: &SequencePoolAttrs) -> Result<Pooling> {
    Ok(match &a.pooltype[..] {
        "AVERAGE" => Pooling::Average,
        "SUM" => Pooling::Sum,
        "SQRT" => Pooling::Sqrt,
        "LAST" => Pooling::Last,
        "FIRST" => Pooling::First,
        "MAX" => Pooling::Max,
        other => bail!(
            InvalidArgument,
            "operator sequence_pool: pooltype must be AVERAGE, SUM, SQRT, LAST, FIRST or MAX, got '{other}'"
        ),
    })
}

/// Output: one row per sequence of the last level; their number is in the LoD at run time.
fn infer_pool(cx: &mut ShapeContext) -> Result<()> {
    use sequence_pool::{MAX_INDEX, OUT, X};
    let max = pooling(cx.attrs())? == Pooling::Max;
    let mut m = cx.meta(X, 0)?;
    ensure!(!m.dims.is_empty(), InvalidArgument, "operator sequence_pool: input 'X' must have a dimension");
    if let Some(x) = cx.tensor(X) {
        let level = last_level(cx.op.name, x)?;
        let levels = x.lod.as_ref().map_or(0, |l| l.len());
        ensure!(
            levels <= 2,
            InvalidArgument,
            "operator sequence_pool: X may have two levels of LoD at most, got {levels}"
        );
        m.dims[0] = level.len() as i64 - 1;
        m.lod = None;
        if let (2, Some(lod)) = (levels, &x.lod) {
            check_level(cx.op.name, &lod[0], level.len() - 1)?;
            m.lod = Some(Arc::new(vec![lod[0].clone()]));
        }
    } else {
        ensure!(m.lod_level > 0, InvalidArgument, "operator sequence_pool: X must have a LoD level greater than 0");
        m.dims[0] = -1;
    }
    m.lod_level -= 1;
    if max {
        cx.set(MAX_INDEX, &m.dims, DType::I32);
    }
    cx.set_meta(OUT, 0, m);
    Ok(())
}

fn pool(cx: &mut KernelContext) -> Result<()> {
    use sequence_pool::{MAX_INDEX, OUT, X};
    let x = cx.input(X)?;
    let a = cx.attrs::<SequencePoolAttrs>();
    let kind = pooling(a)?;
    let starts = last_level(cx.op.name, x)?;
    let out = cx.out(OUT)?;
    // With is_test the positions of the maxima are not needed.
    let mut index =
        if kind == Pooling::Max && !a.is_test { Some(Tensor::empty(DType::I32, out.dims())?) } else { None };
    dispatch!(x.dtype(), T in [f32, f64], {
        let rows = index.as_mut().map(|t| t.data_mut::<i32>()).transpose()?;
        kernel::pool(kind, starts, width(x), a.pad_value as T, x.data::<T>(), out.data_mut::<T>()?, rows);
    }, other => return cx.unsupported(other));
    if let Some(t) = index {
        cx.set(MAX_INDEX, t);
    }
    Ok(())
}

fn pool_grad(cx: &mut KernelContext) -> Result<()> {
    use sequence_pool_grad::{DOUT, DX, MAX_INDEX, X};
    let (x, index, dout) = (cx.input(X)?, cx.opt(MAX_INDEX), cx.input(DOUT)?);
    let kind = pooling(cx.attrs())?;
    same_type(cx, DX, dout)?;
    let starts = last_level(cx.op.name, x)?;
    let width = width(x);
    ensure!(
        dout.numel() == (starts.len() - 1) * width,
        InvalidArgument,
        "operator sequence_pool_grad: the gradient of Out {dout:?} must have {} rows of {width} elements",
        starts.len() - 1
    );
    let index = match (kind, index) {
        (Pooling::Max, Some(t)) => {
            ensure!(
                t.dtype() == DType::I32 && t.numel() == dout.numel(),
                InvalidArgument,
                "operator sequence_pool_grad: MaxIndex must be int32 and like Out, got {t:?}"
            );
            Some(t.data::<i32>())
        }
        (Pooling::Max, None) => {
            bail!(InvalidArgument, "operator sequence_pool_grad: MAX needs MaxIndex, which is_test does not compute")
        }
        _ => None,
    };
    dispatch!(dout.dtype(), T in [f32, f64], {
        kernel::pool_grad(kind, starts, width, dout.data::<T>(), index, cx.out_data::<T>(DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_POOL: Op = Op {
    name: "sequence_pool",
    inputs: sequence_pool::INS,
    outputs: sequence_pool::OUTS,
    attrs: SequencePoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: infer_pool,
    cpu: Kernel::Pure(|cx| in_f32(cx, sequence_pool::X, pool)),
    grad: Grad::By(&SEQUENCE_POOL_GRAD),
    ..OP
};

pub static SEQUENCE_POOL_GRAD: Op = Op {
    name: "sequence_pool_grad",
    inputs: sequence_pool_grad::INS,
    outputs: sequence_pool_grad::OUTS,
    attrs: SequencePoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, sequence_pool_grad::DOUT, pool_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_POOL, &SEQUENCE_POOL_GRAD];
