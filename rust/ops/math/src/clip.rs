//! clip: values limited to [min, max], attributes or tensor attributes.

use super::parameter::{alike, parameter};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{kind_of_first, like_first};
use oar_core::op::pointwise::PointwiseCall;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::formula::rows;
use oar_kernels::formula::Row;
use oar_ops_common::formula::by_row;
use oar_ops_common::selected_rows::check_rows;
use std::sync::Arc;

attrs! {
    pub struct ClipAttrs { min: f32, max: f32 }
}

slots! {
    mod clip { X "X", MIN "Min".dispensable(), MAX "Max".dispensable() => OUT "Out" }
    mod clip_grad { X "X", MIN "Min".dispensable(), MAX "Max".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// The limits; clip and its gradient have them in the same slots.
fn bounds(cx: &KernelContext) -> Result<[f64; 2]> {
    let a = cx.attrs::<ClipAttrs>();
    let (min, max) = (parameter(cx, clip::MIN, a.min)?, parameter(cx, clip::MAX, a.max)?);
    ensure!(
        min <= max,
        InvalidArgument,
        "operator {}: min must not be above max, got min = {min}, max = {max}",
        cx.op.name
    );
    Ok([min, max])
}

fn run_clip(cx: &mut KernelContext) -> Result<()> {
    let limits = bounds(cx)?;
    let mut out = cx.take_out(clip::OUT)?;
    clipped(cx, cx.input(clip::X)?, limits, &mut out)?;
    cx.set(clip::OUT, out);
    Ok(())
}

/// SelectedRows kernel. Duplicate rows are summed first.
fn clip_rows(cx: &mut KernelContext) -> Result<()> {
    let limits = bounds(cx)?;
    let Some(r) = cx.rows(clip::X) else { return run_clip(cx) };
    check_rows(cx.op.name, r)?;
    let width = r.value.numel() / r.rows.len().max(1);
    let (rows, value) = dispatch!(r.value.dtype(), T in [f32, f64, i32, i64], {
        let (rows, values) = oar_kernels::shape::index::merge_rows(&r.rows, r.value.data::<T>(), width);
        let mut dims = r.value.dims().to_vec();
        dims[0] = rows.len() as i64;
        (rows, Tensor::from_slice(&values, &dims)?)
    }, other => return cx.unsupported(other));
    let mut out = Tensor::empty(value.dtype(), value.dims())?;
    clipped(cx, &value, limits, &mut out)?;
    cx.set(clip::OUT, SelectedRows { rows: Arc::new(rows), height: r.height, value: out });
    Ok(())
}

fn clipped(cx: &KernelContext, x: &Tensor, [min, max]: [f64; 2], out: &mut Tensor) -> Result<()> {
    dispatch!(x.dtype(), T in [i32, i64], {
        let (low, high) = (min as T, max as T);
        map(x.data::<T>(), out.data_mut::<T>()?, |v| if v < low { low } else if v > high { high } else { v });
    }, other => dispatch!(other, T in [f32, f64, half::f16, half::bf16], {
        rows::clip.run(&[x.data::<T>()], &[min, max], out.data_mut::<T>()?);
    }, other => return cx.unsupported(other)));
    Ok(())
}

fn run_clip_grad(cx: &mut KernelContext) -> Result<()> {
    let [min, max] = bounds(cx)?;
    let (x, d) = (cx.input(clip_grad::X)?, cx.input(clip_grad::DOUT)?);
    alike(cx, x, d)?;
    dispatch!(x.dtype(), T in [i32, i64], {
        let (low, high) = (min as T, max as T);
        zip(x.data::<T>(), d.data::<T>(), cx.out_data::<T>(clip_grad::DX)?, |x, d| if x > low && x < high { d } else { 0 });
        Ok(())
    }, _float => by_row(cx, &rows::clip_grad, &[x, d], &[min, max], clip_grad::DX))
}

fn clip_pointwise(p: &mut PointwiseCall, row: &'static Row, slots: &[InSlot]) -> Option<()> {
    let a = p.attrs::<ClipAttrs>();
    if p.has(clip::MIN) || p.has(clip::MAX) || a.min > a.max || a.min.is_nan() || a.max.is_nan() {
        return None;
    }
    let args = slots.iter().map(|&slot| p.input(slot)).collect::<Option<Vec<_>>>()?;
    let out = p.row(row, &args, &[a.min as f64, a.max as f64]);
    p.give(clip::OUT, out);
    Some(())
}

pub static CLIP: Op = Op {
    name: "clip",
    inputs: clip::INS,
    outputs: clip::OUTS,
    attrs: ClipAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INDICES),
    infer: kind_of_first,
    cpu: Kernel::Pure(run_clip),
    sparse_kernel: SparseKernel::Own(clip_rows),
    grad: Grad::By(&CLIP_GRAD),
    pointwise: Some(|p| clip_pointwise(p, &rows::clip, &[clip::X])),
    ..OP
};

/// clip_grad is its own gradient: the same mask applied to the incoming gradient.
pub static CLIP_GRAD: Op = Op {
    name: "clip_grad",
    inputs: clip_grad::INS,
    outputs: clip_grad::OUTS,
    attrs: ClipAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INDICES),
    infer: like_first,
    cpu: Kernel::Pure(run_clip_grad),
    pointwise: Some(|p| clip_pointwise(p, &rows::clip_grad, &[clip_grad::X, clip_grad::DOUT])),
    grad: Grad::Map(&CLIP_GRAD, &[("Out@GRAD", "X@GRAD@GRAD"), ("X@GRAD", "Out@GRAD@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&CLIP, &CLIP_GRAD];
