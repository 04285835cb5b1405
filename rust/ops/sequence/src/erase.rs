//! sequence_erase: removes tokens.

use super::enumerate::{column, tokens};
use crate::levels;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, dispatch, slots};
use oar_kernels::sequence::tokens as kernel;
use std::sync::Arc;

attrs! {
    pub struct EraseAttrs { tokens: Vec<i32> }
}

slots! {
    mod erase { X "X" => OUT "Out".kernel_allocated() }
}

fn infer_erase(cx: &mut ShapeContext) -> Result<()> {
    column(cx)?;
    let mut m = cx.meta(tokens::X, 0)?;
    m.dims[0] = -1;
    cx.set_meta(erase::OUT, 0, m);
    Ok(())
}

fn run_erase(cx: &mut KernelContext) -> Result<()> {
    let mut tokens: Vec<i64> = cx.attrs::<EraseAttrs>().tokens.iter().map(|&t| t as i64).collect();
    tokens.sort_unstable();
    let x = cx.input(erase::X)?;
    let level = levels::last(cx.op.name, "X", x)?;
    let (mut out, ends) = dispatch!(x.dtype(), T in [i32, i64], {
        let (kept, ends) = kernel::erase(level, &tokens, x.data::<T>());
        (Tensor::from_slice(&kept, &[kept.len() as i64, 1])?, ends)
    }, other => return cx.unsupported(other));
    let mut lod = x.lod.as_deref().cloned().unwrap_or_default();
    lod.pop();
    lod.push(ends);
    out.lod = Some(Arc::new(lod));
    cx.set(erase::OUT, out);
    Ok(())
}

pub(crate) const TOKENS: DTypes = DTypes::INDICES;

pub static SEQUENCE_ERASE: Op = Op {
    name: "sequence_erase",
    inputs: erase::INS,
    outputs: erase::OUTS,
    attrs: EraseAttrs::FIELDS,
    dtypes: TOKENS,
    infer: infer_erase,
    cpu: Kernel::Pure(run_erase),
    ..OP
};

pub static TABLE: &[&Op] = &[&SEQUENCE_ERASE];
