//! Operators that choose elements by index or condition: gather, scatter, where, one_hot_v2.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::{axis, numel};
use oar_core::base::{DType, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::parts::given::{data_type, ints};
use oar_core::op::parts::index::{index_of, out_of_range};
use oar_core::op::{slot, Grad, Infer, Kernel, NoAttrs, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, by_size, dispatch, ensure};
use oar_kernels::copy::{one_hot as one_hot_rows, select, OutOfRange};
use oar_kernels::elementwise::zip;
use oar_kernels::index::{self as rows, Scatter};
use oar_kernels::types::Number;
use std::collections::HashSet;

attrs! {
    pub struct GatherAttrs { overwrite: bool = true }
    pub struct ScatterAttrs { overwrite: bool = true }
    pub struct OneHotAttrs { depth: i32 = -1, dtype: i32 = 5, allow_out_of_range: bool = false }
}

// gather: out[i] = x[index[i]] along an axis.

/// Shapes of x and of the result cut at the axis: x is [outer, n, inner].
struct Cut {
    outer: usize,
    n: usize,
    inner: usize,
    out: Dims,
}

fn gather_cut(op: &str, x: &[i64], index: &[i64], at: Option<i64>) -> Result<Cut> {
    ensure!(
        index.len() == 1 || (index.len() == 2 && index[1] == 1),
        InvalidArgument,
        "operator {op}: Index must have the shape [n] or [n, 1], got {index:?}"
    );
    ensure!(!x.is_empty(), InvalidArgument, "operator {op}: X must have at least one dimension");
    let at = axis(op, at.unwrap_or(0), x.len())?;
    let mut out = Dims::from_slice(x);
    out[at] = index[0];
    Ok(Cut { outer: numel(&x[..at]), n: x[at] as usize, inner: numel(&x[at + 1..]), out })
}

/// The axis that the Axis tensor names, if there is one.
fn axis_tensor(cx: &Run, slot: usize) -> Result<Option<i64>> {
    let Some(t) = cx.opt(slot) else { return Ok(None) };
    match ints(cx.op.name, t)?[..] {
        [at] => Ok(Some(at)),
        _ => bail!(InvalidArgument, "operator {}: Axis must hold one integer, got {t:?}", cx.op.name),
    }
}

fn infer_gather(cx: &mut Infer) -> Result<()> {
    let (x, index) = (cx.dims(0)?, cx.dims(1)?);
    let dtype = cx.dtype(0)?;
    if cx.is_run() {
        return Ok(());
    }
    let mut out = gather_cut(cx.op.name, &x, &index, None)?.out;
    if cx.has(2) {
        out = Dims::from_elem(-1, x.len()); // which axis is known only in a run
    }
    cx.set(0, &out, dtype);
    cx.share_lod(0, 0);
    Ok(())
}

fn gather(cx: &mut Run) -> Result<()> {
    let (x, index) = (cx.input(0)?, cx.input(1)?);
    let cut = gather_cut(cx.op.name, x.dims(), index.dims(), axis_tensor(cx, 2)?)?;
    let ids = index_of(cx.op.name, index)?;
    let mut out = Tensor::empty(x.dtype(), &cut.out)?;
    let wrong = |e| out_of_range(cx.op.name, e);
    by_size!(x.dtype(), T, {
        let (from, to) =
            (oar_core::op::parts::elements::words::<T>(x), oar_core::op::parts::elements::words_mut::<T>(&mut out)?);
        let (x_step, out_step) = (cut.n * cut.inner, ids.len() * cut.inner);
        if to.is_empty() {
            // Nothing to move, but a wrong index is an error all the same.
            if let Some(&i) = ids.iter().find(|&&i| i < 0 || i as usize >= cut.n) {
                return Err(wrong(OutOfRange { index: i, limit: cut.n }));
            }
        }
        for o in 0..if to.is_empty() { 0 } else { cut.outer } {
            let (from, to) = (&from[o * x_step..(o + 1) * x_step], &mut to[o * out_step..(o + 1) * out_step]);
            rows::gather(from, cut.inner, &ids[..], None, to).map_err(wrong)?;
        }
    });
    cx.set(0, out.with_lod(x.lod.clone()));
    Ok(())
}

fn gather_grad(cx: &mut Run) -> Result<()> {
    let (index, x, dout) = (cx.input(0)?, cx.input(2)?, cx.input(3)?);
    let at = axis_tensor(cx, 1)?;
    let cut = gather_cut(cx.op.name, x.dims(), index.dims(), at)?;
    ensure!(
        dout.dims() == &cut.out[..],
        InvalidArgument,
        "operator gather_grad: Out@GRAD must have the shape {:?}, got {:?}",
        cut.out,
        dout.dims()
    );
    // With equal indices: the last one's gradient, or (overwrite=False, or an Axis) the sum.
    let overwrite = at.is_none() && cx.attrs::<GatherAttrs>().overwrite;
    let ids = index_of(cx.op.name, index)?;
    let mut dx = oar_core::op::parts::elements::zeros(dout.dtype(), x.dims())?;
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, u8, f16, bf16], {
        let (from, to) = (dout.data::<T>(), dx.data_mut::<T>()?);
        let (d_step, x_step) = (ids.len() * cut.inner, cut.n * cut.inner);
        for o in 0..if from.is_empty() || to.is_empty() { 0 } else { cut.outer } {
            let (from, to) = (&from[o * d_step..(o + 1) * d_step], &mut to[o * x_step..(o + 1) * x_step]);
            let mode = if overwrite { Scatter::Overwrite } else { Scatter::Add };
            rows::scatter(mode, &ids[..], from, cut.inner, to).map_err(|e| out_of_range(cx.op.name, e))?;
        }
    }, other => return cx.unsupported(other));
    cx.set(0, dx.with_lod(x.lod.clone()));
    Ok(())
}

pub static GATHER: Op = Op {
    name: "gather",
    inputs: &[slot("X"), slot("Index"), slot("Axis").opt()],
    outputs: &[slot("Out")],
    attrs: GatherAttrs::FIELDS,
    infer: infer_gather,
    cpu: Kernel::Pure(gather),
    grad: Grad::By(&GATHER_GRAD),
    ..OP
};
pub static GATHER_GRAD: Op = Op {
    name: "gather_grad",
    inputs: &[slot("Index"), slot("Axis").opt(), slot("X").meta_only(), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD")],
    attrs: GatherAttrs::FIELDS,
    infer: |cx| if cx.is_run() { Ok(()) } else { grads_like_inputs(cx) },
    cpu: Kernel::Pure(gather_grad),
    ..OP
};

// scatter: out = x with rows replaced, or (overwrite=False) zeroed and then summed up.

fn infer_scatter(cx: &mut Infer) -> Result<()> {
    let (x, ids, updates) = (cx.dims(0)?, cx.dims(1)?, cx.dims(2)?);
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
    oar_core::op::infer::like_first(cx)
}

fn scatter(cx: &mut Run) -> Result<()> {
    let (x, ids, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    ensure!(
        x.dtype() == updates.dtype(),
        InvalidArgument,
        "operator scatter: X and Updates must have one data type, got {} and {}",
        x.dtype(),
        updates.dtype()
    );
    let mode = if cx.attrs::<ScatterAttrs>().overwrite { Scatter::Overwrite } else { Scatter::Replace };
    let ids = index_of(cx.op.name, ids)?;
    let width = numel(&x.dims()[1..]);
    let mut out = oar_core::op::parts::elements::copied(x)?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        rows::scatter(mode, &ids[..], updates.data::<T>(), width, out.data_mut::<T>()?)
            .map_err(|e| out_of_range(cx.op.name, e))?;
    }, other => return cx.unsupported(other));
    cx.set(0, out);
    Ok(())
}

/// Rows of X that were replaced (or zeroed, then summed up) get no gradient; of several updates that replaced one row only
/// the last one gets it. 2.0.2 gives X all of it, and every such update.
fn scatter_grad(cx: &mut Run) -> Result<()> {
    let (ids, updates, dout) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    ensure!(!dout.dims().is_empty(), InvalidArgument, "operator scatter_grad: Out@GRAD must have a dimension");
    ensure!(
        dout.dtype() == updates.dtype() && updates.dims().get(1..) == Some(&dout.dims()[1..]),
        InvalidArgument,
        "operator scatter_grad: Updates {updates:?} are no rows of Out@GRAD {dout:?}"
    );
    let ids = index_of(cx.op.name, ids)?;
    let height = dout.dims()[0] as usize;
    if let Some(&i) = ids.iter().find(|&&i| i < 0 || i as usize >= height) {
        return Err(out_of_range(cx.op.name, OutOfRange { index: i, limit: height }));
    }
    let row_bytes = numel(&dout.dims()[1..]) * dout.dtype().size();
    if cx.wants(0) {
        let mut dx = oar_core::op::parts::elements::copied(dout)?;
        let bytes = dx.bytes_mut()?;
        ids.iter().for_each(|&i| bytes[i as usize * row_bytes..][..row_bytes].fill(0));
        cx.set(0, dx);
    }
    if cx.wants(1) {
        let width = numel(&dout.dims()[1..]);
        let mut d = Tensor::empty(dout.dtype(), updates.dims())?;
        ensure!(
            d.numel() == ids.len() * width,
            InvalidArgument,
            "operator scatter_grad: {} indices of rows of {width} do not fit Updates {updates:?}",
            ids.len()
        );
        by_size!(dout.dtype(), T, {
            let to = oar_core::op::parts::elements::words_mut::<T>(&mut d)?;
            rows::gather(oar_core::op::parts::elements::words::<T>(dout), width, &ids[..], None, to)
                .map_err(|e| out_of_range(cx.op.name, e))?;
        });
        if cx.attrs::<ScatterAttrs>().overwrite {
            let mut seen = HashSet::with_capacity(ids.len());
            let bytes = d.bytes_mut()?;
            for (k, _) in ids.iter().enumerate().rev().filter(|(_, i)| !seen.insert(**i)) {
                bytes[k * row_bytes..][..row_bytes].fill(0);
            }
        }
        cx.set(1, d);
    }
    Ok(())
}

pub static SCATTER: Op = Op {
    name: "scatter",
    inputs: &[slot("X"), slot("Ids"), slot("Updates")],
    outputs: &[slot("Out")],
    attrs: ScatterAttrs::FIELDS,
    infer: |cx| {
        infer_scatter(cx)?;
        unknown_in_run(cx);
        Ok(())
    },
    cpu: Kernel::Pure(scatter),
    grad: Grad::By(&SCATTER_GRAD),
    ..OP
};
pub static SCATTER_GRAD: Op = Op {
    name: "scatter_grad",
    inputs: &[slot("Ids"), slot("Updates").meta_only(), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD"), slot("Updates@GRAD")],
    attrs: ScatterAttrs::FIELDS,
    infer: |cx| {
        if cx.is_run() {
            return Ok(());
        }
        cx.like(0, 2)?;
        cx.like(1, 1)
    },
    cpu: Kernel::Pure(scatter_grad),
    ..OP
};

/// The kernel makes its output from another tensor: nothing is to be allocated.
fn unknown_in_run(cx: &mut Infer) {
    if cx.is_run() {
        cx.outs.flat.iter_mut().for_each(|m| m.known = false);
    }
}

// where

fn infer_where(cx: &mut Infer) -> Result<()> {
    let (c, x, y) = (cx.dims(0)?, cx.dims(1)?, cx.dims(2)?);
    let alike = |a: &Dims, b: &Dims| a.len() == b.len() && a.iter().zip(b).all(|(&p, &q)| p == q || p < 0 || q < 0);
    ensure!(
        alike(&c, &x) && alike(&x, &y),
        InvalidArgument,
        "operator {}: Condition, X and Y must have one shape, got {c:?}, {x:?} and {y:?}",
        cx.op.name
    );
    let (dx, dy) = (cx.dtype(1)?, cx.dtype(2)?);
    ensure!(
        dx == dy && cx.dtype(0)? == DType::Bool,
        InvalidArgument,
        "operator {}: Condition must be bool and X and Y of one data type, got {}, {dx} and {dy}",
        cx.op.name,
        cx.dtype(0)?
    );
    Ok(())
}

pub static WHERE: Op = Op {
    name: "where",
    inputs: &[slot("Condition"), slot("X"), slot("Y")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        infer_where(cx)?;
        cx.like(0, 1)?;
        cx.share_lod(0, 1);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (c, x, y) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        let out = cx.out(0)?;
        by_size!(x.dtype(), T, {
            let (x, y) = (oar_core::op::parts::elements::words::<T>(x), oar_core::op::parts::elements::words::<T>(y));
            select(c.data::<bool>(), x, y, oar_core::op::parts::elements::words_mut::<T>(out)?);
        });
        Ok(())
    }),
    grad: Grad::By(&WHERE_GRAD),
    ..OP
};
pub static WHERE_GRAD: Op = Op {
    name: "where_grad",
    inputs: &[slot("Condition"), slot("X").meta_only(), slot("Y").meta_only(), slot("Out@GRAD")],
    outputs: &[slot("X@GRAD"), slot("Y@GRAD")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        infer_where(cx)?;
        cx.like(0, 3)?;
        cx.like(1, 3)
    },
    cpu: Kernel::Pure(|cx| {
        let (c, d) = (cx.input(0)?, cx.input(3)?);
        ensure!(
            d.dims() == c.dims(),
            InvalidArgument,
            "operator where_grad: Out@GRAD must have the shape of Condition, got {:?} and {:?}",
            d.dims(),
            c.dims()
        );
        for slot in 0..2 {
            if !cx.wants(slot) {
                continue;
            }
            let out = cx.out(slot)?;
            let kept = slot == 0;
            dispatch!(d.dtype(), T in [f32, f64, f16, bf16], {
                // The gradient times 0, as in Paddle: NaN stays NaN.
                let pick = |c: bool, v: T| if c == kept { v } else { Number::mul(v, T::default()) };
                zip(c.data::<bool>(), d.data::<T>(), out.data_mut::<T>()?, pick);
            }, other => by_size!(other, T, {
                // Zero is all bits zero in every type.
                let pick = |c: bool, v: T| if c == kept { v } else { T::default() };
                zip(c.data::<bool>(), oar_core::op::parts::elements::words::<T>(d), oar_core::op::parts::elements::words_mut::<T>(out)?, pick);
            }));
        }
        Ok(())
    }),
    ..OP
};

/// The coordinates of elements that are not zero, in order: [count, rank].
fn where_index(cx: &mut Run) -> Result<()> {
    let c = cx.input(0)?;
    let hits: Vec<usize> = dispatch!(c.dtype(), T in [bool, i32, i64, f32, f64], {
        let zero = T::default();
        c.data::<T>().iter().enumerate().filter(|(_, &v)| v != zero).map(|(i, _)| i).collect()
    }, other => return cx.unsupported(other));
    let rank = c.rank();
    let mut out = Tensor::empty(DType::I64, &[hits.len() as i64, rank as i64])?;
    for (row, mut at) in out.data_mut::<i64>()?.chunks_exact_mut(rank.max(1)).zip(hits) {
        for (o, &d) in row.iter_mut().zip(c.dims()).rev() {
            *o = (at % d as usize) as i64;
            at /= d as usize;
        }
    }
    cx.set(0, out);
    Ok(())
}

pub static WHERE_INDEX: Op = Op {
    name: "where_index",
    inputs: &[slot("Condition")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let rank = cx.dims(0)?.len() as i64;
        ensure!(rank > 0, InvalidArgument, "operator where_index: Condition must have at least one dimension");
        if !cx.is_run() {
            cx.set(0, &[-1, rank], DType::I64);
        }
        Ok(())
    },
    cpu: Kernel::Pure(where_index),
    ..OP
};

// one_hot_v2

/// The number of classes, as tensor or attribute.
fn depth_of(cx: &Run) -> Result<i64> {
    match cx.opt(1) {
        Some(t) => match ints(cx.op.name, t)?[..] {
            [depth] => Ok(depth),
            _ => bail!(InvalidArgument, "operator {}: depth_tensor must hold one integer, got {t:?}", cx.op.name),
        },
        None => Ok(cx.attrs::<OneHotAttrs>().depth as i64),
    }
}

fn one_hot(cx: &mut Run) -> Result<()> {
    let depth = depth_of(cx)?;
    let outer = Dims::from_slice(cx.input(0)?.dims());
    one_hot_into(cx, &outer, depth)
}

/// One-hot rows of `depth` after the dimensions `outer`.
fn one_hot_into(cx: &mut Run, outer: &[i64], depth: i64) -> Result<()> {
    let a = cx.attrs::<OneHotAttrs>();
    let x = cx.input(0)?;
    ensure!(depth >= 0, InvalidArgument, "operator one_hot: depth must not be negative, got {depth}");
    let mut dims = Dims::from_slice(outer);
    dims.push(depth);
    let ids = index_of(cx.op.name, x)?;
    let mut out = Tensor::empty(data_type(cx.op.name, a.dtype)?, &dims)?;
    let lenient = a.allow_out_of_range;
    dispatch!(out.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16], {
        one_hot_rows(&ids, depth as usize, lenient, out.data_mut::<T>()?).map_err(|e| out_of_range(cx.op.name, e))?;
    }, other => {
        if other != DType::Bool {
            return cx.unsupported(other);
        }
        let words = oar_core::op::parts::elements::words_mut::<u8>(&mut out)?;
        one_hot_rows(&ids, depth as usize, lenient, words).map_err(|e| out_of_range(cx.op.name, e))?;
    });
    cx.set(0, out.with_lod(x.lod.clone()));
    Ok(())
}

pub static ONE_HOT_V2: Op = Op {
    name: "one_hot_v2",
    inputs: &[slot("X"), slot("depth_tensor").opt()],
    outputs: &[slot("Out")],
    attrs: OneHotAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<OneHotAttrs>();
        let mut dims = cx.dims(0)?;
        ensure!(!dims.is_empty(), InvalidArgument, "operator one_hot_v2: X must have at least one dimension");
        let dtype = data_type(cx.op.name, a.dtype)?;
        if !cx.is_run() {
            dims.push(if cx.has(1) { -1 } else { a.depth as i64 });
            cx.set(0, &dims, dtype);
            cx.share_lod(0, 0);
        }
        Ok(())
    },
    cpu: Kernel::Pure(one_hot),
    ..OP
};

// one_hot: the last dimension of X is 1, and becomes the depth.

fn ids_dims<'a>(op: &str, x: &'a [i64]) -> Result<&'a [i64]> {
    match x {
        [outer @ .., 1] if !outer.is_empty() => Ok(outer),
        _ => bail!(InvalidArgument, "operator {op}: X must have at least 2 dimensions, the last of size 1, got {x:?}"),
    }
}

pub static ONE_HOT: Op = Op {
    name: "one_hot",
    inputs: &[slot("X"), slot("depth_tensor").opt()],
    outputs: &[slot("Out")],
    attrs: OneHotAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<OneHotAttrs>();
        let mut dims = cx.dims(0)?;
        let dtype = data_type(cx.op.name, a.dtype)?;
        if cx.is_run() {
            ids_dims(cx.op.name, &dims)?;
        } else {
            // As in Paddle, the last size is looked at in a run only.
            ensure!(dims.len() > 1, InvalidArgument, "operator one_hot: X must have at least 2 dimensions");
            dims.pop();
            dims.push(if cx.has(1) { -1 } else { a.depth as i64 });
            cx.set(0, &dims, dtype);
            cx.share_lod(0, 0);
        }
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let depth = depth_of(cx)?;
        let outer = Dims::from_slice(ids_dims(cx.op.name, cx.input(0)?.dims())?);
        one_hot_into(cx, &outer, depth)
    }),
    ..OP
};

pub static TABLE: &[&Op] =
    &[&GATHER, &GATHER_GRAD, &SCATTER, &SCATTER_GRAD, &WHERE, &WHERE_GRAD, &WHERE_INDEX, &ONE_HOT_V2, &ONE_HOT];
