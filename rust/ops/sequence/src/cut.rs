//! Parts of sequences: sequence_slice takes some steps of each, sequence_scatter adds to some elements of a row each.

use crate::levels;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};

slots! {
    mod slice { X "X", OFFSET "Offset", LENGTH "Length" => OUT "Out".kernel_allocated() }
    mod slice_grad { X "X".meta_only(), OFFSET "Offset", LENGTH "Length", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod scatter { X "X", IDS "Ids", UPDATES "Updates" => OUT "Out" }
    mod scatter_grad {
        IDS "Ids", UPDATES "Updates".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD", DUPDATES "Updates@GRAD"
    }
}

// sequence_slice

/// One (first row, rows) for each sequence.
fn spans(op: &str, x: &Tensor, offset: &Tensor, length: &Tensor) -> Result<Vec<(usize, usize)>> {
    let level = levels::only(op, "X", x)?;
    let sequences = level.len() - 1;
    for (name, t) in [("Offset", offset), ("Length", length)] {
        ensure!(
            DTypes::INDICES.has(t.dtype()) && t.numel() == sequences,
            InvalidArgument,
            "operator {op}: '{name}' must be one int64 for each of the {sequences} sequences, got {t:?}"
        );
    }
    let (offset, length) = (offset.to_i64s()?, length.to_i64s()?);
    let mut found = Vec::with_capacity(sequences);
    for (i, span) in level.windows(2).enumerate() {
        let (at, n) = (offset[i], length[i]);
        ensure!(
            at >= 0 && n >= 0,
            InvalidArgument,
            "operator {op}: offsets and lengths must not be negative, got {at} and {n} for sequence {i}"
        );
        let most = (span[1] - span[0]) as i64;
        ensure!(
            at <= most && n <= most - at,
            OutOfRange,
            "operator {op}: sequence {i} has {most} steps, but {n} from step {at} on are asked for"
        );
        found.push((span[0] + at as usize, n as usize));
    }
    Ok(found)
}

fn infer_slice(cx: &mut ShapeContext) -> Result<()> {
    let mut m = cx.meta(slice::X, 0)?;
    ensure!(!m.dims.is_empty(), InvalidArgument, "operator sequence_slice: input 'X' must have a dimension");
    for slot in [slice::OFFSET, slice::LENGTH] {
        if cx.dims(slot)?.len() != 2 {
            return cx.wrong(slot, "of two dimensions, [sequences, 1]");
        }
    }
    // As Paddle's rule says: the most that there can be.
    m.lod = None;
    cx.set_meta(slice::OUT, 0, m);
    Ok(())
}

fn run_slice(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(slice::X)?;
    let spans = spans(cx.op.name, x, cx.input(slice::OFFSET)?, cx.input(slice::LENGTH)?)?;
    let level = levels::offsets(spans.iter().map(|s| s.1));
    let row = levels::width(x) * x.dtype().size();
    let mut dims = x.sizes().clone();
    dims[0] = level[level.len() - 1] as i64;
    let mut out = Tensor::empty(x.dtype(), &dims)?;
    let to = out.bytes_mut()?;
    for (&(from, n), at) in spans.iter().zip(&level) {
        to[at * row..][..n * row].copy_from_slice(&x.bytes()[from * row..][..n * row]);
    }
    cx.set(slice::OUT, out.with_lod(levels::one(level)));
    Ok(())
}

fn run_slice_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, dout) = (cx.input(slice_grad::X)?, cx.input(slice_grad::DOUT)?);
    let spans = spans(cx.op.name, x, cx.input(slice_grad::OFFSET)?, cx.input(slice_grad::LENGTH)?)?;
    let rows: usize = spans.iter().map(|s| s.1).sum();
    ensure!(
        dout.numel() == rows * levels::width(x) && dout.dtype() == x.dtype(),
        InvalidArgument,
        "operator sequence_slice_grad: the gradient of Out must be {} with {rows} rows, got {dout:?}",
        x.dtype()
    );
    let row = levels::width(x) * x.dtype().size();
    let to = cx.out(slice_grad::DX)?.bytes_mut()?;
    to.fill(0);
    let mut at = 0;
    for (first, n) in spans {
        to[first * row..][..n * row].copy_from_slice(&dout.bytes()[at * row..][..n * row]);
        at += n;
    }
    Ok(())
}

// sequence_scatter

/// The element of X, as a flat index, that each update goes to.
fn places(op: &str, rows: &[i64], ids: &Tensor) -> Result<Vec<usize>> {
    let level = levels::only(op, "Ids", ids)?;
    ensure!(
        !rows.is_empty() && level.len() - 1 <= rows[0] as usize,
        OutOfRange,
        "operator {op}: Ids has {} sequences, X only {} rows",
        level.len() - 1,
        rows.first().copied().unwrap_or(0)
    );
    let width = rows[1..].iter().product::<i64>();
    let numbers = ids.to_i64s()?;
    ensure!(
        numbers.len() == level[level.len() - 1],
        InvalidArgument,
        "operator {op}: Ids must have one number in each of its {} rows, got {ids:?}",
        level[level.len() - 1]
    );
    let mut found = Vec::with_capacity(numbers.len());
    for (row, span) in level.windows(2).enumerate() {
        for &id in &numbers[span[0]..span[1]] {
            ensure!(
                (0..width).contains(&id),
                OutOfRange,
                "operator {op}: the ids of a row must be from 0 to {}, got {id}",
                width - 1
            );
            found.push(row * width as usize + id as usize);
        }
    }
    Ok(found)
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

/// `count` updates of the type of `t`, the operator's input `name`.
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
        for (&at, &u) in places.iter().zip(updates.data::<T>()) {
            out[at] += u;
        }
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
            let from = dout.data::<T>();
            let to = cx.out_data::<T>(scatter_grad::DUPDATES)?;
            to.iter_mut().zip(&places).for_each(|(to, &at)| *to = from[at]);
        }, other => return cx.unsupported(other));
    }
    Ok(())
}

const NUMBERS: DTypes = DTypes::FLOATS.union(DTypes::of(&[DType::I32, DType::I64]));

pub static SEQUENCE_SLICE: Op = Op {
    name: "sequence_slice",
    inputs: slice::INS,
    outputs: slice::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_slice,
    cpu: Kernel::Pure(run_slice),
    grad: Grad::By(&SEQUENCE_SLICE_GRAD),
    ..OP
};

pub static SEQUENCE_SLICE_GRAD: Op = Op {
    name: "sequence_slice_grad",
    inputs: slice_grad::INS,
    outputs: slice_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_slice_grad),
    ..OP
};

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

pub static TABLE: &[&Op] = &[&SEQUENCE_SLICE, &SEQUENCE_SLICE_GRAD, &SEQUENCE_SCATTER, &SEQUENCE_SCATTER_GRAD];
