//! index_select: slices along an axis by index; index_sample: elements of each row by index.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::shape::along_axis::{gather_along, scatter_along};
use oar_kernels::shape::index::{self as rows, OutOfRange, Scatter};
use oar_ops_common::axis::{like, split};
use oar_ops_common::by_size;
use oar_ops_common::elements::{set_zero, words, words_mut};
use oar_ops_common::index::{index_of, out_of_range};

attrs! {
    pub struct IndexSelectAttrs { dim: i32 = 0 }
}

slots! {
    mod select { X "X", INDEX "Index" => OUT "Out" }
    mod select_grad { X "X".meta_only(), INDEX "Index", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Data types of the gradients.
const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES);

/// Normalizes the axis; OutOfRange if it does not exist.
fn axis_of(op: &str, dim: i32, rank: usize) -> Result<usize> {
    let at = if dim < 0 { dim as i64 + rank as i64 } else { dim as i64 };
    ensure!(
        0 <= at && (at as usize) < rank,
        OutOfRange,
        "operator {op}: attribute 'dim' must be in [-{rank}, {rank}), got {dim}"
    );
    Ok(at as usize)
}

fn selected(op: &str, dim: i32, x: &[i64], index: &[i64]) -> Result<Dims> {
    let at = axis_of(op, dim, x.len())?;
    ensure!(
        index.len() == 1 || (index.len() == 2 && index[1] == 1),
        InvalidArgument,
        "operator {op}: Index must have the shape [n] or [n, 1], got {index:?}"
    );
    let mut out = Dims::from_slice(x);
    out[at] = index[0];
    Ok(out)
}

fn check(op: &str, ids: &[i64], limit: usize) -> Result<()> {
    match ids.iter().find(|&&i| i < 0 || i as usize >= limit) {
        Some(&index) => Err(out_of_range(op, OutOfRange { index, limit })),
        None => Ok(()),
    }
}

fn index_select(cx: &mut KernelContext) -> Result<()> {
    let (op, x) = (cx.op.name, cx.input(select::X)?);
    let ids = index_of(op, cx.input(select::INDEX)?)?;
    let (_, n, inner) = split(op, x.dims(), cx.attrs::<IndexSelectAttrs>().dim)?;
    check(op, &ids, n)?;
    let out = cx.out(select::OUT)?;
    if out.numel() == 0 {
        return Ok(());
    }
    by_size!(x.dtype(), T, {
        let (from, to) = (words::<T>(x), words_mut::<T>(out)?);
        if inner == 1 {
            rows::pick_columns(from, n, &ids, to);
            return Ok(());
        }
        gather_along(from, &ids, (n, inner), to).map_err(|e| out_of_range(op, e))?;
    });
    Ok(())
}

fn index_select_grad(cx: &mut KernelContext) -> Result<()> {
    use select_grad::{DOUT, DX, INDEX, X};
    let (op, x, dout, index) = (cx.op.name, cx.input(X)?, cx.input(DOUT)?, cx.input(INDEX)?);
    let dim = cx.attrs::<IndexSelectAttrs>().dim;
    like(cx, dout, &selected(op, dim, x.dims(), index.dims())?, x.dtype(), "Out@GRAD")?;
    let (ids, (_, n, inner)) = (index_of(op, index)?, split(op, x.dims(), dim)?);
    check(op, &ids, n)?;
    let dx = cx.out(DX)?;
    let columns = inner == 1 && dx.numel() > 0;
    if !columns {
        set_zero(dx)?;
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        let (from, to) = (dout.data::<T>(), dx.data_mut::<T>()?);
        if columns {
            rows::pick_columns_grad(from, n, &ids, to);
        } else {
            scatter_along(Scatter::Add, from, &ids[..], (n, inner), to).map_err(|e| out_of_range(op, e))?;
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static INDEX_SELECT: Op = Op {
    name: "index_select",
    inputs: select::INS,
    outputs: select::OUTS,
    attrs: IndexSelectAttrs::FIELDS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(select::X)?, cx.dtype(select::X)?);
        let dims = selected(cx.op.name, cx.attrs::<IndexSelectAttrs>().dim, &x, &cx.dims(select::INDEX)?)?;
        cx.set(select::OUT, &dims, dtype);
        cx.share_lod(select::OUT, select::X);
        Ok(())
    },
    cpu: Kernel::Pure(index_select),
    grad: Grad::By(&INDEX_SELECT_GRAD),
    ..OP
};
pub static INDEX_SELECT_GRAD: Op = Op {
    name: "index_select_grad",
    inputs: select_grad::INS,
    outputs: select_grad::OUTS,
    attrs: IndexSelectAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(index_select_grad),
    ..OP
};

// index_sample

fn infer_sample(cx: &mut ShapeContext) -> Result<()> {
    let (x, index, dtype) = (cx.dims(select::X)?, cx.dims(select::INDEX)?, cx.dtype(select::X)?);
    ensure!(
        x.len() == 2 && index.len() == 2 && (x[0] == index[0] || x[0] < 0 || index[0] < 0),
        InvalidArgument,
        "operator {}: X and Index must have two dimensions and as many rows, got shapes {x:?} and {index:?}",
        cx.op.name
    );
    cx.set(select::OUT, &index, dtype);
    cx.share_lod(select::OUT, select::INDEX);
    Ok(())
}

/// Offsets of the elements in X, flattened.
fn places(op: &str, x: &[i64], index: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        x.len() == 2 && index.rank() == 2 && x[0] == index.dims()[0],
        InvalidArgument,
        "operator {op}: X and Index must have two dimensions and as many rows, got shapes {x:?} and {:?}",
        index.dims()
    );
    let ids = index_of(op, index)?;
    check(op, &ids, x[1] as usize)?;
    let width = index.dims()[1].max(1) as usize;
    Ok(ids.iter().enumerate().map(|(i, &k)| (i / width) as i64 * x[1] + k).collect())
}

pub static INDEX_SAMPLE: Op = Op {
    name: "index_sample",
    inputs: select::INS,
    outputs: select::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_sample,
    cpu: Kernel::Pure(|cx| {
        let (op, x) = (cx.op.name, cx.input(select::X)?);
        let at = places(op, x.dims(), cx.input(select::INDEX)?)?;
        let out = cx.out(select::OUT)?;
        by_size!(x.dtype(), T, {
            rows::gather(words::<T>(x), 1, &at, None, words_mut::<T>(out)?).map_err(|e| out_of_range(op, e))
        })
    }),
    grad: Grad::By(&INDEX_SAMPLE_GRAD),
    ..OP
};
pub static INDEX_SAMPLE_GRAD: Op = Op {
    name: "index_sample_grad",
    inputs: select_grad::INS,
    outputs: select_grad::OUTS,
    dtypes: NUMBERS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| {
        use select_grad::{DOUT, DX, INDEX, X};
        let (op, x, index, dout) = (cx.op.name, cx.input(X)?, cx.input(INDEX)?, cx.input(DOUT)?);
        let at = places(op, x.dims(), index)?;
        like(cx, dout, index.dims(), x.dtype(), "Out@GRAD")?;
        let dx = cx.out(DX)?;
        set_zero(dx)?;
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
            rows::scatter(Scatter::Add, &at, dout.data::<T>(), 1, dx.data_mut::<T>()?)
                .map_err(|e| out_of_range(op, e))
        }, other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&INDEX_SELECT, &INDEX_SELECT_GRAD, &INDEX_SAMPLE, &INDEX_SAMPLE_GRAD];
