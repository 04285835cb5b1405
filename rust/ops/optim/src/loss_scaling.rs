//! check_finite_and_unscale and update_loss_scaling: loss scaling of mixed precision.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::VarKind;
use oar_core::op::{InSlot, Kernel, KernelContext, NoAttrs, Op, OutSlot, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::optimizer::loss_scaling as kernel;
use oar_kernels::types::Number;
use oar_ops_common::tensor_attr::scalar;

attrs! {
    pub struct ScalingAttrs {
        incr_every_n_steps: i32, decr_every_n_nan_or_inf: i32, incr_ratio: f32, decr_ratio: f32,
        stop_update: bool = false,
    }
}

slots! {
    mod unscale { X "X".duplicable(), SCALE "Scale" => OUT "Out".duplicable().aliases("X"), FOUND "FoundInfinite" }
    mod scaling {
        X "X".duplicable(), FOUND "FoundInfinite", PREVIOUS "PrevLossScaling", GOOD "InGoodSteps", BAD "InBadSteps"
        => OUT "Out".duplicable().aliases("X"), SCALING "LossScaling".aliases("PrevLossScaling"),
        GOOD_OUT "OutGoodSteps".aliases("InGoodSteps"), BAD_OUT "OutBadSteps".aliases("InBadSteps")
    }
}

/// One output per input, with the input's meta.
fn like_each(cx: &mut ShapeContext, from: InSlot, to: OutSlot) -> Result<()> {
    let n = cx.count(from);
    cx.set_outs(to, n)?;
    for i in 0..n {
        let m = cx.meta(from, i)?;
        ensure!(
            m.kind == VarKind::Dense,
            InvalidArgument,
            "operator {}: input 'X' must hold dense tensors, tensor {i} is {:?}",
            cx.op.name,
            m.kind
        );
        cx.set_meta(to, i, m);
    }
    Ok(())
}

fn one_element(cx: &ShapeContext, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let dims = cx.dims(slot)?;
        ensure!(
            dims.iter().all(|&d| d == 1 || d < 0),
            InvalidArgument,
            "operator {}: input '{}' must have one element, got shape {:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            &dims[..]
        );
    }
    Ok(())
}

// check_finite_and_unscale

/// Multiplies by the inverse of the scale; by zero from the first tensor with an infinity or NaN on, as Paddle does.
fn run_unscale(cx: &mut KernelContext) -> Result<()> {
    use unscale::{FOUND, OUT, SCALE};
    let scale = scalar(cx, SCALE)?;
    let mut found = false;
    for i in 0..cx.n_outs(OUT) {
        let t = cx.out_nth(OUT, i)?;
        dispatch!(t.dtype(), T in [f32, f64, f16, bf16], {
            let inverse = if t.dtype() == DType::F64 { 1.0 / scale } else { (1.0 / scale as f32) as f64 };
            found = kernel::unscale(t.data_mut::<T>()?, inverse, found);
        }, other => return cx.unsupported(other));
    }
    cx.out_data::<bool>(FOUND)?[0] = found;
    Ok(())
}

pub static UNSCALE: Op = Op {
    name: "check_finite_and_unscale",
    inputs: unscale::INS,
    outputs: unscale::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        like_each(cx, unscale::X, unscale::OUT)?;
        one_element(cx, &[unscale::SCALE])?;
        cx.set(unscale::FOUND, &[1], DType::Bool);
        Ok(())
    },
    cpu: Kernel::Pure(run_unscale),
    ..OP
};

// update_loss_scaling

/// Zeroes the gradients if one is infinite or NaN, and counts steps: enough bad ones lower the scale, enough good ones
/// raise it.
fn run_scaling(cx: &mut KernelContext) -> Result<()> {
    use scaling::{BAD_OUT, FOUND, GOOD_OUT, OUT, SCALING};
    let a = cx.attrs::<ScalingAttrs>();
    let found = cx.input(FOUND)?;
    ensure!(
        found.dtype() == DType::Bool && found.numel() == 1,
        InvalidArgument,
        "operator update_loss_scaling: FoundInfinite must hold one bool, got {found:?}"
    );
    let found = found.data::<bool>()[0];
    if found {
        for i in 0..cx.n_outs(OUT) {
            let t = cx.out_nth(OUT, i)?;
            dispatch!(t.dtype(), T in [f32, f64, f16, bf16], {
                t.data_mut::<T>()?.fill(T::ZERO);
            }, other => return cx.unsupported(other));
        }
    }
    if a.stop_update {
        return Ok(());
    }
    let (this, other, every) =
        if found { (BAD_OUT, GOOD_OUT, a.decr_every_n_nan_or_inf) } else { (GOOD_OUT, BAD_OUT, a.incr_every_n_steps) };
    *steps(cx, other)? = 0;
    let steps = steps(cx, this)?;
    *steps = steps.wrapping_add(1);
    if *steps != every {
        return Ok(());
    }
    *steps = 0;
    let t = cx.out(SCALING)?;
    ensure!(t.numel() == 1, InvalidArgument, "operator update_loss_scaling: PrevLossScaling must have one element");
    dispatch!(t.dtype(), T in [f32, f64], {
        let scale = &mut t.data_mut::<T>()?[0];
        if found {
            let less = *scale * a.decr_ratio as T;
            *scale = if less < 1.0 { 1.0 } else { less };
        } else if (*scale * a.incr_ratio as T).is_finite() {
            *scale *= a.incr_ratio as T;
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn steps<'r>(cx: &'r mut KernelContext, slot: OutSlot) -> Result<&'r mut i32> {
    let op = cx.op;
    let t = cx.out(slot)?;
    ensure!(
        t.dtype() == DType::I32 && t.numel() == 1,
        InvalidArgument,
        "operator {}: '{}' must hold one int32, got {t:?}",
        op.name,
        op.outputs[slot.0].name
    );
    Ok(&mut t.data_mut::<i32>()?[0])
}

pub static SCALING: Op = Op {
    name: "update_loss_scaling",
    inputs: scaling::INS,
    outputs: scaling::OUTS,
    attrs: ScalingAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        let a = cx.attrs::<ScalingAttrs>();
        ensure!(
            a.incr_ratio > 1.0 && a.decr_ratio > 0.0 && a.decr_ratio < 1.0,
            InvalidArgument,
            "operator update_loss_scaling: incr_ratio must be above 1 and decr_ratio between 0 and 1, got {} and {}",
            a.incr_ratio,
            a.decr_ratio
        );
        like_each(cx, scaling::X, scaling::OUT)?;
        one_element(cx, &[scaling::FOUND, scaling::PREVIOUS, scaling::GOOD, scaling::BAD])?;
        for (out, from) in [
            (scaling::SCALING, scaling::PREVIOUS),
            (scaling::GOOD_OUT, scaling::GOOD),
            (scaling::BAD_OUT, scaling::BAD),
        ] {
            let dtype = cx.dtype(from)?;
            cx.set(out, &[1], dtype);
        }
        Ok(())
    },
    cpu: Kernel::Pure(run_scaling),
    ..OP
};

pub static TABLE: &[&Op] = &[&UNSCALE, &SCALING];
