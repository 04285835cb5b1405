//! sequence_expand_as: row i of X repeated by the length of sequence i of Y.

use crate::levels;
use oar_core::base::Result;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::sequence::pool as kernel;

slots! {
    mod expand_as { X "X", Y "Y".meta_only() => OUT "Out" }
    mod expand_as_grad { X "X".meta_only(), Y "Y".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The only level of Y, which must have one sequence per row of X.
fn reference<'a>(op: &str, x: &Tensor, y: &'a Tensor) -> Result<&'a [usize]> {
    let level = levels::only(op, "Y", y)?;
    ensure!(
        level.len() == x.dims()[0] as usize + 1,
        InvalidArgument,
        "operator {op}: X must have a row for each of the {} sequences of Y, got shape {:?}",
        level.len() - 1,
        x.dims()
    );
    Ok(level)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let mut dims = cx.dims(expand_as::X)?;
    ensure!(
        dims.len() >= 2,
        InvalidArgument,
        "operator sequence_expand_as: X must have two dimensions or more, got shape {:?}",
        &dims[..]
    );
    dims[0] = match (cx.tensor(expand_as::X), cx.tensor(expand_as::Y)) {
        (Some(x), Some(y)) => reference(cx.op.name, x, y)?.last().map_or(0, |&n| n as i64),
        _ => -1,
    };
    let dtype = cx.dtype(expand_as::X)?;
    cx.set(expand_as::OUT, &dims, dtype);
    cx.share_lod(expand_as::OUT, expand_as::Y);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(expand_as::X)?, cx.input(expand_as::Y)?);
    let level = reference(cx.op.name, x, y)?;
    let rows: Vec<usize> = (0..level.len()).collect();
    let row = levels::width(x) * x.dtype().size();
    let out = cx.out(expand_as::OUT)?;
    kernel::expand(&rows, |i| level[i + 1] - level[i], row, x.bytes(), out.bytes_mut()?);
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, y, dout) = (cx.input(expand_as_grad::X)?, cx.input(expand_as_grad::Y)?, cx.input(expand_as_grad::DOUT)?);
    let level = reference(cx.op.name, x, y)?;
    let width = levels::width(x);
    ensure!(
        dout.numel() == level[level.len() - 1] * width && x.dtype() == dout.dtype(),
        InvalidArgument,
        "operator sequence_expand_as_grad: the gradient of Out must be {} with {} rows of {width}, got {dout:?}",
        x.dtype(),
        level[level.len() - 1]
    );
    let rows: Vec<usize> = (0..level.len()).collect();
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64], {
        let dx = cx.out_data::<T>(expand_as_grad::DX)?;
        kernel::expand_grad(&rows, |i| level[i + 1] - level[i], width, dout.data::<T>(), dx);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static SEQUENCE_EXPAND_AS: Op = Op {
    name: "sequence_expand_as",
    inputs: expand_as::INS,
    outputs: expand_as::OUTS,
    attrs: NoAttrs::FIELDS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&SEQUENCE_EXPAND_AS_GRAD),
    ..OP
};

pub static SEQUENCE_EXPAND_AS_GRAD: Op = Op {
    name: "sequence_expand_as_grad",
    inputs: expand_as_grad::INS,
    outputs: expand_as_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_EXPAND_AS, &SEQUENCE_EXPAND_AS_GRAD];
