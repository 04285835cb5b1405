//! sequence_enumerate: all windows of tokens.

use crate::levels;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::sequence::tokens as kernel;

attrs! {
    pub struct EnumerateAttrs { win_size: i32, pad_value: i32 = 0 }
}

slots! {
    pub(crate) mod tokens { X "X" => OUT "Out" }
}

pub(crate) fn column(cx: &ShapeContext) -> Result<i64> {
    let dims = cx.dims(tokens::X)?;
    ensure!(
        dims.len() == 2 && (dims[1] == 1 || dims[1] < 0),
        InvalidArgument,
        "operator {}: input 'X' must have shape [N, 1], got {:?}",
        cx.op.name,
        &dims[..]
    );
    Ok(dims[0])
}

fn infer_enumerate(cx: &mut ShapeContext) -> Result<()> {
    let (rows, size) = (column(cx)?, cx.attrs::<EnumerateAttrs>().win_size);
    ensure!(
        size >= 2,
        InvalidArgument,
        "operator sequence_enumerate: attribute 'win_size' must not be below 2, got {size}"
    );
    let dtype = cx.dtype(tokens::X)?;
    cx.set(tokens::OUT, &[rows, size as i64], dtype);
    cx.share_lod(tokens::OUT, tokens::X);
    Ok(())
}

fn enumerate(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<EnumerateAttrs>();
    let x = cx.input(tokens::X)?;
    let level = levels::first(cx.op.name, "X", x)?;
    let size = a.win_size as usize;
    dispatch!(x.dtype(), T in [i32, i64], {
        kernel::enumerate(level, size, a.pad_value as T, x.data::<T>(), cx.out_data::<T>(tokens::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub(crate) const TOKENS: DTypes = DTypes::INDICES;

pub static SEQUENCE_ENUMERATE: Op = Op {
    name: "sequence_enumerate",
    inputs: tokens::INS,
    outputs: tokens::OUTS,
    attrs: EnumerateAttrs::FIELDS,
    dtypes: TOKENS,
    infer: infer_enumerate,
    cpu: Kernel::Pure(enumerate),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_ENUMERATE];
