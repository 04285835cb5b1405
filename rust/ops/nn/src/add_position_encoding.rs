//! add_position_encoding: adds sines and cosines of the position in the sequence.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{like_first, like_out_grad};
use oar_core::op::{Grad, Kernel, KernelContext, Op, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::add_position_encoding as kernel;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct PositionAttrs { alpha: f32 = 1.0, beta: f32 = 1.0 }
}

slots! {
    mod forward { X "X" => OUT "Out" }
    mod backward { DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// The position of every row in its sequence; X is [sequences, words, size], or [words, size] with LoD.
fn places(op: &str, x: &Tensor) -> Result<Vec<usize>> {
    let Some(lod) = x.lod.as_ref().filter(|lod| !lod.is_empty()) else {
        ensure!(x.rank() == 3, InvalidArgument, "operator {op}: X without LoD must have 3 dimensions, got {x:?}");
        let words = x.dims()[1] as usize;
        return Ok((0..x.dims()[0] as usize).flat_map(|_| 0..words).collect());
    };
    ensure!(
        x.rank() == 2 && lod.len() == 1,
        InvalidArgument,
        "operator {op}: X with LoD must have 2 dimensions and one level, got {x:?} with {} levels",
        lod.len()
    );
    let places: Vec<usize> = lod[0].windows(2).flat_map(|w| 0..w[1].saturating_sub(w[0])).collect();
    ensure!(
        places.len() == x.dims()[0] as usize,
        InvalidArgument,
        "operator {op}: the LoD of X is of {} words, X has {}",
        places.len(),
        x.dims()[0]
    );
    Ok(places)
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, a) = (cx.input(forward::X)?, cx.attrs::<PositionAttrs>());
    let size = *x.dims().last().unwrap_or(&0) as usize;
    ensure!(
        size.is_multiple_of(2),
        InvalidArgument,
        "operator {}: the last dimension of X must be even, got {size}",
        cx.op.name
    );
    if x.numel() == 0 {
        return Ok(());
    }
    let places = places(cx.op.name, x)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let (alpha, beta) = (a.alpha as T, a.beta as f64);
        kernel::forward(x.data::<T>(), &places, size, alpha, beta, cx.out_data::<T>(forward::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    let (d, alpha) = (cx.input(backward::DOUT)?, cx.attrs::<PositionAttrs>().alpha);
    dispatch!(d.dtype(), T in [f32, f64], {
        kernel::backward(d.data::<T>(), alpha as T, cx.out_data::<T>(backward::DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

const TYPES: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static ADD_POSITION_ENCODING: Op = Op {
    name: "add_position_encoding",
    inputs: forward::INS,
    outputs: forward::OUTS,
    attrs: PositionAttrs::FIELDS,
    dtypes: TYPES,
    infer: like_first,
    cpu: Kernel::Pure(|cx| in_f32(cx, forward::X, run)),
    grad: Grad::By(&ADD_POSITION_ENCODING_GRAD),
    ..OP
};

pub static ADD_POSITION_ENCODING_GRAD: Op = Op {
    name: "add_position_encoding_grad",
    inputs: backward::INS,
    outputs: backward::OUTS,
    attrs: PositionAttrs::FIELDS,
    dtypes: TYPES,
    infer: like_out_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, backward::DOUT, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&ADD_POSITION_ENCODING, &ADD_POSITION_ENCODING_GRAD];
