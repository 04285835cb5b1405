//! sgd, momentum and adam. The outputs alias their inputs: parameters and states are updated in place.

use super::update::{by_types, grad_rows, infer_aliases, like_param, next_power, outs, update, Gradient, Places};
use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::release;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, NoAttrs, Op, OutSlot, SparseKernel, OP};
use oar_core::tensor::{SelectedRows, Value};
use oar_core::{bail, ensure, slots};
use oar_kernels::optimizer::{self as kernel, Adam, Momentum, Sgd};
use oar_ops_common::half::is_half;
use oar_ops_common::selected_rows::check_rows;
use oar_ops_common::tensor_attr::{scalar, scalar_of};
use std::collections::HashMap;

attrs! {
    pub struct MomentumAttrs {
        mu: f32, use_nesterov: bool = false, regularization_method: Text = "".into(),
        regularization_coeff: f32 = 0.0, multi_precision: bool = false, rescale_grad: f32 = 1.0,
    }
    pub struct AdamAttrs {
        beta1: f32 = 0.9, beta2: f32 = 0.999, epsilon: f32 = 1e-8, lazy_mode: bool = false,
        min_row_size_to_use_multithread: i64 = 1000, multi_precision: bool = false,
    }
}

slots! {
    mod sgd { PARAM "Param", RATE "LearningRate", GRAD "Grad" => PARAM_OUT "ParamOut".aliases("Param") }
    mod momentum {
        PARAM "Param", GRAD "Grad", VELOCITY "Velocity", RATE "LearningRate", MASTER "MasterParam".dispensable()
        => PARAM_OUT "ParamOut".aliases("Param"), VELOCITY_OUT "VelocityOut".aliases("Velocity"),
        MASTER_OUT "MasterParamOut".dispensable().aliases("MasterParam")
    }
    mod adam {
        PARAM "Param", GRAD "Grad", RATE "LearningRate", MOMENT1 "Moment1", MOMENT2 "Moment2",
        BETA1_POW "Beta1Pow", BETA2_POW "Beta2Pow", BETA1 "Beta1Tensor".dispensable(), BETA2 "Beta2Tensor".dispensable(),
        MASTER "MasterParam".dispensable(), DECAY "Decay".dispensable().extra()
        => PARAM_OUT "ParamOut".aliases("Param"), MOMENT1_OUT "Moment1Out".aliases("Moment1"),
        MOMENT2_OUT "Moment2Out".aliases("Moment2"), BETA1_POW_OUT "Beta1PowOut".aliases("Beta1Pow"),
        BETA2_POW_OUT "Beta2PowOut".aliases("Beta2Pow"), MASTER_OUT "MasterParamOut".dispensable().aliases("MasterParam")
    }
}

/// Copies the master parameter to the parameter (or the reverse if that is f32).
fn copy_master(cx: &mut KernelContext, param: OutSlot, master: OutSlot) -> Result<()> {
    let [param, master] = outs(cx, [param, master])?;
    ensure!(
        param.numel() == master.numel() && master.dtype() == DType::F32,
        InvalidArgument,
        "MasterParam must be of float32 and have the shape of Param"
    );
    match param.dtype() {
        DType::F16 => kernel::narrow::<f32, _, _>(master.data::<f32>(), param.data_mut::<f16>()?),
        DType::BF16 => kernel::narrow::<f32, _, _>(master.data::<f32>(), param.data_mut::<bf16>()?),
        DType::F32 => master.data_mut::<f32>()?.copy_from_slice(param.data::<f32>()),
        _ => {}
    }
    Ok(())
}

/// The output slot of the master parameter, if multi_precision is set.
fn master(cx: &mut KernelContext, wanted: bool, output: OutSlot) -> Result<Option<OutSlot>> {
    if !wanted {
        return Ok(None);
    }
    let [there] = cx.each_out([output]);
    ensure!(
        there.is_some(),
        InvalidArgument,
        "operator {}: with multi_precision there must be MasterParam and MasterParamOut",
        cx.op.name
    );
    Ok(Some(output))
}

// sgd

fn sgd(cx: &mut KernelContext) -> Result<()> {
    let rate = scalar(cx, sgd::RATE)?;
    let grad = Gradient::dense(cx, sgd::GRAD)?;
    let dtype = cx.out(sgd::PARAM_OUT)?.dtype();
    by_types!(cx, dtype, false, |T, M, G| {
        let at = Places { param_and_states: [sgd::PARAM_OUT], lazy: true };
        update::<T, M, G, _, 1>(cx, &at, &grad, Sgd { rate: rate as T })
    })
}

/// SelectedRows kernel: the gradient, and possibly the parameter, is SelectedRows.
fn sgd_rows(cx: &mut KernelContext) -> Result<()> {
    let (rate, grad) = (scalar(cx, sgd::RATE)?, grad_rows(cx, sgd::GRAD)?);
    match cx.outs.slot(sgd::PARAM_OUT.0).first().map(|o| &o.value) {
        Some(Value::Rows(_)) => sgd_table(cx, rate, grad),
        _ => sgd_by_rows(cx, rate, grad),
    }
}

/// Duplicate rows need no merge: each is applied.
fn sgd_by_rows(cx: &mut KernelContext, rate: f64, r: &SelectedRows) -> Result<()> {
    if r.rows.is_empty() {
        return Ok(());
    }
    check_rows(cx.op.name, r)?;
    let param = cx.out(sgd::PARAM_OUT)?;
    let width = r.value.numel() / r.rows.len();
    ensure!(
        param.dims().first() == Some(&r.height) && param.numel() == width * r.height as usize,
        InvalidArgument,
        "operator sgd: SelectedRows of height {} and shape {:?} do not fit a Param of shape {:?}",
        r.height,
        r.value.dims(),
        param.dims()
    );
    ensure!(
        param.dtype() == r.value.dtype(),
        InvalidArgument,
        "operator sgd: Param and Grad must have the same data type"
    );
    let dtype = param.dtype();
    by_types!(cx, dtype, false, |T, M, G| {
        let _: Option<G> = None;
        kernel::sgd_rows::<T, M>(rate as T, &r.rows, r.value.data::<M>(), cx.out_data::<M>(sgd::PARAM_OUT)?);
        Ok(())
    })
}

/// Updates a parameter that is SelectedRows (a growing table): it must contain the gradient's rows.
fn sgd_table(cx: &mut KernelContext, rate: f64, grad: &SelectedRows) -> Result<()> {
    let Some(Value::Rows(param)) = cx.outs.slot_mut(sgd::PARAM_OUT.0).first_mut().map(|o| &mut o.value) else {
        bail!(InvalidArgument, "operator sgd: ParamOut must be SelectedRows")
    };
    if grad.rows.is_empty() {
        return Ok(());
    }
    check_rows("sgd", grad)?;
    check_rows("sgd", param)?;
    let width = grad.value.numel() / grad.rows.len();
    ensure!(
        param.value.numel() == param.rows.len() * width && param.value.dtype() == grad.value.dtype(),
        InvalidArgument,
        "operator sgd: the rows of Param and Grad differ in width or data type"
    );
    let index: HashMap<i64, i64> = param.rows.iter().enumerate().map(|(i, &r)| (r, i as i64)).collect();
    let mut at = Vec::with_capacity(grad.rows.len());
    for row in grad.rows.iter() {
        let Some(&i) = index.get(row) else { bail!(NotFound, "operator sgd: row {row} of Grad is not in Param") };
        at.push(i);
    }
    let dtype = param.value.dtype();
    let value = &mut param.value;
    match dtype {
        DType::F32 => kernel::sgd_rows(rate as f32, &at, grad.value.data::<f32>(), value.data_mut::<f32>()?),
        DType::F64 => kernel::sgd_rows(rate, &at, grad.value.data::<f64>(), value.data_mut::<f64>()?),
        other => return cx.unsupported(other),
    }
    Ok(())
}

pub static SGD: Op = Op {
    name: "sgd",
    inputs: sgd::INS,
    outputs: sgd::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        like_param(cx, sgd::PARAM, &[sgd::GRAD])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(sgd),
    sparse_kernel: SparseKernel::Own(sgd_rows),
    ..OP
};

// momentum

fn momentum(cx: &mut KernelContext) -> Result<()> {
    let grad = Gradient::dense(cx, momentum::GRAD)?;
    momentum_by(cx, Some(grad))
}

fn momentum_rows(cx: &mut KernelContext) -> Result<()> {
    let grad = Gradient::of_rows(cx, momentum::GRAD)?;
    momentum_by(cx, grad)
}

fn momentum_by(cx: &mut KernelContext, grad: Option<Gradient>) -> Result<()> {
    use momentum::{MASTER_OUT, PARAM_OUT, RATE, VELOCITY_OUT};
    let a = cx.attrs::<MomentumAttrs>();
    let rate = scalar(cx, RATE)?;
    let dtype = cx.out(PARAM_OUT)?.dtype();
    let master = master(cx, a.multi_precision, MASTER_OUT)?;
    let decay = if a.regularization_method == "l2_decay" { a.regularization_coeff } else { 0.0 };
    if let Some(grad) = grad {
        by_types!(cx, dtype, master.is_some(), |T, M, G| {
            let param = master.filter(|_| is_half(dtype)).unwrap_or(PARAM_OUT);
            let at = Places { param_and_states: [param, VELOCITY_OUT], lazy: false };
            let rule = Momentum {
                rate: rate as T,
                mu: a.mu as T,
                scale: a.rescale_grad as T,
                decay: decay as T,
                nesterov: a.use_nesterov,
            };
            update::<T, M, G, _, 2>(cx, &at, &grad, rule)?;
        });
    }
    match master {
        Some(m) => copy_master(cx, PARAM_OUT, m),
        None => Ok(()),
    }
}

pub static MOMENTUM: Op = Op {
    name: "momentum",
    inputs: momentum::INS,
    outputs: momentum::OUTS,
    attrs: MomentumAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        like_param(cx, momentum::PARAM, &[momentum::GRAD, momentum::VELOCITY])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(momentum),
    sparse_kernel: SparseKernel::Own(momentum_rows),
    ..OP
};

// adam

fn adam(cx: &mut KernelContext) -> Result<()> {
    let (grad, powers, betas) = (Gradient::dense(cx, adam::GRAD)?, powers(cx)?, betas(cx)?);
    adam_by(cx, &grad, powers, betas)
}

fn adam_rows(cx: &mut KernelContext) -> Result<()> {
    ensure!(!cx.has(adam::DECAY), InvalidArgument, "operator adam: Decay requires a dense Grad");
    let Some(grad) = Gradient::of_rows(cx, adam::GRAD)? else { return Ok(()) };
    let (powers, betas) = (powers(cx)?, betas(cx)?);
    // Paddle's CPU kernel writes the next powers first, and then reads them if input and output are one variable.
    let next = |cx: &mut KernelContext, slot: OutSlot, power: f64, beta: f64| -> Result<f64> {
        let in_place = cx.outs.slot(slot.0).first().is_some_and(|o| o.in_place);
        let wide = cx.out(slot)?.dtype() == DType::F64;
        let product = if wide { power * beta } else { (power as f32 * beta as f32) as f64 };
        Ok(if in_place { product } else { power })
    };
    let powers = (next(cx, adam::BETA1_POW_OUT, powers.0, betas.0)?, next(cx, adam::BETA2_POW_OUT, powers.1, betas.1)?);
    adam_by(cx, &grad, powers, betas)
}

/// beta1 and beta2, from tensor attributes or attributes.
fn betas(cx: &KernelContext) -> Result<(f64, f64)> {
    let a = cx.attrs::<AdamAttrs>();
    let beta = |slot: InSlot, attr: f32| if cx.has(slot) { scalar(cx, slot) } else { Ok(attr as f64) };
    Ok((beta(adam::BETA1, a.beta1)?, beta(adam::BETA2, a.beta2)?))
}

/// beta1 and beta2 to the power of this step.
fn powers(cx: &mut KernelContext) -> Result<(f64, f64)> {
    let op = cx.op;
    let mut power = |from: InSlot, to: OutSlot| scalar_of(op, from, cx.out(to)?);
    Ok((power(adam::BETA1_POW, adam::BETA1_POW_OUT)?, power(adam::BETA2_POW, adam::BETA2_POW_OUT)?))
}

fn adam_by(cx: &mut KernelContext, grad: &Gradient, powers: (f64, f64), betas: (f64, f64)) -> Result<()> {
    use adam::{BETA1_POW_OUT, BETA2_POW_OUT, DECAY, MASTER_OUT, MOMENT1_OUT, MOMENT2_OUT, PARAM_OUT, RATE};
    let a = cx.attrs::<AdamAttrs>();
    let rate = scalar(cx, RATE)?;
    let dtype = cx.out(PARAM_OUT)?.dtype();
    let master = master(cx, a.multi_precision, MASTER_OUT)?;
    // AdamW's decay factor of the weights, applied in the same pass.
    let keep = if cx.has(DECAY) { scalar(cx, DECAY)? } else { 1.0 };
    ensure!(
        keep == 1.0 || !is_half(dtype),
        InvalidArgument,
        "operator adam: Decay requires a Param of float32 or float64, got {dtype}"
    );
    by_types!(cx, dtype, master.is_some(), |T, M, G| {
        let param = master.filter(|_| is_half(dtype)).unwrap_or(PARAM_OUT);
        let at = Places { param_and_states: [param, MOMENT1_OUT, MOMENT2_OUT], lazy: a.lazy_mode };
        let mut rule = Adam::<T>::new(rate, betas, a.epsilon as f64, powers).keeping(keep as T);
        if release::is_18() {
            rule.epsilon = rule.idle_epsilon;
        }
        update::<T, M, G, _, 3>(cx, &at, grad, rule)?;
    });
    next_power(cx, BETA1_POW_OUT, betas.0)?;
    next_power(cx, BETA2_POW_OUT, betas.1)?;
    match master {
        Some(m) => copy_master(cx, PARAM_OUT, m),
        None => Ok(()),
    }
}

pub static ADAM: Op = Op {
    name: "adam",
    inputs: adam::INS,
    outputs: adam::OUTS,
    attrs: AdamAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: |cx| {
        like_param(cx, adam::PARAM, &[adam::GRAD, adam::MOMENT1, adam::MOMENT2])?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(adam),
    sparse_kernel: SparseKernel::Own(adam_rows),
    ..OP
};

pub static TABLE: &[&Op] = &[&SGD, &MOMENTUM, &ADAM];
