//! Collective operators of Programs, over the groups of `oar_net`, which are found by `ring_id`.
//!
//! Every operator returns when its data has arrived, whatever `use_calc_stream` is: the CPU has one stream.

use oar_comm::rows::{gather, gather_rows};
use oar_comm::{group, run};
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::grad::{Fwd, Grad, GradOp};
use oar_core::op::{infer, Kernel, KernelContext, NoAttrs, Op, ShapeContext, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{attrs, ensure, err, slots};
use oar_net::{CollectiveCall, Dtype, Group, ReduceOp, Region};
use oar_ops_common::selected_rows::{ascending, check_rows};
use std::sync::Arc;

attrs! {
    pub struct RingAttrs { ring_id: i32 = 0, use_calc_stream: bool = false }
    pub struct ReduceAttrs { ring_id: i32 = 0, root_id: i32 = 0, use_calc_stream: bool = false }
    pub struct BroadcastAttrs { ring_id: i32 = 0, root: i32 = 0, use_calc_stream: bool = false }
    pub struct AllGatherAttrs { ring_id: i32 = 0, use_calc_stream: bool = false, nranks: i32 }
    pub struct ReduceScatterAttrs { ring_id: i32 = 0, nranks: i32 = 1, use_calc_stream: bool = false }
    pub struct ScatterAttrs { ring_id: i32 = 0, root: i32 = 0, nranks: i32 = 0, use_calc_stream: bool = false }
    pub struct SendAttrs { ring_id: i32 = 0, peer: i32 = 0, use_calc_stream: bool = false }
    pub struct RecvAttrs {
        ring_id: i32 = 0, peer: i32 = 0, dtype: i32 = 5, out_shape: Vec<i32> = vec![], use_calc_stream: bool = false,
    }
    pub struct OldAllReduceAttrs { reduce_type: i32 = 0, sync_mode: bool = false }
    pub struct OldBroadcastAttrs { sync_mode: bool = false, root: i32 = 0 }
    pub struct BarrierAttrs { ring_id: i32 = 0 }
}

slots! {
    /// `Out` shares the bytes of `X`.
    mod in_place { X "X" => OUT "Out".aliases("X") }
    mod each_in_place { X "X".duplicable() => OUT "Out".duplicable().aliases("X") }
    mod reshaping { X "X" => OUT "Out" }
    mod send { X "X" => }
    /// The sender determines the number of rows.
    mod recv { => OUT "Out".kernel_allocated() }
}

/// Element types that can be sent.
const SENT: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS).union(DTypes::BOOL);

fn dtype(cx: &KernelContext, t: DType) -> Result<Dtype> {
    u8::try_from(t.proto()).ok().and_then(|n| Dtype::from_number(n).ok()).map_or_else(|| cx.unsupported(t), Ok)
}

fn shape(t: &[i64]) -> Vec<u64> {
    t.iter().map(|&n| n as u64).collect()
}

/// A region over the bytes of an input.
fn read(t: &Tensor) -> Region {
    let bytes = t.bytes();
    // SAFETY: an input is only read, and `run` returns when the operation has ended, before the borrow does.
    unsafe { Region::raw(bytes.as_ptr().cast_mut(), bytes.len(), None) }
}

/// A region over the bytes of an output; shared bytes are copied first.
fn write(t: &mut Tensor) -> Result<Region> {
    let bytes = t.bytes_mut()?;
    // SAFETY: `run` returns when the operation has ended, before the exclusive borrow does.
    Ok(unsafe { Region::raw(bytes.as_mut_ptr(), bytes.len(), None) })
}

/// A rank of the group, from an attribute.
fn member(cx: &KernelContext, group: &Group, what: &str, rank: i32) -> Result<usize> {
    let world = group.world();
    let found = usize::try_from(rank).ok().filter(|r| *r < world);
    found.ok_or_else(|| {
        err!(InvalidArgument, "operator {}: {what} must be a rank in [0, {world}), got {rank}", cx.op.name)
    })
}

/// Runs a collective over the bytes of `Out`, which starts as `X`.
fn run_in_place(
    cx: &mut KernelContext,
    group: &Group,
    call: impl FnOnce(Region, Dtype) -> CollectiveCall,
) -> Result<()> {
    let t = cx.out(in_place::OUT)?.dtype();
    let kind = dtype(cx, t)?;
    let out = cx.out(in_place::OUT)?;
    let dims = shape(out.dims());
    run(group, call(write(out)?, kind).shape(&dims)).map(drop)
}

fn all_reduce(cx: &mut KernelContext, ring: i32, op: ReduceOp) -> Result<()> {
    let group = group(cx.op.name, ring)?;
    run_in_place(cx, &group, |bytes, kind| CollectiveCall::all_reduce(bytes, kind, op))
}

/// Sums the rows of all ranks; row numbers ascend, so that every rank computes the same bits.
fn sum_rows(cx: &mut KernelContext) -> Result<()> {
    let (op, ring) = (cx.op.name, ring(cx));
    let group = group(op, ring)?;
    let Some(Value::Rows(x)) = cx.outs.slot(in_place::OUT.0).first().map(|o| &o.value) else {
        return Err(err!(NotFound, "operator {op}: output 'Out' is missing"));
    };
    check_rows(op, x)?;
    let counts = gather(&group, Tensor::scalar(x.rows.len() as i64)?)?.to_i64s()?;
    let counts: Vec<usize> = counts.iter().map(|n| *n as usize).collect();
    let all = gather_rows(&group, &counts, x)?;
    let sum = ascending(op, &all)?.into_owned();
    cx.set(in_place::OUT, Value::Rows(Box::new(sum)));
    Ok(())
}

fn reduce(cx: &mut KernelContext, op: ReduceOp) -> Result<()> {
    let a = cx.attrs::<ReduceAttrs>();
    let group = group(cx.op.name, a.ring_id)?;
    let root = member(cx, &group, "root_id", a.root_id)?;
    run_in_place(cx, &group, |bytes, kind| CollectiveCall::reduce(bytes, kind, op, root))
}

fn broadcast(cx: &mut KernelContext, ring: i32, root: i32) -> Result<()> {
    let group = group(cx.op.name, ring)?;
    let root = member(cx, &group, "root", root)?;
    run_in_place(cx, &group, |bytes, kind| CollectiveCall::broadcast(bytes, kind, root))
}

/// The attribute `nranks` determines the output's shape, so it must be the size of the ring.
fn sized(cx: &KernelContext, ring: i32, nranks: i32) -> Result<Arc<Group>> {
    let group = group(cx.op.name, ring)?;
    ensure!(
        group.world() as i64 == nranks as i64,
        InvalidArgument,
        "operator {}: nranks is {nranks}, but ring {ring} has {} ranks",
        cx.op.name,
        group.world()
    );
    Ok(group)
}

/// Runs a collective that fills `Out` from `X`. Ranks compare the shape of the smaller of the two, which is one rank's
/// part.
fn run_reshaping(
    cx: &mut KernelContext,
    group: &Group,
    part_of: fn(&[i64], &[i64]) -> Vec<u64>,
    call: impl FnOnce(Region, Region, Dtype) -> CollectiveCall,
) -> Result<()> {
    let x = cx.input(reshaping::X)?;
    let kind = dtype(cx, x.dtype())?;
    let out = cx.out(reshaping::OUT)?;
    let part = part_of(x.dims(), out.dims());
    run(group, call(read(x), write(out)?, kind).shape(&part)).map(drop)
}

fn all_gather(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<AllGatherAttrs>();
    let group = sized(cx, a.ring_id, a.nranks)?;
    run_reshaping(cx, &group, |x, _| shape(x), CollectiveCall::all_gather)
}

fn reduce_scatter(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ReduceScatterAttrs>();
    let group = sized(cx, a.ring_id, a.nranks)?;
    run_reshaping(
        cx,
        &group,
        |_, out| shape(out),
        |x, out, kind| CollectiveCall::reduce_scatter(x, out, kind, ReduceOp::Sum),
    )
}

fn scatter(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ScatterAttrs>();
    let group = sized(cx, a.ring_id, a.nranks)?;
    let root = member(cx, &group, "root", a.root)?;
    run_reshaping(cx, &group, |_, out| shape(out), |x, out, kind| CollectiveCall::scatter(x, out, kind, root))
}

/// The number of elements is sent before the data: it determines the first size of the receiver's output.
fn send_to(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<SendAttrs>();
    let group = group(cx.op.name, a.ring_id)?;
    let peer = member(cx, &group, "peer", a.peer)?;
    let x = cx.input(send::X)?;
    let kind = dtype(cx, x.dtype())?;
    run(&group, CollectiveCall::send((x.numel() as i64).to_ne_bytes().to_vec(), Dtype::I64, peer))?;
    run(&group, CollectiveCall::send(read(x), kind, peer)).map(drop)
}

fn recv_from(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RecvAttrs>();
    let group = group(cx.op.name, a.ring_id)?;
    let peer = member(cx, &group, "peer", a.peer)?;
    let element = recv_dtype(a)?;
    let (kind, mut count) = (dtype(cx, element)?, [0u8; 8]);
    // SAFETY: `count` outlives the call, which `run` waits for, and is not accessed meanwhile.
    let region = unsafe { Region::raw(count.as_mut_ptr(), count.len(), None) };
    run(&group, CollectiveCall::recv(region, Dtype::I64, peer))?;
    let count = i64::from_ne_bytes(count);
    let mut dims: Dims = a.out_shape.iter().map(|&n| n as i64).collect();
    let rest: i64 = dims[1..].iter().product();
    ensure!(
        count >= 0 && (rest > 0 && count % rest == 0 || count == 0),
        InvalidArgument,
        "operator recv_v2: rank {peer} sends {count} elements, which do not fill rows of shape {:?}",
        &dims[1..]
    );
    dims[0] = if rest == 0 { dims[0].max(0) } else { count / rest };
    let mut out = Tensor::empty(element, &dims)?;
    run(&group, CollectiveCall::recv(write(&mut out)?, kind, peer))?;
    cx.set(recv::OUT, out);
    Ok(())
}

fn old_all_reduce(cx: &mut KernelContext) -> Result<()> {
    // Values of reduce_type: 0 sum, 1 product, 2 maximum, 3 minimum.
    let kind = cx.attrs::<OldAllReduceAttrs>().reduce_type;
    let op = match kind {
        0 => ReduceOp::Sum,
        1 => ReduceOp::Prod,
        2 => ReduceOp::Max,
        3 => ReduceOp::Min,
        _ => return Err(err!(InvalidArgument, "operator allreduce: reduce_type must be 0 to 3, got {kind}")),
    };
    all_reduce(cx, 0, op)
}

/// Identity: a CPU operator's data has arrived when it returns.
fn pass(_: &mut KernelContext) -> Result<()> {
    Ok(())
}

fn infer_each(cx: &mut ShapeContext) -> Result<()> {
    use each_in_place::{OUT, X};
    cx.set_outs(OUT, cx.count(X))?;
    for i in 0..cx.outs(OUT).min(cx.count(X)) {
        let meta = cx.meta(X, i)?;
        cx.set_meta(OUT, i, meta);
    }
    Ok(())
}

fn first_size(cx: &mut ShapeContext, what: impl Fn(i64) -> Result<i64>) -> Result<()> {
    let mut dims = cx.dims(reshaping::X)?;
    ensure!(!dims.is_empty(), InvalidArgument, "operator {}: 'X' must have at least one dimension", cx.op.name);
    dims[0] = if dims[0] < 0 { -1 } else { what(dims[0])? };
    let dtype = cx.dtype(reshaping::X)?;
    cx.set(reshaping::OUT, &dims, dtype);
    Ok(())
}

fn infer_all_gather(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.attrs::<AllGatherAttrs>().nranks as i64;
    ensure!(n >= 2, InvalidArgument, "operator c_allgather: nranks must be at least 2, got {n}");
    first_size(cx, |d| Ok(d.saturating_mul(n)))
}

fn infer_reduce_scatter(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.attrs::<ReduceScatterAttrs>().nranks as i64;
    ensure!(n >= 1, InvalidArgument, "operator c_reducescatter: nranks must be at least 1, got {n}");
    first_size(cx, |d| {
        let whole = d % n == 0;
        ensure!(whole, InvalidArgument, "operator c_reducescatter: dim[0] ({d}) is not divisible by nranks ({n})");
        Ok(d / n)
    })
}

fn infer_scatter(cx: &mut ShapeContext) -> Result<()> {
    let (n, root) = (cx.attrs::<ScatterAttrs>().nranks as i64, cx.attrs::<ScatterAttrs>().root);
    ensure!(n >= 2, InvalidArgument, "operator c_scatter: nranks must be at least 2, got {n}");
    ensure!(root >= 0, InvalidArgument, "operator c_scatter: root must not be negative, got {root}");
    first_size(cx, |d| {
        let whole = d % n == 0;
        ensure!(whole, InvalidArgument, "operator c_scatter: dim[0] ({d}) is not divisible by nranks ({n})");
        Ok(d / n)
    })
}

fn infer_send(cx: &mut ShapeContext) -> Result<()> {
    let peer = cx.attrs::<SendAttrs>().peer;
    ensure!(peer >= 0, InvalidArgument, "operator send_v2: peer must not be negative, got {peer}");
    Ok(())
}

fn infer_recv(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<RecvAttrs>();
    ensure!(a.peer >= 0, InvalidArgument, "operator recv_v2: peer must not be negative, got {}", a.peer);
    ensure!(!a.out_shape.is_empty(), InvalidArgument, "operator recv_v2: out_shape must have at least one size");
    let dims: Dims = a.out_shape.iter().map(|&n| n as i64).collect();
    cx.set(recv::OUT, &dims, recv_dtype(a)?);
    Ok(())
}

fn recv_dtype(a: &RecvAttrs) -> Result<DType> {
    DType::from_proto(a.dtype)
        .ok_or_else(|| err!(InvalidArgument, "operator recv_v2: no data type has the number {}", a.dtype))
}

/// The gradient by another operator with the same rank attribute: `X@GRAD` from `Out@GRAD`.
fn all_gather_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let a = f.attrs::<AllGatherAttrs>();
    let attrs = ReduceScatterAttrs { ring_id: a.ring_id, nranks: a.nranks, use_calc_stream: a.use_calc_stream };
    Ok(vec![GradOp::of_first(&C_REDUCESCATTER, Arc::new(attrs))])
}

const SELF_GRAD: &[(&str, &str)] = &[("X", "Out@GRAD"), ("Out", "X@GRAD")];

/// Each row: static, name, attributes, gradient, kernel.
macro_rules! in_place {
    ($($op:ident $name:literal $attrs:ident $grad:expr, $kernel:expr;)*) => {$(
        pub static $op: Op = Op {
            name: $name, inputs: in_place::INS, outputs: in_place::OUTS, attrs: $attrs::FIELDS, dtypes: SENT,
            infer: infer::like_first, cpu: Kernel::Host($kernel), grad: $grad, ..OP
        };
    )*};
}

fn ring(cx: &KernelContext) -> i32 {
    cx.attrs::<RingAttrs>().ring_id
}

in_place! {
    C_ALLREDUCE_MAX "c_allreduce_max" RingAttrs Grad::None, |cx| all_reduce(cx, ring(cx), ReduceOp::Max);
    C_ALLREDUCE_MIN "c_allreduce_min" RingAttrs Grad::None, |cx| all_reduce(cx, ring(cx), ReduceOp::Min);
    C_ALLREDUCE_PROD "c_allreduce_prod" RingAttrs Grad::None, |cx| all_reduce(cx, ring(cx), ReduceOp::Prod);
    C_REDUCE_SUM "c_reduce_sum" ReduceAttrs Grad::None, |cx| reduce(cx, ReduceOp::Sum);
    C_REDUCE_MAX "c_reduce_max" ReduceAttrs Grad::None, |cx| reduce(cx, ReduceOp::Max);
    C_REDUCE_MIN "c_reduce_min" ReduceAttrs Grad::None, |cx| reduce(cx, ReduceOp::Min);
    C_REDUCE_PROD "c_reduce_prod" ReduceAttrs Grad::None, |cx| reduce(cx, ReduceOp::Prod);
    C_BROADCAST "c_broadcast" BroadcastAttrs Grad::None, |cx| {
        let a = cx.attrs::<BroadcastAttrs>();
        broadcast(cx, a.ring_id, a.root)
    };
    ALLREDUCE "allreduce" OldAllReduceAttrs Grad::None, old_all_reduce;
    BROADCAST "broadcast" OldBroadcastAttrs Grad::None, |cx| broadcast(cx, 0, cx.attrs::<OldBroadcastAttrs>().root);
}

pub static C_ALLREDUCE_SUM: Op = Op {
    name: "c_allreduce_sum",
    inputs: in_place::INS,
    outputs: in_place::OUTS,
    attrs: RingAttrs::FIELDS,
    dtypes: SENT,
    infer: infer::kind_of_first,
    cpu: Kernel::Host(|cx| all_reduce(cx, ring(cx), ReduceOp::Sum)),
    sparse_kernel: SparseKernel::Own(sum_rows),
    grad: Grad::Map(&C_ALLREDUCE_SUM, SELF_GRAD),
    ..OP
};
pub static BARRIER: Op = Op {
    name: "barrier",
    inputs: in_place::INS,
    outputs: in_place::OUTS,
    attrs: BarrierAttrs::FIELDS,
    infer: infer::kind_of_first,
    cpu: Kernel::Host(|cx| {
        let group = group(cx.op.name, cx.attrs::<BarrierAttrs>().ring_id)?;
        run(&group, CollectiveCall::barrier()).map(drop)
    }),
    sparse_kernel: SparseKernel::Same,
    ..OP
};
pub static C_SYNC_CALC_STREAM: Op = Op {
    name: "c_sync_calc_stream",
    inputs: in_place::INS,
    outputs: in_place::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer::kind_of_first,
    cpu: Kernel::Host(pass),
    sparse_kernel: SparseKernel::Same,
    ..OP
};

pub static C_SYNC_COMM_STREAM: Op = Op {
    name: "c_sync_comm_stream",
    inputs: each_in_place::INS,
    outputs: each_in_place::OUTS,
    attrs: BarrierAttrs::FIELDS,
    infer: infer_each,
    cpu: Kernel::Host(pass),
    sparse_kernel: SparseKernel::Same,
    ..OP
};
pub static C_ALLGATHER: Op = Op {
    name: "c_allgather",
    inputs: reshaping::INS,
    outputs: reshaping::OUTS,
    dtypes: SENT,
    attrs: AllGatherAttrs::FIELDS,
    infer: infer_all_gather,
    cpu: Kernel::Host(all_gather),
    grad: Grad::Fn(all_gather_grad),
    ..OP
};
pub static C_REDUCESCATTER: Op = Op {
    name: "c_reducescatter",
    inputs: reshaping::INS,
    outputs: reshaping::OUTS,
    dtypes: SENT,
    attrs: ReduceScatterAttrs::FIELDS,
    infer: infer_reduce_scatter,
    cpu: Kernel::Host(reduce_scatter),
    ..OP
};
pub static C_SCATTER: Op = Op {
    name: "c_scatter",
    inputs: reshaping::INS,
    outputs: reshaping::OUTS,
    dtypes: SENT,
    attrs: ScatterAttrs::FIELDS,
    infer: infer_scatter,
    cpu: Kernel::Host(scatter),
    ..OP
};
pub static SEND_V2: Op = Op {
    name: "send_v2",
    inputs: send::INS,
    attrs: SendAttrs::FIELDS,
    dtypes: SENT,
    infer: infer_send,
    cpu: Kernel::Host(send_to),
    ..OP
};
pub static RECV_V2: Op = Op {
    name: "recv_v2",
    outputs: recv::OUTS,
    attrs: RecvAttrs::FIELDS,
    infer: infer_recv,
    cpu: Kernel::Host(recv_from),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &C_ALLREDUCE_SUM,
    &C_ALLREDUCE_MAX,
    &C_ALLREDUCE_MIN,
    &C_ALLREDUCE_PROD,
    &C_REDUCE_SUM,
    &C_REDUCE_MAX,
    &C_REDUCE_MIN,
    &C_REDUCE_PROD,
    &C_BROADCAST,
    &ALLREDUCE,
    &BROADCAST,
    &BARRIER,
    &C_SYNC_CALC_STREAM,
    &C_SYNC_COMM_STREAM,
    &C_ALLGATHER,
    &C_REDUCESCATTER,
    &C_SCATTER,
    &SEND_V2,
    &RECV_V2,
];
