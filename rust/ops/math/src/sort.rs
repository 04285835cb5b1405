//! argsort, top_k and top_k_v2: sorted values along an axis and their positions.

use super::along_axis::{axis_sizes, shape_of_x, REAL};
use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::{axis, to_usize};
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::{order, shape::copy};

attrs! {
    pub struct ArgsortAttrs { axis: i32 = -1, descending: bool = false }
    pub struct TopkAttrs { k: i32 = 1 }
    pub struct TopkV2Attrs { k: i32 = 1, axis: i32 = -1, largest: bool = true, sorted: bool = true }
}

slots! {
    mod argsort { X "X" => OUT "Out".kernel_allocated(), INDICES "Indices".kernel_allocated() }
    mod argsort_grad { INDICES "Indices", X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod top_k { X "X", K "K".dispensable() => OUT "Out".kernel_allocated(), INDICES "Indices".kernel_allocated() }
    mod top_k_grad { X "X".meta_only(), INDICES "Indices", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Moves the axis to the end, so that the kernels work on rows.
fn to_last(t: &Tensor, at: usize) -> Result<Tensor> {
    if at + 1 == t.rank() {
        return Ok(t.clone());
    }
    let perm = last(t.rank(), at);
    moved(t, &perm)
}

/// The opposite of [`to_last`].
fn from_last(t: Tensor, at: usize) -> Result<Tensor> {
    if at + 1 == t.rank() {
        return Ok(t);
    }
    let there = last(t.rank(), at);
    let mut back = vec![0; there.len()];
    there.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    moved(&t, &back)
}

fn last(rank: usize, at: usize) -> Vec<usize> {
    (0..rank).filter(|&i| i != at).chain([at]).collect()
}

fn moved(t: &Tensor, perm: &[usize]) -> Result<Tensor> {
    let dims: Dims = perm.iter().map(|&i| t.dims()[i]).collect();
    let mut out = Tensor::empty(t.dtype(), &dims)?;
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8, bool], {
        copy::transpose(t.data::<T>(), &to_usize(t.dims()), perm, out.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "sorting has no CPU kernel for data type {other}"));
    Ok(out)
}

/// Sets the metas of the values (X's data type) and of the int64 positions: shape `dims`, LoD of X.
fn set_sorted(cx: &mut ShapeContext, dims: &[i64], [values, indices]: [OutSlot; 2]) -> Result<()> {
    let dtype = cx.dtype(argsort::X)?;
    cx.set(values, dims, dtype);
    cx.set(indices, dims, DType::I64);
    cx.share_lod(values, argsort::X);
    cx.share_lod(indices, argsort::X);
    Ok(())
}

/// Moves the axis back and stores the outputs.
fn set_outputs(cx: &mut KernelContext, values: Tensor, indices: Tensor, at: usize, slots: [OutSlot; 2]) -> Result<()> {
    let lod = &cx.input(argsort::X)?.lod;
    cx.set(slots[0], from_last(values, at)?.with_lod(lod.clone()));
    cx.set(slots[1], from_last(indices, at)?.with_lod(lod.clone()));
    Ok(())
}

fn run_argsort(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<ArgsortAttrs>();
    let x = cx.input(argsort::X)?;
    let at = axis(cx.op.name, a.axis as i64, x.rank())?;
    let rows = to_last(x, at)?;
    let n = x.dims()[at] as usize;
    ensure!(n < u32::MAX as usize, Unimplemented, "operator argsort: {n} elements along an axis are too many");
    let mut values = Tensor::empty(x.dtype(), rows.dims())?;
    let mut indices = Tensor::empty(DType::I64, rows.dims())?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8, bool], {
        order::sort(a.descending, rows.data::<T>(), n, values.data_mut::<T>()?, indices.data_mut::<i64>()?);
    }, other => return cx.unsupported(other));
    set_outputs(cx, values, indices, at, [argsort::OUT, argsort::INDICES])
}

fn infer_argsort(cx: &mut ShapeContext) -> Result<()> {
    let x = cx.dims(argsort::X)?;
    axis(cx.op.name, cx.attrs::<ArgsortAttrs>().axis as i64, x.len())?;
    set_sorted(cx, &x, [argsort::OUT, argsort::INDICES])
}

/// k, axis and direction of a top-k.
struct TopKArgs {
    k: i64,
    at: usize,
    largest: bool,
}

fn top(op: &Op, attrs: &oar_core::op::Attrs, rank: usize, k: Option<&Tensor>) -> Result<TopKArgs> {
    let (k_attr, at, largest) = match attrs.as_any().downcast_ref::<TopkV2Attrs>() {
        Some(a) => (a.k, a.axis, a.largest),
        None => (attrs.as_any().downcast_ref::<TopkAttrs>().map_or(1, |a| a.k), -1, true),
    };
    let k = match k {
        Some(t) => *t.to_i64s()?.first().ok_or_else(|| err!(InvalidArgument, "operator {}: K is empty", op.name))?,
        None => k_attr as i64,
    };
    ensure!(k >= 1, InvalidArgument, "operator {}: k must be at least 1, got {k}", op.name);
    Ok(TopKArgs { k, at: axis(op.name, at as i64, rank)?, largest })
}

fn infer_topk(cx: &mut ShapeContext) -> Result<()> {
    let mut x = cx.dims(top_k::X)?;
    let k = cx.tensor(top_k::K);
    let top = top(cx.op, cx.attrs, x.len(), k)?;
    // The attribute is ignored while the value of K is unknown.
    let known = k.is_some() || !cx.has(top_k::K);
    ensure!(
        !known || x[top.at] < 0 || x[top.at] >= top.k,
        InvalidArgument,
        "operator {}: the input must have at least {} elements along axis {}, got shape {x:?}",
        cx.op.name,
        top.k,
        top.at
    );
    x[top.at] = if known { top.k } else { -1 };
    set_sorted(cx, &x, [top_k::OUT, top_k::INDICES])
}

fn topk(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(top_k::X)?;
    let top = top(cx.op, cx.attrs, x.rank(), cx.opt(top_k::K))?;
    let rows = to_last(x, top.at)?;
    let n = x.dims()[top.at] as usize;
    let mut dims = Dims::from_slice(rows.dims());
    dims[x.rank() - 1] = top.k;
    let mut values = Tensor::empty(x.dtype(), &dims)?;
    let mut indices = Tensor::empty(DType::I64, &dims)?;
    let k = top.k as usize;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        order::topk(top.largest, rows.data::<T>(), n, k, values.data_mut::<T>()?, indices.data_mut::<i64>()?);
    }, other => return cx.unsupported(other));
    set_outputs(cx, values, indices, top.at, [top_k::OUT, top_k::INDICES])
}

/// Slots of a sort operator's gradient.
struct SortGrad {
    x: InSlot,
    indices: InSlot,
    dout: InSlot,
    dx: OutSlot,
}

const ARGSORT_SLOTS: SortGrad =
    SortGrad { x: argsort_grad::X, indices: argsort_grad::INDICES, dout: argsort_grad::DOUT, dx: argsort_grad::DX };

const TOP_K_SLOTS: SortGrad =
    SortGrad { x: top_k_grad::X, indices: top_k_grad::INDICES, dout: top_k_grad::DOUT, dx: top_k_grad::DX };

/// dx[.., indices[.., j, ..], ..] = dout[.., j, ..] along the axis, zero elsewhere.
fn put_back(cx: &mut KernelContext, slots: SortGrad, axis_attr: i32) -> Result<()> {
    let (x, indices, dout) = (cx.input(slots.x)?, cx.input(slots.indices)?, cx.input(slots.dout)?);
    let name = cx.op.name;
    let at = axis(name, axis_attr as i64, x.rank())?;
    let (_, n, inner) = axis_sizes(x.dims(), at);
    let others = |t: &Tensor| t.rank() == x.rank() && (0..x.rank()).all(|i| i == at || t.dims()[i] == x.dims()[i]);
    ensure!(
        indices.dims() == dout.dims() && others(indices) && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator {name}: Indices {indices:?} and Out@GRAD {dout:?} do not fit X {x:?} along axis {at}"
    );
    let k = indices.dims()[at] as usize;
    ensure!(indices.dtype() == DType::I64, InvalidArgument, "operator {name}: Indices must be int64");
    let indices = indices.data::<i64>();
    if let Some(&bad) = indices.iter().find(|&&i| i < 0 || i >= n as i64) {
        bail!(OutOfRange, "operator {name}: index {bad} is outside an axis of {n} elements");
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        order::put_back(indices, dout.data::<T>(), (n, k, inner), cx.out_data::<T>(slots.dx)?);
        Ok(())
    }, other => cx.unsupported(other))
}

pub static ARGSORT: Op = Op {
    name: "argsort",
    inputs: argsort::INS,
    outputs: argsort::OUTS,
    attrs: ArgsortAttrs::FIELDS,
    dtypes: REAL.union(DTypes::BOOL),
    infer: infer_argsort,
    cpu: Kernel::Pure(run_argsort),
    grad: Grad::By(&ARGSORT_GRAD),
    ..OP
};

pub static ARGSORT_GRAD: Op = Op {
    name: "argsort_grad",
    inputs: argsort_grad::INS,
    outputs: argsort_grad::OUTS,
    attrs: ArgsortAttrs::FIELDS,
    infer: |cx| shape_of_x(cx, argsort_grad::X, argsort_grad::DOUT, argsort_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, ARGSORT_SLOTS, cx.attrs::<ArgsortAttrs>().axis)),
    ..OP
};

pub static TOP_K: Op = Op {
    name: "top_k",
    inputs: top_k::INS,
    outputs: top_k::OUTS,
    dtypes: REAL,
    attrs: TopkAttrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_GRAD),
    ..OP
};

pub static TOP_K_GRAD: Op = Op {
    name: "top_k_grad",
    inputs: top_k_grad::INS,
    outputs: top_k_grad::OUTS,
    dtypes: REAL,
    attrs: TopkAttrs::FIELDS,
    infer: |cx| shape_of_x(cx, top_k_grad::X, top_k_grad::DOUT, top_k_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, TOP_K_SLOTS, -1)),
    ..OP
};

pub static TOP_K_V2: Op = Op {
    name: "top_k_v2",
    inputs: top_k::INS,
    outputs: top_k::OUTS,
    dtypes: REAL,
    attrs: TopkV2Attrs::FIELDS,
    infer: infer_topk,
    cpu: Kernel::Pure(topk),
    grad: Grad::By(&TOP_K_V2_GRAD),
    ..OP
};

pub static TOP_K_V2_GRAD: Op = Op {
    name: "top_k_v2_grad",
    inputs: top_k_grad::INS,
    outputs: top_k_grad::OUTS,
    dtypes: REAL,
    attrs: TopkV2Attrs::FIELDS,
    infer: |cx| shape_of_x(cx, top_k_grad::X, top_k_grad::DOUT, top_k_grad::DX),
    cpu: Kernel::Pure(|cx| put_back(cx, TOP_K_SLOTS, cx.attrs::<TopkV2Attrs>().axis)),
    ..OP
};

pub static TABLE: &[&Op] = &[&ARGSORT, &ARGSORT_GRAD, &TOP_K, &TOP_K_GRAD, &TOP_K_V2, &TOP_K_V2_GRAD];
