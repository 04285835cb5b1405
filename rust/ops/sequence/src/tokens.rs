//! Sequences of tokens: sequence_enumerate gives every window of them, sequence_erase leaves some out.

use crate::levels;
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use std::sync::Arc;

attrs! {
    pub struct EnumerateAttrs { win_size: i32, pad_value: i32 = 0 }
    pub struct EraseAttrs { tokens: Vec<i32> }
}

slots! {
    mod tokens { X "X" => OUT "Out" }
    mod erase { X "X" => OUT "Out".kernel_allocated() }
}

fn column(cx: &ShapeContext) -> Result<i64> {
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
        let from = x.data::<T>();
        let rows = cx.out_data::<T>(tokens::OUT)?.chunks_exact_mut(size);
        let ends = level.windows(2).flat_map(|w| std::iter::repeat_n(w[1], w[1] - w[0]));
        for ((i, row), end) in rows.enumerate().zip(ends) {
            let n = size.min(end - i);
            row[..n].copy_from_slice(&from[i..i + n]);
            row[n..].fill(a.pad_value as T);
        }
    }, other => return cx.unsupported(other));
    Ok(())
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
    let mut ends = vec![0];
    let mut out = dispatch!(x.dtype(), T in [i32, i64], {
        let mut kept: Vec<T> = Vec::with_capacity(x.numel());
        for span in level.windows(2) {
            kept.extend(x.data::<T>()[span[0]..span[1]].iter().filter(|&&t| tokens.binary_search(&i64::from(t)).is_err()));
            ends.push(kept.len());
        }
        Tensor::from_slice(&kept, &[kept.len() as i64, 1])?
    }, other => return cx.unsupported(other));
    let mut lod = x.lod.as_deref().cloned().unwrap_or_default();
    lod.pop();
    lod.push(ends);
    out.lod = Some(Arc::new(lod));
    cx.set(erase::OUT, out);
    Ok(())
}

const TOKENS: DTypes = DTypes::INDICES;

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

pub static TABLE: &[&Op] = &[&SEQUENCE_ENUMERATE, &SEQUENCE_ERASE];
