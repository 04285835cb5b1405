//! sequence_scatter: adds updates of one sequence per row.

use crate::levels;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::sequence::scatter as kernel;

slots! {
    mod scatter { X "X", IDS "Ids", UPDATES "Updates" => OUT "Out" }
    mod scatter_grad {
        IDS "Ids", UPDATES "Updates".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD", DUPDATES "Updates@GRAD"
    }
}

/// The flat index in X of each update.
fn places(op: &str, rows: &[i64], ids: &Tensor) -> Result<Vec<usize>> {
    let level = levels::only(op, "Ids", ids)?;
    ensure!(
        !rows.is_empty() && level.len() - 1 <= rows[0] as usize,
        OutOfRange,
        "operator {op}: Ids has {} sequences, X only {} rows",
        level.len() - 1,
        rows.first().copied().unwrap_or(0)
    );
    let width = rows[1..].iter().product::<i64>() as usize;
    let numbers = ids.to_i64s()?;
    ensure!(
        numbers.len() == level[level.len() - 1],
        InvalidArgument,
        "operator {op}: Ids must have one number in each of its {} rows, got {ids:?}",
        level[level.len() - 1]
    );
    kernel::places(level, &numbers, width).map_err(|id| {
        err!(OutOfRange, "operator {op}: the ids of a row must be from 0 to {}, got {id}", width as i64 - 1)
    })
}

fn infer_scatter(cx: &mut ShapeContext) -> Result<()> {
    let (ids, updates) = (cx.dims(scatter::IDS)?, cx.dims(scatter::UPDATES)?);
    let both = ids.first().copied().zip(updates.first().copied());
    ensure!(
        both.is_some_and(|(a, b)| a == b || a < 0 || b < 0),
        InvalidArgument,
        "operator sequence_scatter: Ids and Updates must have as many rows, got shapes {:?} and {:?}",
        &ids[..],
        &updates[..]
    );
    cx.like(scatter::OUT, scatter::X)
}

/// Fails unless there are `count` updates of the data type of `t`.
fn check_updates(cx: &KernelContext, slot: InSlot, count: usize, (name, t): (&str, &Tensor)) -> Result<()> {
    let updates = cx.input(slot)?;
    levels::only(cx.op.name, "Updates", updates)?;
    ensure!(
        updates.numel() == count,
        InvalidArgument,
        "operator {}: Updates must have one element for each of the {count} ids, got {updates:?}",
        cx.op.name
    );
    ensure!(
        updates.dtype() == t.dtype(),
        InvalidArgument,
        "operator {}: {name} is of {} but Updates of {}",
        cx.op.name,
        t.dtype(),
        updates.dtype()
    );
    Ok(())
}

fn run_scatter(cx: &mut KernelContext) -> Result<()> {
    let (x, updates) = (cx.input(scatter::X)?, cx.input(scatter::UPDATES)?);
    let places = places(cx.op.name, x.dims(), cx.input(scatter::IDS)?)?;
    check_updates(cx, scatter::UPDATES, places.len(), ("X", x))?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        let out = cx.out_data::<T>(scatter::OUT)?;
        out.copy_from_slice(x.data::<T>());
        kernel::add(&places, updates.data::<T>(), out);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_scatter_grad(cx: &mut ShapeContext) -> Result<()> {
    cx.like(scatter_grad::DX, scatter_grad::DOUT)?;
    cx.like(scatter_grad::DUPDATES, scatter_grad::UPDATES)?;
    cx.share_lod(scatter_grad::DUPDATES, scatter_grad::UPDATES);
    Ok(())
}

fn run_scatter_grad(cx: &mut KernelContext) -> Result<()> {
    let dout = cx.input(scatter_grad::DOUT)?;
    let places = places(cx.op.name, dout.dims(), cx.input(scatter_grad::IDS)?)?;
    check_updates(cx, scatter_grad::UPDATES, places.len(), ("Out@GRAD", dout))?;
    if cx.wants(scatter_grad::DX) {
        cx.out(scatter_grad::DX)?.bytes_mut()?.copy_from_slice(dout.bytes());
    }
    if cx.wants(scatter_grad::DUPDATES) {
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64], {
            kernel::add_grad(&places, dout.data::<T>(), cx.out_data::<T>(scatter_grad::DUPDATES)?);
        }, other => return cx.unsupported(other));
    }
    Ok(())
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

pub static SEQUENCE_SCATTER: Op = Op {
    name: "sequence_scatter",
    inputs: scatter::INS,
    outputs: scatter::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: NUMBERS,
    infer: infer_scatter,
    cpu: Kernel::Pure(run_scatter),
    grad: Grad::By(&SEQUENCE_SCATTER_GRAD),
    ..OP
};

pub static SEQUENCE_SCATTER_GRAD: Op = Op {
    name: "sequence_scatter_grad",
    inputs: scatter_grad::INS,
    outputs: scatter_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_scatter_grad,
    cpu: Kernel::Pure(run_scatter_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_SCATTER, &SEQUENCE_SCATTER_GRAD];
