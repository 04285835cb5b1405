//! pow and clip: unary formulas whose parameters may come as tensors.

use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::infer::{like_first, VarKind};
use oar_core::op::parts::row::by_row;
use oar_core::op::point::{self, Points};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, Slot, OP};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{dispatch, ensure};
use oar_kernels::elementwise::{map, zip};
use oar_kernels::formula::Row;
use oar_kernels::formula_rows as rows;
use oar_kernels::types::Number;
use std::sync::Arc;

attrs! {
    pub struct PowAttrs { factor: f32 = 1.0 }
    pub struct ClipAttrs { min: f32, max: f32 }
}

/// The parameter: the only element of the tensor in `slot` where there is one, else the attribute.
fn parameter(cx: &Run, slot: usize, attr: f32) -> Result<f64> {
    let Some(t) = cx.opt(slot) else { return Ok(attr as f64) };
    ensure!(
        t.numel() == 1,
        InvalidArgument,
        "operator {}: input '{}' must have one element, got shape {:?}",
        cx.op.name,
        cx.op.inputs[slot].name,
        t.dims()
    );
    Ok(t.to_f64s()[0])
}

/// Inputs of a gradient must be alike: kernels for integers zip them.
fn alike(cx: &Run, x: &Tensor, d: &Tensor) -> Result<()> {
    ensure!(
        x.dims() == d.dims() && x.dtype() == d.dtype(),
        InvalidArgument,
        "operator {}: X and Out@GRAD must be alike, got {x:?} and {d:?}",
        cx.op.name
    );
    Ok(())
}

/// `X@GRAD` is like `X` (slot 0).
fn like_x(cx: &mut Infer) -> Result<()> {
    cx.like(0, 0)?;
    cx.share_lod(0, 0);
    Ok(())
}

const OUT: &[Slot] = &[slot("Out")];
const DX: &[Slot] = &[slot("X@GRAD")];

// pow

fn pow(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let factor = parameter(cx, 1, cx.attrs::<PowAttrs>().factor)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        map(x.data::<T>(), cx.out_data::<T>(0)?, |v| Number::pow(v, f));
        Ok(())
    }, _float => if factor == 2.0 {
        by_row(cx, &rows::square, &[x], &[], 0)
    } else {
        by_row(cx, &rows::pow, &[x], &[factor], 0)
    })
}

fn pow_grad(cx: &mut Run) -> Result<()> {
    let (x, d) = (cx.input(0)?, cx.input(1)?);
    let factor = parameter(cx, 2, cx.attrs::<PowAttrs>().factor)?;
    alike(cx, x, d)?;
    dispatch!(x.dtype(), T in [i32, i64, i16, i8, u8], {
        let f = factor as T;
        let less = f.wrapping_sub(1);
        zip(x.data::<T>(), d.data::<T>(), cx.out_data::<T>(0)?, |x, d| {
            d.wrapping_mul(f).wrapping_mul(Number::pow(x, less))
        });
        Ok(())
    }, _float => if factor == 2.0 {
        by_row(cx, &rows::square_grad, &[x, d], &[], 0)
    } else {
        by_row(cx, &rows::pow_grad, &[x, d], &[factor], 0)
    })
}

fn pow_point(p: &mut Points, tensor: usize, [square, general]: [&'static Row; 2]) -> Option<()> {
    let factor = p.attrs::<PowAttrs>().factor as f64;
    match () {
        _ if p.has(tensor) => None,
        _ if factor == 2.0 => point::by_row(p, square, &[]),
        _ => point::by_row(p, general, &[factor]),
    }
}

pub static POW: Op = Op {
    name: "pow",
    inputs: &[slot("X"), slot("FactorTensor").opt()],
    outputs: OUT,
    attrs: PowAttrs::FIELDS,
    infer: like_first,
    cpu: Kernel::Pure(pow),
    grad: Grad::By(&POW_GRAD),
    point: Some(|p| pow_point(p, 1, [&rows::square, &rows::pow])),
    ..OP
};
pub static POW_GRAD: Op = Op {
    name: "pow_grad",
    inputs: &[slot("X"), slot("Out@GRAD"), slot("FactorTensor").opt()],
    outputs: DX,
    attrs: PowAttrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(pow_grad),
    point: Some(|p| pow_point(p, 2, [&rows::square_grad, &rows::pow_grad])),
    ..OP
};

// clip

fn bounds(cx: &Run) -> Result<[f64; 2]> {
    let a = cx.attrs::<ClipAttrs>();
    let (min, max) = (parameter(cx, 1, a.min)?, parameter(cx, 2, a.max)?);
    ensure!(
        min <= max,
        InvalidArgument,
        "operator {}: min must not be above max, got min = {min}, max = {max}",
        cx.op.name
    );
    Ok([min, max])
}

fn infer_clip(cx: &mut Infer) -> Result<()> {
    let m = cx.meta(0, 0)?;
    if cx.is_run() && m.kind == VarKind::Rows {
        return Ok(());
    }
    cx.set_meta(0, 0, m);
    Ok(())
}

fn clip(cx: &mut Run) -> Result<()> {
    let limits = bounds(cx)?;
    let Some(r) = cx.rows(0) else {
        let mut out = cx.take_out(0)?;
        clipped(cx, cx.input(0)?, limits, &mut out)?;
        cx.set(0, out);
        return Ok(());
    };
    // Rows that stand in the value twice are added up first.
    let width = r.value.numel() / r.rows.len().max(1);
    let (rows, value) = dispatch!(r.value.dtype(), T in [f32, f64, i32, i64], {
        let (rows, values) = oar_kernels::index::merge_rows(&r.rows, r.value.data::<T>(), width);
        let mut dims = r.value.dims().to_vec();
        dims[0] = rows.len() as i64;
        (rows, Tensor::from_slice(&values, &dims)?)
    }, other => return cx.unsupported(other));
    let mut out = Tensor::empty(value.dtype(), value.dims())?;
    clipped(cx, &value, limits, &mut out)?;
    cx.set(0, SelectedRows { rows: Arc::new(rows), height: r.height, value: out });
    Ok(())
}

fn clipped(cx: &Run, x: &Tensor, [min, max]: [f64; 2], out: &mut Tensor) -> Result<()> {
    dispatch!(x.dtype(), T in [i32, i64], {
        let (low, high) = (min as T, max as T);
        map(x.data::<T>(), out.data_mut::<T>()?, |v| if v < low { low } else if v > high { high } else { v });
    }, other => dispatch!(other, T in [f32, f64, half::f16, half::bf16], {
        rows::clip.run(&[x.data::<T>()], &[min, max], out.data_mut::<T>()?);
    }, other => return cx.unsupported(other)));
    Ok(())
}

fn clip_grad(cx: &mut Run) -> Result<()> {
    let [min, max] = bounds(cx)?;
    let (x, d) = (cx.input(0)?, cx.input(3)?);
    alike(cx, x, d)?;
    dispatch!(x.dtype(), T in [i32, i64], {
        let (low, high) = (min as T, max as T);
        zip(x.data::<T>(), d.data::<T>(), cx.out_data::<T>(0)?, |x, d| if x > low && x < high { d } else { 0 });
        Ok(())
    }, _float => by_row(cx, &rows::clip_grad, &[x, d], &[min, max], 0))
}

fn clip_point(p: &mut Points, row: &'static Row, slots: &[usize]) -> Option<()> {
    let a = p.attrs::<ClipAttrs>();
    if p.has(1) || p.has(2) || a.min > a.max || a.min.is_nan() || a.max.is_nan() {
        return None;
    }
    let args = slots.iter().map(|&slot| p.input(slot)).collect::<Option<Vec<_>>>()?;
    let out = p.row(row, &args, &[a.min as f64, a.max as f64]);
    p.give(0, out);
    Some(())
}

const MIN: Slot = slot("Min").opt();
const MAX: Slot = slot("Max").opt();

pub static CLIP: Op = Op {
    name: "clip",
    inputs: &[slot("X"), MIN, MAX],
    outputs: OUT,
    attrs: ClipAttrs::FIELDS,
    infer: infer_clip,
    cpu: Kernel::Pure(clip),
    grad: Grad::By(&CLIP_GRAD),
    point: Some(|p| clip_point(p, &rows::clip, &[0])),
    ..OP
};
/// Its own second gradient: the same mask on the gradient that comes in.
pub static CLIP_GRAD: Op = Op {
    name: "clip_grad",
    inputs: &[slot("X"), MIN, MAX, slot("Out@GRAD")],
    outputs: DX,
    attrs: ClipAttrs::FIELDS,
    infer: like_x,
    cpu: Kernel::Pure(clip_grad),
    point: Some(|p| clip_point(p, &rows::clip_grad, &[0, 3])),
    grad: Grad::Map(&CLIP_GRAD, &[("Out@GRAD", "X@GRAD@GRAD"), ("X@GRAD", "Out@GRAD@GRAD")]),
    ..OP
};

pub static TABLE: &[&Op] = &[&POW, &POW_GRAD, &CLIP, &CLIP_GRAD];
