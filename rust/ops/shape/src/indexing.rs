//! Operators that select elements by index or condition: gather, scatter, where, one_hot_v2.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::{axis, numel};
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::zip;
use oar_kernels::shape::along_axis::{clear_overwritten, coordinates, gather_along, scatter_along};
use oar_kernels::shape::copy::{one_hot as one_hot_rows, select, OutOfRange};
use oar_kernels::shape::index::{self as rows, Scatter};
use oar_kernels::types::Number;
use oar_ops_common::by_size;
use oar_ops_common::elements::{copy_to, set_zero, words, words_mut};
use oar_ops_common::index::{index_of, out_of_range};
use oar_ops_common::tensor_attr::{data_type, int_attr, int_or_unknown};

attrs! {
    pub struct GatherAttrs { overwrite: bool = true }
    pub struct ScatterAttrs { overwrite: bool = true }
    pub struct OneHotAttrs { depth: i32 = -1, dtype: i32 = 5, allow_out_of_range: bool = false }
}

// gather: out[i] = x[index[i]] along an axis.

slots! {
    mod gather { X "X", INDEX "Index", AXIS "Axis".dispensable() => OUT "Out" }
    mod gather_grad { INDEX "Index", AXIS "Axis".dispensable(), X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The normalized axis and the output shape: that of x, with the number of indices as its size at the axis.
fn gathered(op: &str, x: &[i64], index: &[i64], at: i64) -> Result<(usize, Dims)> {
    ensure!(
        index.len() == 1 || (index.len() == 2 && index[1] == 1),
        InvalidArgument,
        "operator {op}: Index must have the shape [n] or [n, 1], got {index:?}"
    );
    ensure!(!x.is_empty(), InvalidArgument, "operator {op}: X must have at least one dimension");
    let at = axis(op, at, x.len())?;
    let mut out = Dims::from_slice(x);
    out[at] = index[0];
    Ok((at, out))
}

fn infer_gather(cx: &mut ShapeContext) -> Result<()> {
    let (x, index) = (cx.dims(gather::X)?, cx.dims(gather::INDEX)?);
    let dtype = cx.dtype(gather::X)?;
    let at = int_or_unknown(cx, gather::AXIS, 0)?;
    let (_, mut out) = gathered(cx.op.name, &x, &index, at.unwrap_or(0))?;
    if at.is_none() {
        out = Dims::from_elem(-1, x.len()); // the axis is unknown while a Program is built
    }
    cx.set(gather::OUT, &out, dtype);
    cx.share_lod(gather::OUT, gather::X);
    Ok(())
}

fn gather(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(gather::X)?);
    let at = axis(op, int_attr(cx, gather::AXIS, 0)?, x.rank())?;
    let (_, n, inner) = split(x.dims(), at);
    let ids = index_of(op, cx.input(gather::INDEX)?)?;
    let out = cx.out(gather::OUT)?;
    by_size!(x.dtype(), T, {
        gather_along(words::<T>(x), &ids, (n, inner), words_mut::<T>(out)?).map_err(|e| out_of_range(op, e))?;
    });
    Ok(())
}

/// Sizes before, at and after an axis.
fn split(dims: &[i64], at: usize) -> (usize, usize, usize) {
    (numel(&dims[..at]), dims[at] as usize, numel(&dims[at + 1..]))
}

fn gather_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, index) = (cx.op.name, cx.input(gather_grad::INDEX)?);
    let (x, dout) = (cx.input(gather_grad::X)?, cx.input(gather_grad::DOUT)?);
    let (at, dims) = gathered(op, x.dims(), index.dims(), int_attr(cx, gather_grad::AXIS, 0)?)?;
    ensure!(
        dout.dims() == &dims[..],
        InvalidArgument,
        "operator gather_grad: Out@GRAD must have the shape {dims:?}, got {:?}",
        dout.dims()
    );
    // Duplicate indices: the last gradient wins (overwrite = true), else gradients are summed (overwrite = false, or an
    // Axis).
    let overwrite = !cx.has(gather_grad::AXIS) && cx.attrs::<GatherAttrs>().overwrite;
    let mode = if overwrite { Scatter::Overwrite } else { Scatter::Add };
    let ids = index_of(op, index)?;
    let (_, n, inner) = split(x.dims(), at);
    let dx = cx.out(gather_grad::DX)?;
    set_zero(dx)?;
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, u8, f16, bf16], {
        let (from, to) = (dout.data::<T>(), dx.data_mut::<T>()?);
        scatter_along(mode, from, &ids[..], (n, inner), to).map_err(|e| out_of_range(op, e))?;
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static GATHER: Op = Op {
    name: "gather",
    inputs: gather::INS,
    outputs: gather::OUTS,
    attrs: GatherAttrs::FIELDS,
    infer: infer_gather,
    cpu: Kernel::Pure(gather),
    grad: Grad::By(&GATHER_GRAD),
    ..OP
};
pub static GATHER_GRAD: Op = Op {
    name: "gather_grad",
    inputs: gather_grad::INS,
    outputs: gather_grad::OUTS,
    attrs: GatherAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(gather_grad),
    ..OP
};

// scatter: out = x with rows replaced; with overwrite = false the rows are zeroed and updates summed.

slots! {
    mod scatter { X "X", IDS "Ids", UPDATES "Updates" => OUT "Out" }
    mod scatter_grad {
        IDS "Ids", UPDATES "Updates".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD", DUPDATES "Updates@GRAD"
    }
}

fn infer_scatter(cx: &mut ShapeContext) -> Result<()> {
    let (x, ids, updates) = (cx.dims(scatter::X)?, cx.dims(scatter::IDS)?, cx.dims(scatter::UPDATES)?);
    let op = cx.op.name;
    ensure!(
        ids.len() == 1 && x.len() == updates.len() && !x.is_empty(),
        InvalidArgument,
        "operator {op}: Ids must have one dimension and Updates as many as X, got shapes {ids:?}, {updates:?}, {x:?}"
    );
    ensure!(
        ids[0] == updates[0] || ids[0] < 0 || updates[0] < 0,
        InvalidArgument,
        "operator {op}: Ids and Updates must have one batch size, got {} and {}",
        ids[0],
        updates[0]
    );
    ensure!(
        x[1..].iter().zip(&updates[1..]).all(|(&a, &b)| a == b || a < 0 || b < 0),
        InvalidArgument,
        "operator {op}: rows of Updates must be like those of X, got shapes {updates:?} and {x:?}"
    );
    like_first(cx)
}

fn scatter(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(scatter::X)?);
    let (ids, updates) = (cx.input(scatter::IDS)?, cx.input(scatter::UPDATES)?);
    ensure!(
        x.dtype() == updates.dtype(),
        InvalidArgument,
        "operator scatter: X and Updates must have one data type, got {} and {}",
        x.dtype(),
        updates.dtype()
    );
    let mode = if cx.attrs::<ScatterAttrs>().overwrite { Scatter::Overwrite } else { Scatter::Replace };
    let ids = index_of(op, ids)?;
    let width = numel(&x.dims()[1..]);
    let out = cx.out(scatter::OUT)?;
    copy_to(x, out)?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        rows::scatter(mode, &ids[..], updates.data::<T>(), width, out.data_mut::<T>()?)
            .map_err(|e| out_of_range(op, e))?;
    }, other => return cx.unsupported(other));
    Ok(())
}

/// Replaced (or zeroed) rows of X get no gradient; of several updates to one row only the last one gets it. 2.0.2
/// passes the whole gradient to X, and to every such update.
fn scatter_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, ids) = (cx.op.name, cx.input(scatter_grad::IDS)?);
    let (updates, dout) = (cx.input(scatter_grad::UPDATES)?, cx.input(scatter_grad::DOUT)?);
    ensure!(!dout.dims().is_empty(), InvalidArgument, "operator scatter_grad: Out@GRAD must have a dimension");
    ensure!(
        dout.dtype() == updates.dtype() && updates.dims().get(1..) == Some(&dout.dims()[1..]),
        InvalidArgument,
        "operator scatter_grad: Updates {updates:?} do not have the rows of Out@GRAD {dout:?}"
    );
    let ids = index_of(op, ids)?;
    let height = dout.dims()[0] as usize;
    if let Some(&i) = ids.iter().find(|&&i| i < 0 || i as usize >= height) {
        return Err(out_of_range(op, OutOfRange { index: i, limit: height }));
    }
    let row_bytes = numel(&dout.dims()[1..]) * dout.dtype().size();
    if cx.wants(scatter_grad::DX) {
        let dx = cx.out(scatter_grad::DX)?;
        copy_to(dout, dx)?;
        let bytes = dx.bytes_mut()?;
        ids.iter().for_each(|&i| bytes[i as usize * row_bytes..][..row_bytes].fill(0));
    }
    if cx.wants(scatter_grad::DUPDATES) {
        let width = numel(&dout.dims()[1..]);
        let overwrite = cx.attrs::<ScatterAttrs>().overwrite;
        let d = cx.out(scatter_grad::DUPDATES)?;
        ensure!(
            d.numel() == ids.len() * width,
            InvalidArgument,
            "operator scatter_grad: {} indices of rows of {width} do not fit Updates {updates:?}",
            ids.len()
        );
        by_size!(dout.dtype(), T, {
            let to = words_mut::<T>(d)?;
            rows::gather(words::<T>(dout), width, &ids[..], None, to).map_err(|e| out_of_range(op, e))?;
        });
        if overwrite {
            clear_overwritten(&ids, row_bytes, d.bytes_mut()?);
        }
    }
    Ok(())
}

pub static SCATTER: Op = Op {
    name: "scatter",
    inputs: scatter::INS,
    outputs: scatter::OUTS,
    attrs: ScatterAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES),
    infer: infer_scatter,
    cpu: Kernel::Pure(scatter),
    grad: Grad::By(&SCATTER_GRAD),
    ..OP
};
pub static SCATTER_GRAD: Op = Op {
    name: "scatter_grad",
    inputs: scatter_grad::INS,
    outputs: scatter_grad::OUTS,
    attrs: ScatterAttrs::FIELDS,
    infer: |cx| {
        cx.like(scatter_grad::DX, scatter_grad::DOUT)?;
        cx.like(scatter_grad::DUPDATES, scatter_grad::UPDATES)?;
        // Only X's gradient has X's LoD.
        let lod = cx.meta(scatter_grad::DOUT, 0)?;
        cx.outs
            .slot_mut(scatter_grad::DX.0)
            .iter_mut()
            .for_each(|m| (m.lod, m.lod_level) = (lod.lod.clone(), lod.lod_level));
        Ok(())
    },
    cpu: Kernel::Pure(scatter_grad),
    ..OP
};

// where

slots! {
    mod choose { CONDITION "Condition", X "X", Y "Y" => OUT "Out" }
    mod choose_grad {
        CONDITION "Condition", X "X".meta_only(), Y "Y".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD"
    }
    mod where_index { CONDITION "Condition" => OUT "Out".kernel_allocated() }
}

fn infer_where(cx: &mut ShapeContext) -> Result<()> {
    let (c, x, y) = (cx.dims(choose::CONDITION)?, cx.dims(choose::X)?, cx.dims(choose::Y)?);
    let alike = |a: &Dims, b: &Dims| a.len() == b.len() && a.iter().zip(b).all(|(&p, &q)| p == q || p < 0 || q < 0);
    ensure!(
        alike(&c, &x) && alike(&x, &y),
        InvalidArgument,
        "operator {}: Condition, X and Y must have one shape, got {c:?}, {x:?} and {y:?}",
        cx.op.name
    );
    let (dc, dx, dy) = (cx.dtype(choose::CONDITION)?, cx.dtype(choose::X)?, cx.dtype(choose::Y)?);
    ensure!(
        dx == dy && dc == DType::Bool,
        InvalidArgument,
        "operator {}: Condition must be bool and X and Y of one data type, got {dc}, {dx} and {dy}",
        cx.op.name
    );
    Ok(())
}

pub static WHERE: Op = Op {
    name: "where",
    inputs: choose::INS,
    outputs: choose::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        infer_where(cx)?;
        cx.like(choose::OUT, choose::X)?;
        cx.share_lod(choose::OUT, choose::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (c, x, y) = (cx.input(choose::CONDITION)?, cx.input(choose::X)?, cx.input(choose::Y)?);
        let out = cx.out(choose::OUT)?;
        by_size!(x.dtype(), T, {
            let (x, y) = (words::<T>(x), words::<T>(y));
            select(c.data::<bool>(), x, y, words_mut::<T>(out)?);
        });
        Ok(())
    }),
    grad: Grad::By(&WHERE_GRAD),
    ..OP
};
pub static WHERE_GRAD: Op = Op {
    name: "where_grad",
    inputs: choose_grad::INS,
    outputs: choose_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        infer_where(cx)?;
        cx.like(choose_grad::DX, choose_grad::DOUT)?;
        cx.like(choose_grad::DY, choose_grad::DOUT)
    },
    cpu: Kernel::Pure(|cx| {
        let (c, d) = (cx.input(choose_grad::CONDITION)?, cx.input(choose_grad::DOUT)?);
        ensure!(
            d.dims() == c.dims(),
            InvalidArgument,
            "operator where_grad: Out@GRAD must have the shape of Condition, got {:?} and {:?}",
            d.dims(),
            c.dims()
        );
        for (slot, branch) in [(choose_grad::DX, true), (choose_grad::DY, false)] {
            if !cx.wants(slot) {
                continue;
            }
            let out = cx.out(slot)?;
            dispatch!(d.dtype(), T in [f32, f64, f16, bf16], {
                // Multiply by 0 as Paddle does: NaN stays NaN.
                let pick = |c: bool, v: T| if c == branch { v } else { Number::mul(v, T::default()) };
                zip(c.data::<bool>(), d.data::<T>(), out.data_mut::<T>()?, pick);
            }, other => by_size!(other, T, {
                // Zero is all bits zero in every type.
                let pick = |c: bool, v: T| if c == branch { v } else { T::default() };
                zip(c.data::<bool>(), words::<T>(d), words_mut::<T>(out)?, pick);
            }));
        }
        Ok(())
    }),
    ..OP
};

/// Coordinates of the nonzero elements, in order: [count, rank].
fn where_index(cx: &mut KernelContext) -> Result<()> {
    let c = cx.input(where_index::CONDITION)?;
    let hits: Vec<usize> = dispatch!(c.dtype(), T in [bool, i32, i64, f32, f64], {
        let zero = T::default();
        c.data::<T>().iter().enumerate().filter(|(_, &v)| v != zero).map(|(i, _)| i).collect()
    }, other => return cx.unsupported(other));
    let rank = c.rank();
    let mut out = Tensor::empty(DType::I64, &[hits.len() as i64, rank as i64])?;
    coordinates(&hits, c.dims(), out.data_mut::<i64>()?);
    cx.set(where_index::OUT, out);
    Ok(())
}

pub static WHERE_INDEX: Op = Op {
    name: "where_index",
    inputs: where_index::INS,
    outputs: where_index::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES).union(DTypes::BOOL),
    infer: |cx| {
        let rank = cx.dims(where_index::CONDITION)?.len() as i64;
        ensure!(rank > 0, InvalidArgument, "operator where_index: Condition must have at least one dimension");
        cx.set(where_index::OUT, &[-1, rank], DType::I64);
        Ok(())
    },
    cpu: Kernel::Pure(where_index),
    ..OP
};

// one_hot_v2 appends a dimension; one_hot (1.x) replaces the last dimension of X, of size 1.

slots! {
    mod one_hot { X "X", DEPTH "depth_tensor".dispensable() => OUT "Out" }
}

/// `outer`: the dimensions before the class dimension.
fn infer_one_hot(cx: &mut ShapeContext, mut outer: Dims) -> Result<()> {
    let a = cx.attrs::<OneHotAttrs>();
    let depth = int_or_unknown(cx, one_hot::DEPTH, a.depth as i64)?;
    ensure!(
        depth.is_none_or(|depth| depth >= 0),
        InvalidArgument,
        "operator {}: depth must not be negative, got {}",
        cx.op.name,
        depth.unwrap_or(-1)
    );
    outer.push(depth.unwrap_or(-1));
    cx.set(one_hot::OUT, &outer, data_type(cx.op.name, a.dtype)?);
    cx.share_lod(one_hot::OUT, one_hot::X);
    Ok(())
}

fn one_hot(cx: &mut KernelContext) -> Result<()> {
    let (op, lenient) = (cx.op.name, cx.attrs::<OneHotAttrs>().allow_out_of_range);
    let ids = index_of(op, cx.input(one_hot::X)?)?;
    let out = cx.out(one_hot::OUT)?;
    let depth = out.dims().last().map_or(0, |&d| d as usize);
    let wrong = |e| out_of_range(op, e);
    dispatch!(out.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16], {
        one_hot_rows(&ids, depth, lenient, out.data_mut::<T>()?).map_err(wrong)
    }, other => match other {
        DType::Bool => one_hot_rows(&ids, depth, lenient, words_mut::<u8>(out)?).map_err(wrong),
        other => cx.unsupported(other),
    })
}

pub static ONE_HOT_V2: Op = Op {
    name: "one_hot_v2",
    inputs: one_hot::INS,
    outputs: one_hot::OUTS,
    attrs: OneHotAttrs::FIELDS,
    infer: |cx| {
        let x = cx.dims(one_hot::X)?;
        ensure!(!x.is_empty(), InvalidArgument, "operator one_hot_v2: X must have at least one dimension");
        infer_one_hot(cx, x)
    },
    cpu: Kernel::Pure(one_hot),
    ..OP
};

pub static ONE_HOT: Op = Op {
    name: "one_hot",
    inputs: one_hot::INS,
    outputs: one_hot::OUTS,
    attrs: OneHotAttrs::FIELDS,
    infer: |cx| {
        let mut x = cx.dims(one_hot::X)?;
        ensure!(x.len() > 1, InvalidArgument, "operator one_hot: X must have at least 2 dimensions, got {x:?}");
        x.pop();
        infer_one_hot(cx, x)
    },
    // As in Paddle, the last size is checked only by the kernel.
    cpu: Kernel::Pure(|cx| {
        let x = cx.input(one_hot::X)?.dims();
        ensure!(
            x.last() == Some(&1),
            InvalidArgument,
            "operator one_hot: X must have at least 2 dimensions, the last of size 1, got {x:?}"
        );
        one_hot(cx)
    }),
    ..OP
};

pub static TABLE: &[&Op] =
    &[&GATHER, &GATHER_GRAD, &SCATTER, &SCATTER_GRAD, &WHERE, &WHERE_GRAD, &WHERE_INDEX, &ONE_HOT_V2, &ONE_HOT];
