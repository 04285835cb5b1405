//! segment_pool: pools rows with equal ids, which must ascend.

use oar_core::attrs;
use oar_core::base::shape::numel;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::sequence::segments::{self as kernel, SegmentPooling};
use oar_ops_common::index::index_of;
use std::ops::Range;

attrs! {
    pub struct SegmentPoolAttrs { pooltype: Text = "SUM".into() }
}

slots! {
    mod pool { X "X", IDS "SegmentIds" => OUT "Out".kernel_allocated(), SUMMED "SummedIds".intermediate().kernel_allocated() }
    mod pool_grad { X "X", IDS "SegmentIds", OUT "Out", SUMMED "SummedIds".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn pool_of(op: &str, a: &SegmentPoolAttrs) -> Result<SegmentPooling> {
    Ok(match a.pooltype.as_str() {
        "SUM" => SegmentPooling::Sum,
        "MEAN" => SegmentPooling::Mean,
        "MAX" => SegmentPooling::Max,
        "MIN" => SegmentPooling::Min,
        other => bail!(InvalidArgument, "operator {op}: pooltype must be SUM, MEAN, MAX or MIN, got '{other}'"),
    })
}

/// The id and the rows of each segment.
fn segments(op: &str, x: &[i64], ids: &Tensor) -> Result<Vec<(usize, Range<usize>)>> {
    ensure!(
        ids.dims().first() == Some(&(ids.numel() as i64)) && x.first() == ids.dims().first(),
        InvalidArgument,
        "operator {op}: SegmentIds must have one id for each row of X, got shape {:?} for X {x:?}",
        ids.dims()
    );
    let ids = index_of(op, ids)?;
    ensure!(ids.iter().all(|&i| i >= 0), InvalidArgument, "operator {op}: SegmentIds must not be negative");
    ensure!(ids.is_sorted(), InvalidArgument, "operator {op}: SegmentIds must be in ascending order");
    Ok(kernel::segments(&ids))
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(pool::X)?);
    let (pool, found) = (pool_of(op, cx.attrs())?, segments(op, x.dims(), cx.input(pool::IDS)?)?);
    let mut dims = Dims::from_slice(x.dims());
    dims[0] = found.last().map_or(0, |(id, _)| *id as i64 + 1);
    let width = numel(&dims[1..]);
    let mut out = Tensor::zeros(x.dtype(), &dims)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::pool_all(pool, &found, x.data::<T>(), width, out.data_mut::<T>()?);
        if cx.wants(pool::SUMMED) {
            // The number of rows of each segment, for means only.
            let mut counts = vec![0 as T; if pool == SegmentPooling::Mean { dims[0] as usize } else { 0 }];
            found.iter().for_each(|(id, rows)| counts.get_mut(*id).into_iter().for_each(|c| *c = rows.len() as T));
            cx.set(pool::SUMMED, Tensor::from_slice(&counts, &[counts.len() as i64, 1])?);
        }
    }, other => return cx.unsupported(other));
    cx.set(pool::OUT, out);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use pool_grad::{DOUT, DX, IDS, OUT, X};
    let (op, x, out, dout) = (cx.op.name, cx.input(X)?, cx.input(OUT)?, cx.input(DOUT)?);
    let (pool, found) = (pool_of(op, cx.attrs())?, segments(op, x.dims(), cx.input(IDS)?)?);
    let width = numel(&x.dims()[1..]);
    let enough = found.last().map_or(0, |(id, _)| *id + 1) * width;
    ensure!(
        out.numel() == enough && dout.dims() == out.dims() && out.dtype() == x.dtype() && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator {op}: Out {out:?} and Out@GRAD {dout:?} do not fit X {x:?}"
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let all = (x.data::<T>(), out.data::<T>(), dout.data::<T>());
        kernel::pool_all_grad(pool, &found, all, width, cx.out_data::<T>(DX)?);
        Ok(())
    }, other => cx.unsupported(other))
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (mut dims, dtype) = (cx.dims(pool::X)?, cx.dtype(pool::X)?);
    ensure!(!dims.is_empty(), InvalidArgument, "operator segment_pool: X must have at least one dimension");
    dims[0] = -1;
    cx.set(pool::OUT, &dims, dtype);
    pool_of(cx.op.name, cx.attrs())?;
    // The number of rows of each segment; only for MEAN.
    cx.set(pool::SUMMED, &[-1, 1], dtype);
    Ok(())
}

pub static SEGMENT_POOL: Op = Op {
    name: "segment_pool",
    inputs: pool::INS,
    outputs: pool::OUTS,
    attrs: SegmentPoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEGMENT_POOL_GRAD),
    ..OP
};
pub static SEGMENT_POOL_GRAD: Op = Op {
    name: "segment_pool_grad",
    inputs: pool_grad::INS,
    outputs: pool_grad::OUTS,
    attrs: SegmentPoolAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEGMENT_POOL, &SEGMENT_POOL_GRAD];
