//! meshgrid: coordinate tensors of a grid.

use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{bail, ensure, slots};
use oar_ops_common::broadcast::reduce_to;
use oar_ops_common::concat::same_dtype;
use oar_ops_common::elements::{share, strided};

slots! {
    mod meshgrid { X "X".duplicable() => OUT "Out".duplicable().kernel_allocated() }
    mod meshgrid_grad { X "X".duplicable().meta_only(), DOUT "Out@GRAD".duplicable() => DX "X@GRAD".duplicable().kernel_allocated() }
}

/// The length of each vector; a tensor of rank 0 has length 1.
fn lengths<'a>(op: &str, vectors: impl Iterator<Item = &'a [i64]>) -> Result<Dims> {
    let lengths = vectors.map(|dims| match dims {
        [] => Ok(1),
        [n] => Ok(*n),
        _ => bail!(InvalidArgument, "operator {op}: each input must have one dimension at most, got shape {dims:?}"),
    });
    let lengths: Dims = lengths.collect::<Result<_>>()?;
    ensure!(
        (2..=6).contains(&lengths.len()),
        InvalidArgument,
        "operator {op}: there must be 2 to 6 inputs, got {}",
        lengths.len()
    );
    Ok(lengths)
}

fn infer_meshgrid(cx: &mut ShapeContext) -> Result<()> {
    let n = cx.count(meshgrid::X);
    let metas = (0..n).map(|i| cx.meta(meshgrid::X, i)).collect::<Result<Vec<_>>>()?;
    let dims = lengths(cx.op.name, metas.iter().map(|m| &m.dims[..]))?;
    cx.set_outs(meshgrid::OUT, n)?;
    for (i, m) in metas.iter().enumerate() {
        ensure!(
            m.dtype == metas[0].dtype,
            InvalidArgument,
            "operator {}: all inputs must have one data type, input 0 is {}, input {i} is {}",
            cx.op.name,
            metas[0].dtype,
            m.dtype
        );
        cx.set_nth(meshgrid::OUT, i, &dims, m.dtype);
    }
    Ok(())
}

fn meshgrid(cx: &mut KernelContext) -> Result<()> {
    let vectors = cx.inputs(meshgrid::X)?;
    let dims = lengths(cx.op.name, vectors.iter().map(|t| t.dims()))?;
    for (i, x) in vectors.iter().enumerate().filter(|(i, _)| cx.wants_nth(meshgrid::OUT, *i)).collect::<Vec<_>>() {
        let strides: Vec<isize> = (0..dims.len()).map(|k| (k == i) as isize).collect();
        let out = strided(x, &dims, &strides, 0)?;
        cx.set_nth(meshgrid::OUT, i, out);
    }
    Ok(())
}

fn meshgrid_grad(cx: &mut KernelContext) -> Result<()> {
    use meshgrid_grad::{DOUT, DX, X};
    let (vectors, douts) = (cx.inputs(X)?, cx.inputs(DOUT)?);
    let dims = lengths(cx.op.name, vectors.iter().map(|t| t.dims()))?;
    same_dtype(cx.op.name, &douts)?;
    ensure!(
        douts.len() == vectors.len() && douts.iter().all(|d| d.dims() == &dims[..]),
        InvalidArgument,
        "operator {}: there must be an Out@GRAD of shape {dims:?} for each X",
        cx.op.name
    );
    for (i, (x, dout)) in vectors.iter().zip(&douts).enumerate() {
        if cx.wants_nth(DX, i) {
            let mut row = Dims::from_elem(1, dims.len());
            row[i] = dims[i];
            let dx = reduce_to(share(dout)?, &row, -1)?.reshaped(x.dims());
            cx.set_nth(DX, i, dx);
        }
    }
    Ok(())
}

pub static MESHGRID: Op = Op {
    name: "meshgrid",
    inputs: meshgrid::INS,
    outputs: meshgrid::OUTS,
    infer: infer_meshgrid,
    cpu: Kernel::Pure(meshgrid),
    grad: Grad::By(&MESHGRID_GRAD),
    ..OP
};

pub static MESHGRID_GRAD: Op = Op {
    name: "meshgrid_grad",
    inputs: meshgrid_grad::INS,
    outputs: meshgrid_grad::OUTS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INDICES),
    infer: grads_like_inputs,
    cpu: Kernel::Pure(meshgrid_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&MESHGRID, &MESHGRID_GRAD];
