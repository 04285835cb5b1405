//! fused_batch_norm_act (batch normalization over the last axis with an activation) and fused_bn_add_activation (with a
//! sum before it). 2.0.2 has them on GPUs only.

use super::compose::{add, run, Outputs};
use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::ir::Attr;
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, slots};
use oar_ops_common::fill::{full, Scalar};
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{check_epsilon, check_like, statistics_dtype};

attrs! { pub struct NormAttrs { momentum: f32 = 0.9, epsilon: f32 = 1e-5, act_type: Text = "relu".into() } }

slots! {
    mod act {
        X "X", SCALE "Scale", BIAS "Bias", MEAN "Mean", VARIANCE "Variance"
        => Y "Y".kernel_allocated(), MEAN_OUT "MeanOut".aliases("Mean"), VARIANCE_OUT "VarianceOut".aliases("Variance"),
        SAVED_MEAN "SavedMean".intermediate().kernel_allocated(), SAVED_VARIANCE "SavedVariance".intermediate().kernel_allocated(), RESERVE "ReserveSpace".kernel_allocated()
    }
    mod act_grad {
        X "X", Y "Y", DY "Y@GRAD", SCALE "Scale", BIAS "Bias", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance",
        RESERVE "ReserveSpace".dispensable() => DX "X@GRAD".kernel_allocated(), DSCALE "Scale@GRAD".kernel_allocated(), DBIAS "Bias@GRAD".kernel_allocated()
    }
    mod sum_act {
        X "X", Z "Z", SCALE "Scale", BIAS "Bias"
        => Y "Y".kernel_allocated(), MEAN_OUT "MeanOut".in_place().kernel_allocated(), VARIANCE_OUT "VarianceOut".in_place().kernel_allocated(),
        SAVED_MEAN "SavedMean".intermediate().kernel_allocated(), SAVED_VARIANCE "SavedVariance".intermediate().kernel_allocated(), RESERVE "ReserveSpace".kernel_allocated()
    }
    mod sum_act_grad {
        X "X", Y "Y", DY "Y@GRAD", SCALE "Scale", BIAS "Bias", SAVED_MEAN "SavedMean", SAVED_VARIANCE "SavedVariance",
        RESERVE "ReserveSpace".dispensable()
        => DX "X@GRAD".kernel_allocated(), DZ "Z@GRAD".kernel_allocated(), DSCALE "Scale@GRAD".kernel_allocated(), DBIAS "Bias@GRAD".kernel_allocated()
    }
}

/// The activation's operator; `None` for identity.
fn activation(op: &str, name: &str) -> Result<Option<&'static str>> {
    Ok(Some(match name {
        "identity" | "" => return Ok(None),
        "relu" => "relu",
        "relu6" => "relu6",
        "sigmoid" => "sigmoid",
        "tanh" => "tanh",
        _ => {
            bail!(
                InvalidArgument,
                "operator {op}: act_type must be relu, relu6, sigmoid, tanh or identity, got '{name}'"
            )
        }
    }))
}

fn norm_attrs(a: &NormAttrs) -> [(&'static str, Attr); 3] {
    [
        ("momentum", Attr::Float(a.momentum)),
        ("epsilon", Attr::Float(a.epsilon)),
        ("data_layout", Attr::String("NHWC".into())),
    ]
}

/// Shape rule of both operators: the outputs have the same slot numbers, as do X and `channels`.
fn infer(cx: &mut ShapeContext, channels: &[InSlot]) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<NormAttrs>());
    check_epsilon(op, a.epsilon)?;
    activation(op, &a.act_type)?;
    let (x, dtype) = (cx.dims(act::X)?, cx.dtype(act::X)?);
    ensure!(
        (2..=5).contains(&x.len()),
        PreconditionNotMet,
        "operator {op}: X must have 2 to 5 dimensions, got shape {:?}",
        &x[..]
    );
    let c = x[x.len() - 1];
    for &slot in channels {
        let d = cx.dims(slot)?;
        ensure!(
            d.len() == 1 && (d[0] == c || d[0] < 0 || c < 0),
            PreconditionNotMet,
            "operator {op}: {} must have shape [{c}], got {:?}",
            cx.op.inputs[slot.0].name,
            &d[..]
        );
    }
    cx.set(act::Y, &x, dtype);
    cx.share_lod(act::Y, act::X);
    for slot in [act::MEAN_OUT, act::VARIANCE_OUT, act::SAVED_MEAN, act::SAVED_VARIANCE] {
        cx.set(slot, &[c], statistics_dtype(dtype));
    }
    cx.set(act::RESERVE, &[0], dtype); // workspace of cuDNN
    Ok(())
}

fn infer_sum(cx: &mut ShapeContext) -> Result<()> {
    infer(cx, &[sum_act::SCALE, sum_act::BIAS])?;
    let (x, z) = (cx.dims(sum_act::X)?, cx.dims(sum_act::Z)?);
    let fits = x.len() == z.len() && x.iter().zip(&z).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        fits,
        InvalidArgument,
        "operator {}: Z must have the shape of X, {:?}, got {:?}",
        cx.op.name,
        &x[..],
        &z[..]
    );
    Ok(())
}

/// Normalizes, adds `z` if given, activates, and sets the outputs.
fn forward(
    cx: &mut KernelContext,
    scale: InSlot,
    bias: InSlot,
    (mean, variance): (Tensor, Tensor),
    z: Option<&Tensor>,
) -> Result<()> {
    let a = cx.attrs::<NormAttrs>();
    let x = cx.input(act::X)?;
    let ins =
        [("X", x), ("Scale", cx.input(scale)?), ("Bias", cx.input(bias)?), ("Mean", &mean), ("Variance", &variance)];
    let mut outputs: Outputs = run("batch_norm", &ins, &norm_attrs(a))?;
    let mut y = outputs.take("Y")?;
    if let Some(z) = z {
        y = add(&y, z)?;
    }
    if let Some(name) = activation(cx.op.name, &a.act_type)? {
        y = run(name, &[("X", &y)], &[])?.take("Out")?;
    }
    cx.set(act::Y, y.with_lod(x.lod.clone()));
    for (slot, name) in [
        (act::MEAN_OUT, "MeanOut"),
        (act::VARIANCE_OUT, "VarianceOut"),
        (act::SAVED_MEAN, "SavedMean"),
        (act::SAVED_VARIANCE, "SavedVariance"),
    ] {
        cx.set(slot, outputs.take(name)?);
    }
    cx.set(act::RESERVE, Tensor::empty(x.dtype(), &[0])?);
    Ok(())
}

fn run_act(cx: &mut KernelContext) -> Result<()> {
    let running = (cx.take_out(act::MEAN_OUT)?, cx.take_out(act::VARIANCE_OUT)?);
    forward(cx, act::SCALE, act::BIAS, running, None)
}

fn run_sum(cx: &mut KernelContext) -> Result<()> {
    let c = *cx.input(sum_act::X)?.dims().last().unwrap_or(&0);
    let dtype = statistics_dtype(cx.input(sum_act::X)?.dtype());
    // Running statistics start from the values of the output variables.
    let running_value = |slot: OutSlot, start: f64| match cx.outs.slot(slot.0).first().map(|o| &o.value) {
        Some(Value::Dense(t)) if t.dtype() == dtype && t.dims() == [c] => Ok(t.clone()),
        _ => full(dtype, &[c], Scalar::from(start)),
    };
    let running = (running_value(sum_act::MEAN_OUT, 0.0)?, running_value(sum_act::VARIANCE_OUT, 1.0)?);
    let z = cx.input(sum_act::Z)?;
    forward(cx, sum_act::SCALE, sum_act::BIAS, running, Some(z))
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(act_grad::X)?, cx.dtype(act_grad::X)?);
    let c = x.last().copied().unwrap_or(0);
    for (i, slot) in cx.op.outputs.iter().enumerate() {
        match slot.name {
            "X@GRAD" | "Z@GRAD" => cx.set(OutSlot(i), &x, dtype),
            _ => cx.set(OutSlot(i), &[c], statistics_dtype(dtype)),
        }
    }
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use act_grad::{BIAS, DY, SAVED_MEAN, SAVED_VARIANCE, SCALE, X, Y};
    let (a, x) = (cx.attrs::<NormAttrs>(), cx.input(X)?);
    check_like(cx, x, &[Y, DY])?;
    let mut dy = cx.input(DY)?.clone();
    if let Some(name) = activation(cx.op.name, &a.act_type)? {
        let grad = [("X", cx.input(Y)?), ("Out", cx.input(Y)?), ("Out@GRAD", &dy)];
        let op = oar_core::op::table::need(&format!("{name}_grad"))?;
        let takes: Vec<(&str, &Tensor)> = grad.into_iter().filter(|(slot, _)| op.input(slot).is_some()).collect();
        dy = run(op.name, &takes, &[])?.take("X@GRAD")?;
    }
    let ins = [
        ("X", x),
        ("Y@GRAD", &dy),
        ("Scale", cx.input(SCALE)?),
        ("Bias", cx.input(BIAS)?),
        ("SavedMean", cx.input(SAVED_MEAN)?),
        ("SavedVariance", cx.input(SAVED_VARIANCE)?),
    ];
    let mut outputs = run("batch_norm_grad", &ins, &norm_attrs(a))?;
    for (i, slot) in cx.op.outputs.iter().enumerate() {
        let t = if slot.name == "Z@GRAD" { dy.share()? } else { outputs.take(slot.name)? };
        cx.set(OutSlot(i), t);
    }
    Ok(())
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static ACT: Op = Op {
    name: "fused_batch_norm_act",
    inputs: act::INS,
    outputs: act::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: FLOATS,
    infer: |cx| infer(cx, &[act::SCALE, act::BIAS, act::MEAN, act::VARIANCE]),
    cpu: Kernel::Pure(|cx| in_f32(cx, act::X, run_act)),
    grad: Grad::By(&ACT_GRAD),
    ..OP
};

pub static ACT_GRAD: Op = Op {
    name: "fused_batch_norm_act_grad",
    inputs: act_grad::INS,
    outputs: act_grad::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, act_grad::X, backward)),
    ..OP
};

pub static SUM_ACT: Op = Op {
    name: "fused_bn_add_activation",
    inputs: sum_act::INS,
    outputs: sum_act::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_sum,
    cpu: Kernel::Pure(|cx| in_f32(cx, sum_act::X, run_sum)),
    grad: Grad::By(&SUM_ACT_GRAD),
    ..OP
};

pub static SUM_ACT_GRAD: Op = Op {
    name: "fused_bn_add_activation_grad",
    inputs: sum_act_grad::INS,
    outputs: sum_act_grad::OUTS,
    attrs: NormAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, sum_act_grad::X, backward)),
    ..OP
};

pub static TABLE: &[&Op] = &[&ACT, &ACT_GRAD, &SUM_ACT, &SUM_ACT_GRAD];
