//! row_conv: lookahead convolution along the time steps of sequences.

use super::operands::{agree, check};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::conv::row_conv::RowConv;
use oar_ops_common::half::in_f32;

slots! {
    mod ahead { X "X", FILTER "Filter" => OUT "Out" }
    mod ahead_grad { X "X", FILTER "Filter", DOUT "Out@GRAD" => DX "X@GRAD", DFILTER "Filter@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// X [steps of all sequences, width] with LoD, or [sequences, steps, width].
fn infer_ahead(cx: &mut ShapeContext) -> Result<()> {
    let (x, w) = (cx.dims(ahead::X)?, cx.dims(ahead::FILTER)?);
    ensure!(
        w.len() == 2 && (2..=3).contains(&x.len()) && agree(w[1], x[x.len() - 1]),
        InvalidArgument,
        "operator {}: Filter [steps, width] must have the last size of X, which has 2 dimensions (and LoD) or 3, got shapes \
         {:?} and {:?}",
        cx.op.name,
        &w[..],
        &x[..]
    );
    like_first(cx)
}

/// First and end row of every sequence.
fn sequences(op: &str, x: &Tensor) -> Result<Vec<(usize, usize)>> {
    let dims = x.dims();
    let steps = dims[0] as usize;
    if let Some(level) = x.lod.as_deref().and_then(|lod| lod.first()) {
        ensure!(
            dims.len() == 2 && level.last() == Some(&steps) && level.windows(2).all(|w| w[0] <= w[1]),
            InvalidArgument,
            "operator {op}: X of shape {dims:?} has LoD {:?}: it must have 2 dimensions, and the level end at its first size",
            x.lod
        );
        return Ok(level.windows(2).map(|w| (w[0], w[1])).collect());
    }
    ensure!(
        dims.len() == 3,
        InvalidArgument,
        "operator {op}: X without LoD must have 3 dimensions [sequences, steps, width], got shape {dims:?}"
    );
    let each = dims[1] as usize;
    Ok((0..steps).map(|i| (i * each, (i + 1) * each)).collect())
}

fn run_ahead(cx: &mut KernelContext) -> Result<()> {
    let (x, w) = (cx.input(ahead::X)?, cx.input(ahead::FILTER)?);
    check(cx, x, w, None)?;
    let (spans, [context, width]) = (sequences(cx.op.name, x)?, [0, 1].map(|i| w.dims()[i] as usize));
    let conv = RowConv { spans: &spans, context, width };
    dispatch!(x.dtype(), T in [f32, f64], {
        conv.forward(x.data::<T>(), w.data::<T>(), cx.out_data::<T>(ahead::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_ahead_grad(cx: &mut KernelContext) -> Result<()> {
    use ahead_grad::{DFILTER, DOUT, DX, FILTER, X};
    let (x, w, dout) = (cx.input(X)?, cx.input(FILTER)?, cx.input(DOUT)?);
    check(cx, x, w, Some(dout))?;
    let (spans, [context, width]) = (sequences(cx.op.name, x)?, [0, 1].map(|i| w.dims()[i] as usize));
    let conv = RowConv { spans: &spans, context, width };
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, w, dy) = (x.data::<T>(), w.data::<T>(), dout.data::<T>());
        let [dx, dw] = cx.each_out([DX, DFILTER]);
        if let Some(dx) = dx {
            conv.x_grad(dy, w, dx.data_mut::<T>()?);
        }
        if let Some(dw) = dw {
            conv.w_grad(dy, x, dw.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static ROW_CONV: Op = Op {
    name: "row_conv",
    inputs: ahead::INS,
    outputs: ahead::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_ahead,
    cpu: Kernel::Pure(|cx| in_f32(cx, ahead::X, run_ahead)),
    grad: Grad::By(&ROW_CONV_GRAD),
    ..OP
};

pub static ROW_CONV_GRAD: Op = Op {
    name: "row_conv_grad",
    inputs: ahead_grad::INS,
    outputs: ahead_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, ahead_grad::X, run_ahead_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&ROW_CONV, &ROW_CONV_GRAD];
