//! pow and clip: unary formulas whose parameters may come as tensors.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{kind_of_first, like_first};
use oar_core::op::pointwise::{self, PointwiseCall};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::formula::rows;
use oar_kernels::formula::Row;
use oar_kernels::types::Number;
use oar_ops_common::row::by_row;
use oar_ops_common::rows::check_rows;
use std::sync::Arc;

attrs! {
    pub struct PowAttrs { factor: f32 = 1.0 }
    pub struct ClipAttrs { min: f32, max: f32 }
}

slots! {
    mod pow { X "X", FACTOR "FactorTensor".dispensable() => OUT "Out" }
    mod pow_grad { X "X", DOUT "Out@GRAD", FACTOR "FactorTensor".dispensable() => DX "X@GRAD" }
    mod clip { X "X", MIN "Min".dispensable(), MAX "Max".dispensable() => OUT "Out" }
    mod clip_grad { X "X", MIN "Min".dispensable(), MAX "Max".dispensable(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// The parameter: the only element of the tensor in `slot` where there is one, else the attribute.
fn parameter(cx: &KernelContext, slot: InSlot, attr: f32) -> Result<f64> {
    let Some(t) = cx.opt(slot) else { return Ok(attr as f64) };
    ensure!(
        t.numel() == 1,
        InvalidArgument,
        "operator {}: input '{}' must have one element, got shape {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        t.dims()
    );
    Ok(t.to_f64s()[0])
}

/// Inputs of a gradient must be alike: kernels for integers zip them.
fn alike(cx: &KernelContext, x: &Tensor, d: &Tensor) -> Result<()> {
    ensure!(
        x.dims() == d.dims() && x.dtype() == d.dtype(),
        InvalidArgument,
        "operator {}: X and Out@GRAD must be alike, got {x:?} and {d:?}",
        cx.op.name
    );
    Ok(())
}

// pow

/// Of x to the power of 2, 3 and any other.
type Powers = [&'static Row; 3];
const POWERS: Powers = [&rows::square, &rows::cube, &rows::pow];
const GRADIENTS: Powers = [&rows::square_grad, &rows::cube_grad, &rows::pow_grad];

/// The row of a power, and its parameters.
fn power_row([square, cube, general]: Powers, factor: &f64) -> (&'static Row, &[f64]) {
    match *factor {
        2.0 => (square, &[]),
        3.0 => (cube, &[]),
        _ => (general, std::slice::from_ref(factor)),
    }
}

fn run_pow(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(pow::X)?;
    let factor = parameter(cx, pow::FACTOR, cx.attrs::<PowAttrs>().factor)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        map(x.data::<T>(), cx.out_data::<T>(pow::OUT)?, |v| Number::pow(v, f));
        Ok(())
    }, _float => {
        let (row, parameters) = power_row(POWERS, &factor);
        by_row(cx, row, &[x], parameters, pow::OUT)
    })
}

fn run_pow_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, d) = (cx.input(pow_grad::X)?, cx.input(pow_grad::DOUT)?);
    let factor = parameter(cx, pow_grad::FACTOR, cx.attrs::<PowAttrs>().factor)?;
    alike(cx, x, d)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        let less = f.wrapping_sub(1);
        zip(x.data::<T>(), d.data::<T>(), cx.out_data::<T>(pow_grad::DX)?, |x, d| {
            d.wrapping_mul(f).wrapping_mul(Number::pow(x, less))
        });
        Ok(())
    }, _float => {
        let (row, parameters) = power_row(GRADIENTS, &factor);
        by_row(cx, row, &[x, d], parameters, pow_grad::DX)
    })
}

fn pow_pointwise(p: &mut PointwiseCall, tensor: InSlot, powers: Powers) -> Option<()> {
    if p.has(tensor) {
        return None;
    }
    let factor = p.attrs::<PowAttrs>().factor as f64;
    let (row, parameters) = power_row(powers, &factor);
    pointwise::by_row(p, row, parameters)
}

pub static POW: Op = Op {
    name: "pow",
    inputs: pow::INS,
    outputs: pow::OUTS,
    attrs: PowAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INTEGERS),
    infer: like_first,
    cpu: Kernel::Pure(run_pow),
    grad: Grad::By(&POW_GRAD),
    pointwise: Some(|p| pow_pointwise(p, pow::FACTOR, POWERS)),
    ..OP
};
pub static POW_GRAD: Op = Op {
    name: "pow_grad",
    inputs: pow_grad::INS,
    outputs: pow_grad::OUTS,
    attrs: PowAttrs::FIELDS,
    dtypes: FLOATS.union(DTypes::INTEGERS),
    infer: like_first,
    cpu: Kernel::Pure(run_pow_grad),
    pointwise: Some(|p| pow_pointwise(p, pow_grad::FACTOR, GRADIENTS)),
    ..OP
};

// clip

/// The limits, which clip and its gradient have in the same slots.
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

/// The same of SelectedRows; rows that stand in the value twice are added up first.
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
/// Its own second gradient: the same mask on the gradient that comes in.
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

pub static TABLE: &[&Op] = &[&POW, &POW_GRAD, &CLIP, &CLIP_GRAD];
