//! shard_index: ids relative to one shard.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::shape::along_axis::shard_ids;

attrs! {
    pub struct ShardIndexAttrs { index_num: i32, nshards: i32, shard_id: i32, ignore_value: i32 = -1 }
}

slots! {
    mod shard_index { X "X" => OUT "Out" }
}

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
        let (ids, places) = (x.data::<T>(), (a.shard_id as i64, a.ignore_value as i64));
        shard_ids(ids, count, size, places, cx.out_data::<T>(shard_index::OUT)?, |v| v as T).map_err(|v| {
            err!(InvalidArgument, "operator {op}: the indices must be in [0, {count}), got {v}")
        })
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

pub static TABLE: &[&Op] = &[&SHARD_INDEX];
