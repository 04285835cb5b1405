//! dgc_allreduce: exchanges the elements chosen by `dgc`. In 2.0.2 it is part of the executor
//! (sparse_all_reduce_op_handle.cc), so the operator is Oar's own; `static/trainers.py` inserts it in place of a
//! gradient's all-reduce.

use oar_comm::rows::raw;
use oar_comm::{group, run as all};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{infer, Kernel, KernelContext, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, ensure, err, slots};
use oar_kernels::optimizer::dgc::decode;
use oar_net::{CollectiveCall, Dtype, ReduceOp, Region};
use oar_ops_common::tensor_attr::scalar;

attrs! {
    /// With a negative ring, all encodings are this process's own.
    pub struct ExchangeAttrs { ring_id: i32 = 0, rampup_begin_step: f32 = 0.0 }
}

slots! {
    /// `Encoded` holds the encodings of this process's places, as written by `dgc`.
    mod exchange { X "X", ENCODED "Encoded".duplicable(), STEP "current_step" => OUT "Out".aliases("X") }
}

/// The encodings of all ranks, concatenated.
fn gathered(cx: &KernelContext, ring: i32, mine: &[f32]) -> Result<Tensor> {
    let mine = Tensor::from_slice(mine, &[mine.len() as i64])?;
    if ring < 0 || mine.numel() == 0 {
        return Ok(mine);
    }
    let group = group(cx.op.name, ring)?;
    let found = Tensor::empty(DType::F32, &[(mine.numel() * group.world()) as i64])?;
    let call = CollectiveCall::all_gather(raw(&mine), raw(&found), Dtype::F32).shape(&[mine.numel() as u64]);
    all(&group, call)?;
    Ok(found)
}

/// Before compression begins, the whole gradient is all-reduced.
fn whole(cx: &mut KernelContext, ring: i32) -> Result<()> {
    if ring < 0 {
        return Ok(());
    }
    let group = group(cx.op.name, ring)?;
    let out = cx.out(exchange::OUT)?;
    let dims: Vec<u64> = out.dims().iter().map(|&n| n as u64).collect();
    let bytes = out.bytes_mut()?;
    // SAFETY: the operation has ended when `all` returns, before the exclusive borrow does.
    let data = unsafe { Region::raw(bytes.as_mut_ptr(), bytes.len(), None) };
    all(&group, CollectiveCall::all_reduce(data, Dtype::F32, ReduceOp::Sum).shape(&dims)).map(drop)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<ExchangeAttrs>());
    if scalar(cx, exchange::STEP)?.trunc() < f64::from(a.rampup_begin_step.trunc()) {
        return whole(cx, a.ring_id);
    }
    let parts = cx.inputs(exchange::ENCODED)?;
    let size = parts.first().map_or(0, |t| t.numel());
    let mut mine = Vec::with_capacity(size * parts.len());
    for part in parts {
        ensure!(
            part.dtype() == DType::F32 && part.numel() == size && size.is_multiple_of(2),
            InvalidArgument,
            "operator {op}: Encoded must be float32, of one even size, got {} {:?}",
            part.dtype(),
            part.dims()
        );
        mine.extend_from_slice(part.data::<f32>());
    }
    let found = gathered(cx, a.ring_id, &mine)?;
    let sum = cx.out_data::<f32>(exchange::OUT)?;
    let whole = sum.len();
    // In the order of ranks, so that every rank computes the same bits.
    decode(found.data::<f32>(), size, sum).map_err(|at| {
        err!(InvalidArgument, "operator {op}: Encoded names element {at} of a gradient that has {whole}")
    })?;
    Ok(())
}

pub static DGC_ALLREDUCE: Op = Op {
    name: "dgc_allreduce",
    inputs: exchange::INS,
    outputs: exchange::OUTS,
    attrs: ExchangeAttrs::FIELDS,
    dtypes: DTypes::of(&[DType::F32]),
    infer: infer::like_first,
    cpu: Kernel::Host(run),
    ..OP
};
