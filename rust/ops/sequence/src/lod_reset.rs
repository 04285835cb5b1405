//! lod_reset: the same elements with another LoD.

use super::reshape::copied;
use crate::levels;
use oar_core::base::{DType, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::{Lod, Tensor};
use oar_core::{attrs, bail, ensure, slots};
use oar_ops_common::elements::share;
use std::sync::Arc;

attrs! {
    pub struct LodResetAttrs { target_lod: Vec<i32> = vec![], append: bool = false }
}

slots! {
    mod lod_reset { X "X", Y "Y".dispensable() => OUT "Out".kernel_allocated() }
    mod lod_reset_grad { DOUT "Out@GRAD", X "X".meta_only() => DX "X@GRAD" }
}

/// The target level, from a tensor or the attribute, checked.
fn target(op: &str, given: &[i64], rows: i64) -> Result<Vec<usize>> {
    let fine = given.len() > 1 && given[0] == 0 && given.is_sorted() && given.last() == Some(&rows);
    ensure!(
        fine,
        InvalidArgument,
        "operator {op}: the target LoD must ascend from 0 to {rows}, the first size of X, got {given:?}"
    );
    Ok(given.iter().map(|&n| n as usize).collect())
}

fn lod_of(op: &str, x: &Tensor, y: Option<&Tensor>, a: &LodResetAttrs) -> Result<Arc<Lod>> {
    ensure!(x.rank() > 0, InvalidArgument, "operator {op}: input 'X' must have a dimension");
    let given: Vec<i64> = match y {
        Some(y) if levels::count(y) > 0 => {
            let lod = y.lod.clone().unwrap_or_default();
            let level = &lod[lod.len() - 1];
            levels::check(op, "Y", level, x.dims()[0] as usize)?;
            return Ok(lod);
        }
        Some(y) => {
            ensure!(
                y.dtype() == DType::I32,
                InvalidArgument,
                "operator {op}: Y without LoD must be int32 offsets, got {}",
                y.dtype()
            );
            y.to_i64s()?
        }
        None => a.target_lod.iter().map(|&n| n as i64).collect(),
    };
    let level = target(op, &given, x.dims()[0])?;
    let mut lod = match a.append {
        true => x.lod.as_deref().cloned().unwrap_or_default(),
        false => Vec::new(),
    };
    lod.push(level);
    Ok(Arc::new(lod))
}

fn infer_lod_reset(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<LodResetAttrs>();
    let mut m = cx.meta(lod_reset::X, 0)?;
    if !cx.has(lod_reset::Y) && a.target_lod.is_empty() {
        bail!(InvalidArgument, "operator lod_reset: without input 'Y' the attribute 'target_lod' must give the LoD")
    }
    m.lod = None;
    m.lod_level = match cx.meta(lod_reset::Y, 0) {
        Ok(y) if cx.has(lod_reset::Y) => y.lod_level.max(1),
        _ if a.append => m.lod_level + 1,
        _ => 1,
    };
    if let Some(x) = cx.tensor(lod_reset::X) {
        m.lod = Some(lod_of(cx.op.name, x, cx.tensor(lod_reset::Y), a)?);
    }
    cx.set_meta(lod_reset::OUT, 0, m);
    Ok(())
}

fn run_lod_reset(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(lod_reset::X)?, cx.opt(lod_reset::Y));
    let lod = lod_of(cx.op.name, x, y, cx.attrs())?;
    cx.set(lod_reset::OUT, share(x)?.with_lod(Some(lod)));
    Ok(())
}

pub static LOD_RESET: Op = Op {
    name: "lod_reset",
    inputs: lod_reset::INS,
    outputs: lod_reset::OUTS,
    attrs: LodResetAttrs::FIELDS,
    infer: infer_lod_reset,
    cpu: Kernel::Pure(run_lod_reset),
    grad: Grad::By(&LOD_RESET_GRAD),
    ..OP
};

pub static LOD_RESET_GRAD: Op = Op {
    name: "lod_reset_grad",
    inputs: lod_reset_grad::INS,
    outputs: lod_reset_grad::OUTS,
    attrs: LodResetAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| copied(cx, lod_reset_grad::DOUT, lod_reset_grad::DX)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LOD_RESET, &LOD_RESET_GRAD];
