//! sequence_slice: some steps of each sequence.

use crate::levels;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_kernels::sequence::rows::{self, Run};

slots! {
    mod slice { X "X", OFFSET "Offset", LENGTH "Length" => OUT "Out".kernel_allocated() }
    mod slice_grad { X "X".meta_only(), OFFSET "Offset", LENGTH "Length", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// (first row, rows) of each sequence.
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
            "operator {op}: sequence {i} has {most} steps, but {n} from step {at} on are required"
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
    // As in Paddle's shape rule: an upper bound.
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
    let runs = spans.iter().zip(&level).map(|(&(from, count), &to)| Run { from, to, count });
    rows::copy(runs, row, x.bytes(), out.bytes_mut()?);
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
    let level = levels::offsets(spans.iter().map(|s| s.1));
    let runs = spans.iter().zip(&level).map(|(&(to, count), &from)| Run { from, to, count });
    rows::copy(runs, row, dout.bytes(), to);
    Ok(())
}

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

pub static TABLE: &[&Op] = &[&SEQUENCE_SLICE, &SEQUENCE_SLICE_GRAD];
