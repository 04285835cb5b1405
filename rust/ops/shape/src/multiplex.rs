//! multiplex: row i of the result is row i of the input that Ids names there; shard_index: ids within one shard.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_ops_common::elements::set_zero;

attrs! {
    pub struct ShardIndexAttrs { index_num: i32, nshards: i32, shard_id: i32, ignore_value: i32 = -1 }
}

slots! {
    mod multiplex { IDS "Ids", X "X".duplicable() => OUT "Out" }
    mod multiplex_grad { IDS "Ids", DOUT "Out@GRAD" => DX "X@GRAD".duplicable() }
    mod shard_index { X "X" => OUT "Out" }
}

fn infer_multiplex(cx: &mut ShapeContext) -> Result<()> {
    let (op, ids, x) = (cx.op.name, cx.dims(multiplex::IDS)?, cx.meta(multiplex::X, 0)?);
    ensure!(
        ids.len() == 2 && (ids[1] == 1 || ids[1] < 0),
        PreconditionNotMet,
        "operator {op}: Ids must have the shape [n, 1], got {ids:?}"
    );
    let n = cx.count(multiplex::X);
    ensure!(n > 1, InvalidArgument, "operator {op}: X must be more than one tensor, got {n}");
    ensure!(x.dims.len() > 1, InvalidArgument, "operator {op}: X must have 2 dimensions or more, got {:?}", x.dims);
    for i in 1..n {
        let m = cx.meta(multiplex::X, i)?;
        ensure!(
            m.dims == x.dims && m.dtype == x.dtype,
            PreconditionNotMet,
            "operator {op}: all X must be alike, X[0] is {} of shape {:?}, X[{i}] {} of shape {:?}",
            x.dtype,
            x.dims,
            m.dtype,
            m.dims
        );
    }
    cx.set(multiplex::OUT, &x.dims, x.dtype);
    Ok(())
}

/// Which of the `n` inputs each row comes from, and the bytes of a row.
fn sources<'a>(op: &str, ids: &'a Tensor, whole: &Tensor, n: usize) -> Result<(&'a [i32], usize)> {
    ensure!(ids.dtype() == DType::I32, InvalidArgument, "operator {op}: Ids must be int32, got {}", ids.dtype());
    let rows = whole.dims().first().map_or(0, |&d| d as usize);
    let ids = ids.data::<i32>();
    ensure!(
        ids.len() >= rows,
        InvalidArgument,
        "operator {op}: Ids must name an input for each of {rows} rows, got {} of them",
        ids.len()
    );
    let ids = &ids[..rows];
    if let Some(k) = ids.iter().find(|&&k| k < 0 || k as usize >= n) {
        bail!(PreconditionNotMet, "operator {op}: Ids must be in [0, {n}), the number of inputs, got {k}");
    }
    Ok((ids, whole.nbytes() / rows.max(1)))
}

fn multiplex(cx: &mut KernelContext) -> Result<()> {
    let (op, ids, inputs) = (cx.op.name, cx.input(multiplex::IDS)?, cx.inputs(multiplex::X)?);
    let (ids, row) = sources(op, ids, inputs[0], inputs.len())?;
    let out = cx.out(multiplex::OUT)?.bytes_mut()?;
    for (i, &k) in ids.iter().enumerate() {
        out[i * row..(i + 1) * row].copy_from_slice(&inputs[k as usize].bytes()[i * row..(i + 1) * row]);
    }
    Ok(())
}

fn multiplex_grad(cx: &mut KernelContext) -> Result<()> {
    use multiplex_grad::{DOUT, DX, IDS};
    let (op, ids, dout, n) = (cx.op.name, cx.input(IDS)?, cx.input(DOUT)?, cx.n_outs(DX));
    let (ids, row) = sources(op, ids, dout, n)?;
    let from = dout.bytes();
    for k in 0..n {
        if !cx.wants_nth(DX, k) {
            continue;
        }
        let dx = cx.out_nth(DX, k)?;
        set_zero(dx)?;
        let to = dx.bytes_mut()?;
        for (i, _) in ids.iter().enumerate().filter(|(_, &of)| of as usize == k) {
            to[i * row..(i + 1) * row].copy_from_slice(&from[i * row..(i + 1) * row]);
        }
    }
    Ok(())
}

pub static MULTIPLEX: Op = Op {
    name: "multiplex",
    inputs: multiplex::INS,
    outputs: multiplex::OUTS,
    infer: infer_multiplex,
    cpu: Kernel::Pure(multiplex),
    grad: Grad::By(&MULTIPLEX_GRAD),
    ..OP
};
pub static MULTIPLEX_GRAD: Op = Op {
    name: "multiplex_grad",
    inputs: multiplex_grad::INS,
    outputs: multiplex_grad::OUTS,
    infer: |cx| {
        let (dims, dtype) = (cx.dims(multiplex_grad::DOUT)?, cx.dtype(multiplex_grad::DOUT)?);
        (0..cx.outs(multiplex_grad::DX)).for_each(|i| cx.set_nth(multiplex_grad::DX, i, &dims, dtype));
        Ok(())
    },
    cpu: Kernel::Pure(multiplex_grad),
    ..OP
};

// shard_index

#[allow(clippy::useless_conversion)] // one of the types is i64
fn shard_index(cx: &mut KernelContext) -> Result<()> {
    let (op, a, x) = (cx.op.name, cx.attrs::<ShardIndexAttrs>(), cx.input(shard_index::X)?);
    ensure!(
        a.index_num > 0 && a.nshards > 0 && 0 <= a.shard_id && a.shard_id < a.nshards,
        InvalidArgument,
        "operator {op}: index_num and nshards must be positive and shard_id in [0, nshards), got {}, {} and {}",
        a.index_num,
        a.nshards,
        a.shard_id
    );
    let (count, size) = (a.index_num as i64, (a.index_num as i64 + a.nshards as i64 - 1) / a.nshards as i64);
    dispatch!(x.dtype(), T in [i32, i64], {
        for (o, &v) in cx.out_data::<T>(shard_index::OUT)?.iter_mut().zip(x.data::<T>()) {
            let v = i64::from(v);
            ensure!(
                0 <= v && v < count,
                InvalidArgument,
                "operator {op}: the indices must be in [0, {count}), got {v}"
            );
            *o = (if v / size == a.shard_id as i64 { v % size } else { a.ignore_value as i64 }) as T;
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static SHARD_INDEX: Op = Op {
    name: "shard_index",
    inputs: shard_index::INS,
    outputs: shard_index::OUTS,
    attrs: ShardIndexAttrs::FIELDS,
    dtypes: DTypes::INDICES,
    infer: |cx| {
        let x = cx.dims(shard_index::X)?;
        ensure!(
            x.len() > 1 && x.last() != Some(&0),
            InvalidArgument,
            "operator shard_index: X must have 2 dimensions or more, the last of size 1, got {x:?}"
        );
        like_first(cx)
    },
    cpu: Kernel::Pure(shard_index),
    ..OP
};

pub static TABLE: &[&Op] = &[&MULTIPLEX, &MULTIPLEX_GRAD, &SHARD_INDEX];
