//! batch_fc: a product with a bias for each slot of a batch; rank_attention: rows of other samples times the block of
//! parameters that belongs to both ranks. Paddle has both for CUDA alone.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::{matmul, Gemm};
use oar_kernels::types::Float;

attrs! { pub struct RankAttrs { MaxRank: i32 = 3, MaxSize: i32 = 0 } }

slots! {
    mod fc { INPUT "Input", W "W", BIAS "Bias" => OUT "Out" }
    mod fc_grad {
        INPUT "Input", W "W", BIAS "Bias".meta_only(), DOUT "Out@GRAD"
        => DINPUT "Input@GRAD", DW "W@GRAD", DBIAS "Bias@GRAD"
    }
    mod rank {
        X "X", OFFSET "RankOffset", PARAM "RankParam" => HELP "InputHelp".dispensable(), OUT "Out", RANK "InsRank".dispensable()
    }
    mod rank_grad {
        X "X", OFFSET "RankOffset", PARAM "RankParam".meta_only(), HELP "InputHelp".dispensable().meta_only(), DOUT "Out@GRAD",
        RANK "InsRank".dispensable().meta_only() => DPARAM "RankParam@GRAD"
    }
}

fn agree(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

fn of_type(cx: &KernelContext, dtype: DType, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: input '{}' must be {dtype}, got {}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            t.dtype()
        );
    }
    Ok(())
}

// batch_fc

fn infer_fc(cx: &mut ShapeContext) -> Result<()> {
    let (x, w, b) = (cx.dims(fc::INPUT)?, cx.dims(fc::W)?, cx.dims(fc::BIAS)?);
    let fits = x.len() == 3 && w.len() == 3 && agree(x[0], w[0]) && agree(x[2], w[1]);
    ensure!(
        fits && b.len() == 2 && agree(b[0], x[0]) && agree(b[1], w[2]),
        InvalidArgument,
        "operator {}: Input, W and Bias must have shapes [slots, rows, in], [slots, in, out] and [slots, out], got {:?}, \
         {:?} and {:?}",
        cx.op.name,
        &x[..],
        &w[..],
        &b[..]
    );
    let dtype = cx.dtype(fc::INPUT)?;
    cx.set(fc::OUT, &[x[0], x[1], w[2]], dtype);
    cx.share_lod(fc::OUT, fc::INPUT);
    Ok(())
}

/// (slots, rows, inner, outer)
fn fc_sizes(x: &Tensor, w: &Tensor) -> (usize, usize, usize, usize) {
    let (x, w) = (x.dims(), w.dims());
    (x[0] as usize, x[1] as usize, x[2] as usize, w[2] as usize)
}

fn part<T>(all: &[T], i: usize, parts: usize) -> &[T] {
    let each = all.len() / parts;
    &all[i * each..][..each]
}

fn part_mut<T>(all: &mut [T], i: usize, parts: usize) -> &mut [T] {
    let each = all.len() / parts;
    &mut all[i * each..][..each]
}

fn run_fc(cx: &mut KernelContext) -> Result<()> {
    let (x, w, bias) = (cx.input(fc::INPUT)?, cx.input(fc::W)?, cx.input(fc::BIAS)?);
    of_type(cx, x.dtype(), &[fc::W, fc::BIAS])?;
    let (slots, rows, inner, outer) = fc_sizes(x, w);
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(fc::OUT)?;
        for s in 0..slots {
            let out = part_mut(out, s, slots);
            let (x, w) = (part(x.data::<T>(), s, slots), part(w.data::<T>(), s, slots));
            matmul((rows, outer, inner), x, false, w, false, out);
            let bias = part(bias.data::<T>(), s, slots);
            for row in out.chunks_exact_mut(outer.max(1)) {
                row.iter_mut().zip(bias).for_each(|(o, &b)| *o += b);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_fc_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, w, dout) = (cx.input(fc_grad::INPUT)?, cx.input(fc_grad::W)?, cx.input(fc_grad::DOUT)?);
    of_type(cx, x.dtype(), &[fc_grad::W, fc_grad::BIAS, fc_grad::DOUT])?;
    let (slots, rows, inner, outer) = fc_sizes(x, w);
    ensure!(
        dout.numel() == slots * rows * outer,
        InvalidArgument,
        "operator batch_fc_grad: the gradient of Out must have shape [{slots}, {rows}, {outer}], got {dout:?}"
    );
    let [dx, dw, dbias] = cx.each_out([fc_grad::DINPUT, fc_grad::DW, fc_grad::DBIAS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, w, dout) = (x.data::<T>(), w.data::<T>(), dout.data::<T>());
        if let Some(dx) = dx {
            let dx = dx.data_mut::<T>()?;
            for s in 0..slots {
                let (d, w) = (part(dout, s, slots), part(w, s, slots));
                matmul((rows, inner, outer), d, false, w, true, part_mut(dx, s, slots));
            }
        }
        if let Some(dw) = dw {
            let dw = dw.data_mut::<T>()?;
            for s in 0..slots {
                let (x, d) = (part(x, s, slots), part(dout, s, slots));
                matmul((inner, outer, rows), x, true, d, false, part_mut(dw, s, slots));
            }
        }
        if let Some(dbias) = dbias {
            let dbias = dbias.data_mut::<T>()?;
            dbias.fill(0.0);
            for s in 0..slots {
                let to = part_mut(dbias, s, slots);
                for row in part(dout, s, slots).chunks_exact(outer.max(1)) {
                    to.iter_mut().zip(row).for_each(|(to, &d)| *to += d);
                }
            }
        }
        Ok(())
    }, other => cx.unsupported(other))
}

// rank_attention

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

/// What a row reads: which place of the row, whose features, and with which block of the parameters.
struct Pair {
    place: usize,
    row: usize,
    block: usize,
}

/// The pairs of every row. RankOffset has a row's rank, then (rank, row) of each other sample; ranks count from 1.
fn pairs(cx: &KernelContext, offset: InSlot, rows: usize) -> Result<Vec<Vec<Pair>>> {
    let (op, ranks) = (cx.op.name, cx.attrs::<RankAttrs>().MaxRank as i64);
    of_type(cx, DType::I32, &[offset])?;
    let mut found = Vec::with_capacity(rows);
    for line in cx.input(offset)?.data::<i32>().chunks_exact(2 * ranks as usize + 1) {
        let mut of_row = Vec::new();
        for (place, other) in line[1..].chunks_exact(2).enumerate() {
            let (own, rank, row) = (line[0] as i64, other[0] as i64, other[1] as i64);
            if own < 1 || rank < 1 {
                continue;
            }
            ensure!(
                own <= ranks && rank <= ranks && (0..rows as i64).contains(&row),
                InvalidArgument,
                "operator {op}: RankOffset must hold ranks up to {ranks} and rows below {rows}, got {line:?}"
            );
            of_row.push(Pair { place, row: row as usize, block: ((own - 1) * ranks + rank - 1) as usize });
        }
        found.push(of_row);
    }
    Ok(found)
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
            let out = t.data_mut::<T>()?;
            out.fill(0.0);
            for (pairs, out) in pairs.iter().zip(out.chunks_exact_mut(columns.max(1))) {
                for p in pairs {
                    let block = &w[p.block * features * columns..][..features * columns];
                    for (&v, w) in x[p.row * features..][..features].iter().zip(block.chunks_exact(columns.max(1))) {
                        out.iter_mut().zip(w).for_each(|(o, &w)| *o += v * w);
                    }
                }
            }
        }
        if let Some(t) = help {
            let help = t.data_mut::<T>()?;
            help.fill(0.0);
            for (i, pairs) in pairs.iter().enumerate() {
                for p in pairs {
                    let to = &mut help[(i * ranks + p.place) * features..][..features];
                    to.copy_from_slice(&x[p.row * features..][..features]);
                }
            }
        }
        if let Some(t) = own_rank {
            let lines = own.chunks_exact(2 * ranks + 1);
            t.data_mut::<T>()?.iter_mut().zip(lines).for_each(|(to, line)| *to = line[0] as T);
        }
        Ok(())
    }, other => cx.unsupported(other))
}

fn blocks_grad<T: Float + Gemm + Element>(pairs: &[Vec<Pair>], x: &[T], dout: &[T], features: usize, dw: &mut [T]) {
    let columns = dout.len() / pairs.len().max(1);
    dw.fill(T::ZERO);
    for (pairs, d) in pairs.iter().zip(dout.chunks_exact(columns.max(1))) {
        for p in pairs {
            let block = &mut dw[p.block * features * columns..][..features * columns];
            for (&v, to) in x[p.row * features..][..features].iter().zip(block.chunks_exact_mut(columns.max(1))) {
                to.iter_mut().zip(d).for_each(|(to, &d)| *to += v * d);
            }
        }
    }
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
        blocks_grad::<T>(&pairs, x.data::<T>(), dout.data::<T>(), features, dw);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static BATCH_FC: Op = Op {
    name: "batch_fc",
    inputs: fc::INS,
    outputs: fc::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_fc,
    cpu: Kernel::Pure(run_fc),
    grad: Grad::By(&BATCH_FC_GRAD),
    ..OP
};

pub static BATCH_FC_GRAD: Op = Op {
    name: "batch_fc_grad",
    inputs: fc_grad::INS,
    outputs: fc_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_fc_grad),
    ..OP
};

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

pub static TABLE: &[&Op] = &[&BATCH_FC, &BATCH_FC_GRAD, &RANK_ATTENTION, &RANK_ATTENTION_GRAD];
