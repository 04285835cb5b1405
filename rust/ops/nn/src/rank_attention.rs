//! rank_attention: features of other samples times the parameter block of both ranks. Paddle has it for CUDA only.

use super::operands::{agree, of_type};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, err, slots};
use oar_kernels::nn::rank_attention::{self as kernel, RankPair};

attrs! {
    pub struct RankAttrs { MaxRank: i32 = 3, MaxSize: i32 = 0 }
}

slots! {
    mod rank {
        X "X", OFFSET "RankOffset", PARAM "RankParam" => HELP "InputHelp".dispensable(), OUT "Out", RANK "InsRank".dispensable()
    }
    mod rank_grad {
        X "X", OFFSET "RankOffset", PARAM "RankParam".meta_only(), HELP "InputHelp".dispensable().meta_only(), DOUT "Out@GRAD",
        RANK "InsRank".dispensable().meta_only() => DPARAM "RankParam@GRAD"
    }
}

fn infer_rank(cx: &mut ShapeContext) -> Result<()> {
    let (op, ranks) = (cx.op.name, cx.attrs::<RankAttrs>().MaxRank as i64);
    let (x, offset, w) = (cx.dims(rank::X)?, cx.dims(rank::OFFSET)?, cx.dims(rank::PARAM)?);
    ensure!(ranks > 0, InvalidArgument, "operator {op}: MaxRank must be above 0, got {ranks}");
    ensure!(
        x.len() == 2 && offset.len() == 2 && agree(offset[1], 2 * ranks + 1) && agree(offset[0], x[0]),
        InvalidArgument,
        "operator {op}: X and RankOffset must have shapes [rows, features] and [rows, {}], got {:?} and {:?}",
        2 * ranks + 1,
        &x[..],
        &offset[..]
    );
    let rows = x[1].checked_mul(ranks).and_then(|n| n.checked_mul(ranks));
    ensure!(
        w.len() == 2 && (x[1] < 0 || w[0] < 0 || rows == Some(w[0])),
        InvalidArgument,
        "operator {op}: RankParam must have {} * {ranks} * {ranks} rows, got shape {:?}",
        x[1],
        &w[..]
    );
    let dtype = cx.dtype(rank::X)?;
    cx.set(rank::OUT, &[x[0], w[1]], dtype);
    cx.set(rank::HELP, &[x[0], if x[1] < 0 { -1 } else { x[1] * ranks }], dtype);
    cx.set(rank::RANK, &[x[0], 1], dtype);
    cx.share_lod(rank::OUT, rank::X);
    Ok(())
}

/// The terms of every row.
fn pairs(cx: &KernelContext, offset: InSlot, rows: usize) -> Result<Vec<Vec<RankPair>>> {
    let (op, ranks) = (cx.op.name, cx.attrs::<RankAttrs>().MaxRank as usize);
    of_type(cx, DType::I32, &[offset])?;
    let offsets = cx.input(offset)?.data::<i32>();
    kernel::pairs(offsets, ranks, rows).map_err(|line| {
        err!(
            InvalidArgument,
            "operator {op}: RankOffset must hold ranks up to {ranks} and rows below {rows}, got {:?}",
            &offsets[line * (2 * ranks + 1)..][..2 * ranks + 1]
        )
    })
}

fn run_rank(cx: &mut KernelContext) -> Result<()> {
    let (x, w) = (cx.input(rank::X)?, cx.input(rank::PARAM)?);
    of_type(cx, x.dtype(), &[rank::PARAM])?;
    let (rows, features, columns) = (x.dims()[0] as usize, x.dims()[1] as usize, w.dims()[1] as usize);
    let (pairs, ranks) = (pairs(cx, rank::OFFSET, rows)?, cx.attrs::<RankAttrs>().MaxRank as usize);
    let own = cx.input(rank::OFFSET)?.data::<i32>();
    let [out, help, own_rank] = cx.each_out([rank::OUT, rank::HELP, rank::RANK]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, w) = (x.data::<T>(), w.data::<T>());
        if let Some(t) = out {
            kernel::forward(&pairs, x, w, (features, columns), t.data_mut::<T>()?);
        }
        if let Some(t) = help {
            kernel::gather(&pairs, x, ranks, features, t.data_mut::<T>()?);
        }
        if let Some(t) = own_rank {
            let lines = own.chunks_exact(2 * ranks + 1);
            t.data_mut::<T>()?.iter_mut().zip(lines).for_each(|(to, line)| *to = line[0] as T);
        }
        Ok(())
    }, other => cx.unsupported(other))
}

fn run_rank_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, w, dout) = (cx.input(rank_grad::X)?, cx.input(rank_grad::PARAM)?, cx.input(rank_grad::DOUT)?);
    of_type(cx, x.dtype(), &[rank_grad::PARAM, rank_grad::DOUT])?;
    let (rows, features) = (x.dims()[0] as usize, x.dims()[1] as usize);
    ensure!(
        dout.dims() == [x.dims()[0], w.dims()[1]],
        InvalidArgument,
        "operator rank_attention_grad: the gradient of Out must have shape [{rows}, {}], got {dout:?}",
        w.dims()[1]
    );
    let pairs = pairs(cx, rank_grad::OFFSET, rows)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let dw = cx.out_data::<T>(rank_grad::DPARAM)?;
        kernel::blocks_grad::<T>(&pairs, x.data::<T>(), dout.data::<T>(), features, dw);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static RANK_ATTENTION: Op = Op {
    name: "rank_attention",
    inputs: rank::INS,
    outputs: rank::OUTS,
    attrs: RankAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_rank,
    cpu: Kernel::Pure(run_rank),
    grad: Grad::By(&RANK_ATTENTION_GRAD),
    ..OP
};

pub static RANK_ATTENTION_GRAD: Op = Op {
    name: "rank_attention_grad",
    inputs: rank_grad::INS,
    outputs: rank_grad::OUTS,
    attrs: RankAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_rank_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&RANK_ATTENTION, &RANK_ATTENTION_GRAD];
