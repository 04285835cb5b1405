//! gather_nd and scatter_nd_add: slices of X by indices along its first dimensions.

use half::{bf16, f16};
use oar_core::base::shape::numel;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::shape::along_axis::slice_numbers;
use oar_kernels::shape::index::{self as rows, Scatter};
use oar_ops_common::by_size;
use oar_ops_common::elements::{copy_to, set_zero, words, words_mut};
use oar_ops_common::index::{index_of, out_of_range};

slots! {
    mod gather_nd { X "X", INDEX "Index" => OUT "Out" }
    mod gather_nd_grad { INDEX "Index", X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
    mod scatter_nd_add { X "X", INDEX "Index", UPDATES "Updates" => OUT "Out" }
    mod scatter_nd_add_grad {
        INDEX "Index", UPDATES "Updates".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD", DUPDATES "Updates@GRAD"
    }
}

/// The output shape: the sizes of Index but the last, then those of X that are not indexed.
fn named(op: &str, x: &[i64], index: &[i64]) -> Result<Dims> {
    let Some((&depth, outer)) = index.split_last() else {
        oar_core::bail!(InvalidArgument, "operator {op}: Index must have at least one dimension, got {index:?}");
    };
    ensure!(
        0 <= depth && depth as usize <= x.len(),
        InvalidArgument,
        "operator {op}: Input(Index).shape[-1] should be no greater than Input(X).rank, which is {}, got Index of shape {index:?}",
        x.len()
    );
    let mut dims = Dims::from_slice(outer);
    dims.extend_from_slice(&x[depth as usize..]);
    Ok(dims)
}

/// The slice number that each row of Index names, and the elements per slice.
fn slices(op: &str, x: &[i64], index: &Tensor) -> Result<(Vec<i64>, usize)> {
    let depth = index.dims().last().copied().unwrap_or(0) as usize;
    let (count, ids) = (numel(&index.dims()[..index.rank() - 1]), index_of(op, index)?);
    let flat = slice_numbers(&ids, count, depth, x).map_err(|e| out_of_range(op, e))?;
    Ok((flat, numel(&x[depth..])))
}

fn pick(op: &str, x: &Tensor, index: &Tensor, out: &mut Tensor) -> Result<()> {
    let (ids, width) = slices(op, x.dims(), index)?;
    ensure!(
        out.numel() == ids.len() * width,
        InvalidArgument,
        "operator {op}: {} slices of {width} elements do not fill {out:?}",
        ids.len()
    );
    if out.numel() == 0 {
        return Ok(());
    }
    by_size!(x.dtype(), T, {
        rows::gather(words::<T>(x), width, &ids, None, words_mut::<T>(out)?).map_err(|e| out_of_range(op, e))
    })
}

/// Adds the updates to the indexed slices of `out`.
fn add(cx: &KernelContext, index: &Tensor, updates: &Tensor, out: &mut Tensor) -> Result<()> {
    let op = cx.op.name;
    let dims = named(op, out.dims(), index.dims())?;
    ensure!(
        updates.dims() == &dims[..] && updates.dtype() == out.dtype(),
        InvalidArgument,
        "operator {op}: the updates must be {} of shape {dims:?}, got {updates:?}",
        out.dtype()
    );
    let (ids, width) = slices(op, out.dims(), index)?;
    if updates.numel() == 0 {
        return Ok(());
    }
    dispatch!(out.dtype(), T in [f32, f64, i32, i64, u8, f16, bf16], {
        rows::scatter(Scatter::Add, &ids, updates.data::<T>(), width, out.data_mut::<T>()?)
            .map_err(|e| out_of_range(op, e))
    }, other => cx.unsupported(other))
}

fn gather_nd_grad(cx: &mut KernelContext) -> Result<()> {
    use gather_nd_grad::{DOUT, DX, INDEX};
    let mut dx = cx.take_out(DX)?;
    set_zero(&mut dx)?;
    add(cx, cx.input(INDEX)?, cx.input(DOUT)?, &mut dx)?;
    cx.set(DX, dx);
    Ok(())
}

pub static GATHER_ND: Op = Op {
    name: "gather_nd",
    inputs: gather_nd::INS,
    outputs: gather_nd::OUTS,
    infer: |cx| {
        let (x, dtype) = (cx.dims(gather_nd::X)?, cx.dtype(gather_nd::X)?);
        let dims = named(cx.op.name, &x, &cx.dims(gather_nd::INDEX)?)?;
        cx.set(gather_nd::OUT, &dims, dtype);
        cx.share_lod(gather_nd::OUT, gather_nd::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (x, index) = (cx.input(gather_nd::X)?, cx.input(gather_nd::INDEX)?);
        pick(cx.op.name, x, index, cx.out(gather_nd::OUT)?)
    }),
    grad: Grad::By(&GATHER_ND_GRAD),
    ..OP
};
pub static GATHER_ND_GRAD: Op = Op {
    name: "gather_nd_grad",
    inputs: gather_nd_grad::INS,
    outputs: gather_nd_grad::OUTS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(gather_nd_grad),
    ..OP
};

fn infer_scatter(cx: &mut ShapeContext) -> Result<()> {
    let op = cx.op.name;
    let (x, index) = (cx.dims(scatter_nd_add::X)?, cx.dims(scatter_nd_add::INDEX)?);
    ensure!(index.len() > 1, InvalidArgument, "operator {op}: Index must have 2 dimensions or more, got {index:?}");
    let (want, got) = (named(op, &x, &index)?, cx.dims(scatter_nd_add::UPDATES)?);
    ensure!(
        want.len() == got.len() && want.iter().zip(&got).all(|(&a, &b)| a == b || a < 0 || b < 0),
        InvalidArgument,
        "operator {op}: Updates has wrong shape: expected {want:?}, got {got:?}"
    );
    let (x, updates) = (cx.dtype(scatter_nd_add::X)?, cx.dtype(scatter_nd_add::UPDATES)?);
    ensure!(
        x == updates,
        InvalidArgument,
        "operator {op}: X and Updates must have one data type, got {x} and {updates}"
    );
    like_first(cx)
}

fn scatter_nd_add_grad(cx: &mut KernelContext) -> Result<()> {
    use scatter_nd_add_grad::{DOUT, DUPDATES, DX, INDEX, UPDATES};
    let (op, index, dout) = (cx.op.name, cx.input(INDEX)?, cx.input(DOUT)?);
    let dims = named(op, dout.dims(), index.dims())?;
    ensure!(
        cx.input(UPDATES)?.dims() == &dims[..] && cx.input(UPDATES)?.dtype() == dout.dtype(),
        InvalidArgument,
        "operator {op}: Updates must be {} of shape {dims:?}, got {:?}",
        dout.dtype(),
        cx.input(UPDATES)?
    );
    if cx.wants(DX) {
        copy_to(dout, cx.out(DX)?)?;
    }
    if cx.wants(DUPDATES) {
        pick(op, dout, index, cx.out(DUPDATES)?)?;
    }
    Ok(())
}

pub static SCATTER_ND_ADD: Op = Op {
    name: "scatter_nd_add",
    inputs: scatter_nd_add::INS,
    outputs: scatter_nd_add::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES).union(DTypes::of(&[oar_core::base::DType::U8])),
    infer: infer_scatter,
    cpu: Kernel::Pure(|cx| {
        use scatter_nd_add::{INDEX, OUT, UPDATES, X};
        let mut out = cx.take_out(OUT)?;
        copy_to(cx.input(X)?, &mut out)?;
        add(cx, cx.input(INDEX)?, cx.input(UPDATES)?, &mut out)?;
        cx.set(OUT, out);
        Ok(())
    }),
    grad: Grad::By(&SCATTER_ND_ADD_GRAD),
    ..OP
};
pub static SCATTER_ND_ADD_GRAD: Op = Op {
    name: "scatter_nd_add_grad",
    inputs: scatter_nd_add_grad::INS,
    outputs: scatter_nd_add_grad::OUTS,
    infer: |cx| {
        cx.like(scatter_nd_add_grad::DX, scatter_nd_add_grad::DOUT)?;
        cx.like(scatter_nd_add_grad::DUPDATES, scatter_nd_add_grad::UPDATES)
    },
    cpu: Kernel::Pure(scatter_nd_add_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&GATHER_ND, &GATHER_ND_GRAD, &SCATTER_ND_ADD, &SCATTER_ND_ADD_GRAD];
