//! sequence_topk_avg_pooling: averages of the k largest elements of every row of every channel, for several k.

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::sequence::topk_avg_pooling::{Matrix, TopkAverages};

attrs! {
    pub struct TopkAttrs { topks: Vec<i32>, channel_num: i32 }
}

slots! {
    mod topk {
        X "X", ROW "ROW".meta_only(), COLUMN "COLUMN".meta_only() => OUT "Out", POS "pos".intermediate()
    }
    mod topk_grad {
        X "X".meta_only(), ROW "ROW".meta_only(), COLUMN "COLUMN".meta_only(), POS "pos", DOUT "Out@GRAD" => DX "X@GRAD"
    }
}

/// Limit of saved positions.
const MOST: i64 = 1 << 31;

/// (k of each average, largest k, channels)
fn counts(op: &str, a: &TopkAttrs) -> Result<(Vec<usize>, usize, usize)> {
    ensure!(
        a.channel_num > 0,
        InvalidArgument,
        "operator {op}: attribute 'channel_num' must be positive, got {}",
        a.channel_num
    );
    let most = a.topks.last().copied().unwrap_or(0);
    ensure!(
        a.topks.iter().all(|&k| k > 0 && k <= most) && most > 0,
        InvalidArgument,
        "operator {op}: attribute 'topks' must be positive numbers of which the last is the largest, got {:?}",
        a.topks
    );
    Ok((a.topks.iter().map(|&k| k as usize).collect(), most as usize, a.channel_num as usize))
}

fn positions(op: &str, rows: i64, channels: usize, most: usize) -> Result<i64> {
    let n = rows.checked_mul(channels as i64).and_then(|n| n.checked_mul(most as i64)).filter(|&n| n <= MOST);
    ensure!(
        n.is_some(),
        ResourceExhausted,
        "operator {op}: {rows} rows of {channels} channels with {most} positions each are too many"
    );
    Ok(n.unwrap_or(0))
}

fn matrices(op: &str, x: &Tensor, row: &Tensor, column: &Tensor, channels: usize) -> Result<Vec<Matrix>> {
    let x_level = levels::first(op, "X", x)?;
    let (rows, columns) = (levels::first(op, "ROW", row)?, levels::first(op, "COLUMN", column)?);
    ensure!(
        x_level.len() == rows.len() && rows.len() == columns.len(),
        InvalidArgument,
        "operator {op}: X, ROW and COLUMN must have as many sequences, got {}, {} and {}",
        x_level.len() - 1,
        rows.len() - 1,
        columns.len() - 1
    );
    ensure!(
        levels::width(x) == 1,
        InvalidArgument,
        "operator {op}: X must have one element in each row, got shape {:?}",
        x.dims()
    );
    let mut found = Vec::new();
    for i in 0..rows.len() - 1 {
        let (r, c) = (rows[i + 1] - rows[i], columns[i + 1] - columns[i]);
        let size = x_level[i + 1] - x_level[i];
        ensure!(
            r.checked_mul(c).and_then(|n| n.checked_mul(channels)) == Some(size),
            PreconditionNotMet,
            "operator {op}: sequence {i} of X must have channel_num * rows * columns = {channels} * {r} * {c} elements, \
             got {size}"
        );
        // No work without rows, for any number of channels.
        let channels = 0..if r > 0 { channels } else { 0 };
        let at = |channel| x_level[i] + channel * r * c;
        found.extend(channels.map(|channel| Matrix { at: at(channel), rows: r, columns: c, row: rows[i], channel }));
    }
    Ok(found)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (topks, most, channels) = counts(cx.op.name, cx.attrs())?;
    let row = cx.dims(topk::ROW)?;
    ensure!(!row.is_empty(), InvalidArgument, "operator {}: ROW must have a dimension", cx.op.name);
    let dtype = cx.dtype(topk::X)?;
    positions(cx.op.name, row[0].max(0), channels, topks.len())?;
    cx.set(topk::OUT, &[row[0], (channels * topks.len()) as i64], dtype);
    cx.share_lod(topk::OUT, topk::ROW);
    let all = if row[0] < 0 { -1 } else { positions(cx.op.name, row[0], channels, most)? };
    cx.set(topk::POS, &[all], DType::I32);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (topks, _, channels) = counts(cx.op.name, cx.attrs())?;
    let (x, row, column) = (cx.input(topk::X)?, cx.input(topk::ROW)?, cx.input(topk::COLUMN)?);
    let matrices = matrices(cx.op.name, x, row, column, channels)?;
    let mut pos = cx.take_out(topk::POS)?;
    let averages = TopkAverages { topks: &topks, channels, matrices: &matrices };
    dispatch!(x.dtype(), T in [f32, f64], {
        averages.pool(x.data::<T>(), pos.data_mut::<i32>()?, cx.out_data::<T>(topk::OUT)?);
    }, other => return cx.unsupported(other));
    cx.set(topk::POS, pos);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (topks, most, channels) = counts(cx.op.name, cx.attrs())?;
    let (x, row, column) = (cx.input(topk_grad::X)?, cx.input(topk_grad::ROW)?, cx.input(topk_grad::COLUMN)?);
    let (pos, dout) = (cx.input(topk_grad::POS)?, cx.input(topk_grad::DOUT)?);
    let matrices = matrices(cx.op.name, x, row, column, channels)?;
    let rows = row.dims()[0] as usize;
    ensure!(
        pos.dtype() == DType::I32
            && pos.numel() == rows * channels * most
            && dout.numel() == rows * channels * topks.len()
            && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_topk_avg_pooling_grad: pos and the gradient of Out do not fit X, got {pos:?} and {dout:?}"
    );
    let averages = TopkAverages { topks: &topks, channels, matrices: &matrices };
    dispatch!(dout.dtype(), T in [f32, f64], {
        let dx = cx.out_data::<T>(topk_grad::DX)?;
        dx.fill(0 as T);
        averages.pool_grad(pos.data::<i32>(), dout.data::<T>(), dx);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_TOPK_AVG_POOLING: Op = Op {
    name: "sequence_topk_avg_pooling",
    inputs: topk::INS,
    outputs: topk::OUTS,
    attrs: TopkAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEQUENCE_TOPK_AVG_POOLING_GRAD),
    ..OP
};

pub static SEQUENCE_TOPK_AVG_POOLING_GRAD: Op = Op {
    name: "sequence_topk_avg_pooling_grad",
    inputs: topk_grad::INS,
    outputs: topk_grad::OUTS,
    attrs: TopkAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_TOPK_AVG_POOLING, &SEQUENCE_TOPK_AVG_POOLING_GRAD];
