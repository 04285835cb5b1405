//! sequence_reshape: rows of another width.

use crate::levels;
use oar_core::base::Result;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{attrs, ensure, slots};
use oar_ops_common::elements::{copy_to, reshaped};

attrs! {
    pub struct ReshapeAttrs { new_dim: i32 }
}

slots! {
    mod sequence_reshape { X "X" => OUT "Out".kernel_allocated() }
    mod sequence_reshape_grad { X "X".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

fn infer_reshape(cx: &mut ShapeContext) -> Result<()> {
    let (mut m, width) = (cx.meta(sequence_reshape::X, 0)?, cx.attrs::<ReshapeAttrs>().new_dim);
    ensure!(
        m.dims.len() == 2,
        InvalidArgument,
        "operator sequence_reshape: X must have two dimensions, got shape {:?}",
        &m.dims[..]
    );
    ensure!(width > 0, InvalidArgument, "operator sequence_reshape: attribute 'new_dim' must be positive, got {width}");
    let all = m.dims[0].max(0).saturating_mul(m.dims[1].max(0));
    m.dims[0] = if cx.tensor(sequence_reshape::X).is_some() { all / width as i64 } else { -1 };
    m.dims[1] = width as i64;
    (m.lod, m.lod_level) = (None, 1);
    cx.set_meta(sequence_reshape::OUT, 0, m);
    Ok(())
}

fn run_reshape(cx: &mut KernelContext) -> Result<()> {
    let (x, to) = (cx.input(sequence_reshape::X)?, cx.attrs::<ReshapeAttrs>().new_dim as usize);
    ensure!(levels::count(x) > 0, NotFound, "operator sequence_reshape: input 'X' must have LoD");
    let level = levels::only(cx.op.name, "X", x)?;
    let width = x.dims()[1] as usize;
    let mut lengths = Vec::with_capacity(level.len());
    for (i, n) in levels::lengths(level).enumerate() {
        ensure!(
            (n * width).is_multiple_of(to),
            InvalidArgument,
            "operator sequence_reshape: sequence {i} has {n} x {width} elements, which rows of {to} (attribute 'new_dim') \
             do not divide"
        );
        lengths.push(n * width / to);
    }
    let level = levels::offsets(lengths);
    let rows = level[level.len() - 1] as i64;
    cx.set(sequence_reshape::OUT, reshaped(x, &[rows, to as i64])?.with_lod(levels::one(level)));
    Ok(())
}

/// X@GRAD: elements of Out@GRAD, shape and LoD of X.
pub(crate) fn copied(cx: &mut KernelContext, from: InSlot, to: OutSlot) -> Result<()> {
    let dout = cx.input(from)?;
    copy_to(dout, cx.out(to)?)
}

pub static SEQUENCE_RESHAPE: Op = Op {
    name: "sequence_reshape",
    inputs: sequence_reshape::INS,
    outputs: sequence_reshape::OUTS,
    attrs: ReshapeAttrs::FIELDS,
    infer: infer_reshape,
    cpu: Kernel::Pure(run_reshape),
    grad: Grad::By(&SEQUENCE_RESHAPE_GRAD),
    ..OP
};

pub static SEQUENCE_RESHAPE_GRAD: Op = Op {
    name: "sequence_reshape_grad",
    inputs: sequence_reshape_grad::INS,
    outputs: sequence_reshape_grad::OUTS,
    attrs: ReshapeAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| copied(cx, sequence_reshape_grad::DOUT, sequence_reshape_grad::DX)),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_RESHAPE, &SEQUENCE_RESHAPE_GRAD];
