//! Optimizers: sgd, momentum, adam. The outputs alias their inputs: parameters and states change in place.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::given::{scalar, scalar_of};
use oar_core::op::parts::rows::{ascending, check_rows};
use oar_core::op::{slot, Infer, Kernel, NoAttrs, Op, Run, OP};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::optimizer::{self as kernel, Adam, Momentum, Rule, Sgd, Stored, Wide};
use smallvec::SmallVec;
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

/// Dense outputs, to be written together; they hold the values of the inputs that they alias.
pub fn outs<'r, const N: usize>(cx: &'r mut Run, slots: [usize; N]) -> Result<[&'r mut Tensor; N]> {
    let op = cx.op;
    for s in slots {
        let there = matches!(cx.outs.slot(s).first().map(|o| &o.value), Some(Value::Dense(_)));
        ensure!(there, NotFound, "operator {}: output '{}' is not there", op.name, op.outputs[s].name);
    }
    let at = slots.map(|s| cx.outs.range(s).start);
    let outs = cx.outs.flat.get_disjoint_mut(at).expect("slots are disjoint");
    Ok(outs.map(|o| match &mut o.value {
        Value::Dense(t) => t,
        _ => unreachable!("looked at above"),
    }))
}

/// The input in slot `slot` has the shape of the parameter, unless it is SelectedRows (or not known yet).
pub fn like_param(cx: &Infer, param: &[i64], slot: usize) -> Result<()> {
    let d = match cx.tensor(slot) {
        Some(t) => oar_core::base::Dims::from_slice(t.dims()),
        None if cx.is_run() => return Ok(()),
        None => cx.dims(slot)?,
    };
    let same = d.len() == param.len() && d.iter().zip(param).all(|(&a, &b)| a == b || a < 0 || b < 0);
    ensure!(
        same,
        InvalidArgument,
        "operator {}: Param and {} must have the same shape, got {param:?} and {:?}",
        cx.op.name,
        cx.op.inputs[slot].name,
        &d[..]
    );
    Ok(())
}

/// Every output has the shape and type of the input that it aliases.
pub fn infer_aliases(cx: &mut Infer) -> Result<()> {
    if cx.is_run() {
        return Ok(());
    }
    for (o, s) in cx.op.outputs.iter().enumerate() {
        let Some(i) = s.alias.and_then(|name| cx.op.input(name)) else { continue };
        if cx.has(i) {
            let m = cx.meta(i, 0)?;
            cx.set_meta(o, 0, m);
        }
    }
    Ok(())
}

/// Where an update finds its operands: the output slots of the parameter and the states, and the gradient's input slot.
struct Places<const N: usize> {
    param_and_states: [usize; N],
    grad: usize,
    /// Rows without a gradient stay as they are.
    lazy: bool,
}

/// Applies a rule to what is stored as `M` by a gradient of type `G`.
fn update<T: Wide, M: Stored<T> + Element, G: Stored<T> + Element + std::ops::AddAssign, R: Rule<T>, const N: usize>(
    cx: &mut Run,
    at: &Places<N>,
    rule: R,
) -> Result<()> {
    let name = cx.op.name;
    let grad = cx.value(at.grad)?;
    let merged;
    let (dense, rows) = match grad {
        Value::Dense(g) => (g, None),
        Value::Rows(r) if r.rows.is_empty() => return Ok(()),
        Value::Rows(r) => {
            merged = ascending(name, r)?;
            (&merged.value, Some(&merged))
        }
        other => bail!(InvalidArgument, "operator {name}: input 'Grad' cannot be {}", other.what()),
    };
    ensure!(
        dense.dtype() == G::DTYPE,
        InvalidArgument,
        "operator {name}: Grad must have data type {}, as Param has, got {}",
        G::DTYPE,
        dense.dtype()
    );
    let names = at.param_and_states.map(|s| cx.op.outputs[s].name);
    let outs = outs(cx, at.param_and_states)?;
    let n = outs[0].numel();
    let dims = outs[0].dims();
    for (t, name) in outs.iter().zip(names) {
        ensure!(
            t.dtype() == M::DTYPE && t.numel() == n,
            InvalidArgument,
            "{name} must hold {n} elements of data type {}, got {} of {}",
            M::DTYPE,
            t.numel(),
            t.dtype()
        );
    }
    match &rows {
        None => ensure!(
            dense.numel() == n,
            InvalidArgument,
            "operator {name}: Param and Grad must have the same shape, got {dims:?} and {:?}",
            dense.dims()
        ),
        Some(r) => ensure!(
            dims.first() == Some(&r.height) && dense.numel() / r.rows.len() * r.height as usize == n,
            InvalidArgument,
            "operator {name}: SelectedRows of height {} and shape {:?} do not fit a Param of shape {dims:?}",
            r.height,
            dense.dims()
        ),
    }
    let mut slices: SmallVec<[&mut [M]; 4]> = SmallVec::new();
    for t in outs {
        slices.push(t.data_mut::<M>()?);
    }
    let (param, states) = slices.split_first_mut().expect("there is a parameter");
    match rows {
        None => kernel::dense::<T, M, G, R>(rule, dense.data::<G>(), param, states),
        Some(r) => kernel::sparse::<T, M, G, R>(rule, &r.rows, dense.data::<G>(), at.lazy, param, states),
    }
    Ok(())
}

/// Runs an expression with the types of a parameter: what is computed in, stored in, and the gradient's. With a master
/// parameter (half precision only) the states are stored in f32.
macro_rules! by_types {
    ($cx:ident, $dtype:expr, $master:expr, |$t:ident, $m:ident, $g:ident| $body:expr) => {{
        macro_rules! with {
            ($a:ty, $b:ty, $c:ty) => {{
                #[allow(dead_code)]
                type $t = $a;
                type $m = $b;
                type $g = $c;
                $body
            }};
        }
        match ($dtype, $master) {
            (DType::F32, _) => with!(f32, f32, f32),
            (DType::F64, _) => with!(f64, f64, f64),
            (DType::F16, false) => with!(f32, f16, f16),
            (DType::BF16, false) => with!(f32, bf16, bf16),
            (DType::F16, true) => with!(f32, f32, f16),
            (DType::BF16, true) => with!(f32, f32, bf16),
            (other, _) => return $cx.unsupported(other),
        }
    }};
}

/// Copies the master parameter to the parameter (or the other way where that is f32 too).
fn copy_master(cx: &mut Run, master: usize) -> Result<()> {
    let [param, master] = outs(cx, [0, master])?;
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

/// The output slot of the master parameter if there is to be one.
fn master(cx: &Run, wanted: bool, input: usize, output: usize) -> Result<Option<usize>> {
    if !wanted {
        return Ok(None);
    }
    let there = matches!(cx.outs.slot(output).first().map(|o| &o.value), Some(Value::Dense(_)));
    ensure!(
        there && cx.op.inputs[input].name == "MasterParam",
        InvalidArgument,
        "operator {}: with multi_precision there must be MasterParam and MasterParamOut",
        cx.op.name
    );
    Ok(Some(output))
}

// sgd

fn sgd(cx: &mut Run) -> Result<()> {
    let rate = scalar(cx, 1)?;
    if let Some(Value::Rows(_)) = cx.outs.slot(0).first().map(|o| &o.value) {
        return sgd_table(cx, rate);
    }
    let dtype = cx.out(0)?.dtype();
    if let Value::Rows(r) = cx.value(2)? {
        return sgd_by_rows(cx, rate, r);
    }
    by_types!(cx, dtype, false, |T, M, G| {
        let at = Places { param_and_states: [0], grad: 2, lazy: true };
        update::<T, M, G, _, 1>(cx, &at, Sgd { rate: rate as T })
    })
}

/// Rows need not be merged: each takes its step.
fn sgd_by_rows(cx: &mut Run, rate: f64, r: &SelectedRows) -> Result<()> {
    if r.rows.is_empty() {
        return Ok(());
    }
    check_rows(cx.op.name, r)?;
    let param = cx.out(0)?;
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
        kernel::sgd_rows::<T, M>(rate as T, &r.rows, r.value.data::<M>(), cx.out_data::<M>(0)?);
        Ok(())
    })
}

/// A parameter that is itself SelectedRows (a table that grows): the gradient's rows must be among its rows.
fn sgd_table(cx: &mut Run, rate: f64) -> Result<()> {
    let Value::Rows(grad) = cx.value(2)? else {
        bail!(InvalidArgument, "operator sgd: with a Param of SelectedRows the Grad must be SelectedRows too")
    };
    let Some(Value::Rows(param)) = cx.outs.slot_mut(0).first_mut().map(|o| &mut o.value) else {
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
    inputs: &[slot("Param"), slot("LearningRate"), slot("Grad")],
    outputs: &[slot("ParamOut").aliases("Param")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        like_param(cx, &cx.dims(0)?, 2)?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(sgd),
    ..OP
};

// momentum

fn momentum(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<MomentumAttrs>();
    let rate = scalar(cx, 3)?;
    let dtype = cx.out(0)?.dtype();
    let master = master(cx, a.multi_precision, 4, 2)?;
    let narrow = matches!(dtype, DType::F16 | DType::BF16);
    let decay = if a.regularization_method == "l2_decay" { a.regularization_coeff } else { 0.0 };
    by_types!(cx, dtype, master.is_some(), |T, M, G| {
        let param = if narrow { master.unwrap_or(0) } else { 0 };
        let at = Places { param_and_states: [param, 1], grad: 1, lazy: false };
        let rule = Momentum {
            rate: rate as T,
            mu: a.mu as T,
            scale: a.rescale_grad as T,
            decay: decay as T,
            nesterov: a.use_nesterov,
        };
        update::<T, M, G, _, 2>(cx, &at, rule)?;
    });
    match master {
        Some(m) => copy_master(cx, m),
        None => Ok(()),
    }
}

pub static MOMENTUM: Op = Op {
    name: "momentum",
    inputs: &[slot("Param"), slot("Grad"), slot("Velocity"), slot("LearningRate"), slot("MasterParam").opt()],
    outputs: &[
        slot("ParamOut").aliases("Param"),
        slot("VelocityOut").aliases("Velocity"),
        slot("MasterParamOut").opt().aliases("MasterParam"),
    ],
    attrs: MomentumAttrs::FIELDS,
    infer: |cx| {
        let param = cx.dims(0)?;
        like_param(cx, &param, 1)?;
        like_param(cx, &param, 2)?;
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(momentum),
    ..OP
};

// adam

fn adam(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<AdamAttrs>();
    let sparse = match cx.value(1)? {
        Value::Rows(r) if r.rows.is_empty() => return Ok(()),
        other => matches!(other, Value::Rows(_)),
    };
    let beta = |cx: &Run, slot: usize, given: f32| if cx.has(slot) { scalar(cx, slot) } else { Ok(given as f64) };
    let betas = (beta(cx, 7, a.beta1)?, beta(cx, 8, a.beta2)?);
    let rate = scalar(cx, 2)?;
    let op = cx.op;
    let mut powers = (scalar_of(op, 5, cx.out(3)?)?, scalar_of(op, 6, cx.out(4)?)?);
    if sparse {
        // Paddle's CPU kernel writes the next powers first, and then reads them where they are the same variables.
        let next = |cx: &mut Run, slot: usize, power: f64, beta: f64| -> Result<f64> {
            let in_place = cx.outs.slot(slot).first().is_some_and(|o| o.in_place);
            let wide = cx.out(slot)?.dtype() == DType::F64;
            let product = if wide { power * beta } else { (power as f32 * beta as f32) as f64 };
            Ok(if in_place { product } else { power })
        };
        powers = (next(cx, 3, powers.0, betas.0)?, next(cx, 4, powers.1, betas.1)?);
    }
    let dtype = cx.out(0)?.dtype();
    let master = master(cx, a.multi_precision, 9, 5)?;
    let narrow = matches!(dtype, DType::F16 | DType::BF16);
    by_types!(cx, dtype, master.is_some(), |T, M, G| {
        let param = if narrow { master.unwrap_or(0) } else { 0 };
        let at = Places { param_and_states: [param, 1, 2], grad: 1, lazy: a.lazy_mode };
        let rule = Adam::<T>::new(rate, betas, a.epsilon as f64, powers);
        update::<T, M, G, _, 3>(cx, &at, rule)?;
    });
    for (slot, beta) in [(3, betas.0), (4, betas.1)] {
        let t = cx.out(slot)?;
        dispatch!(t.dtype(), T in [f32, f64], {
            t.data_mut::<T>()?[0] *= beta as T;
        }, _other => dispatch!(t.dtype(), T in [f16, bf16], {
            let p = &mut t.data_mut::<T>()?[0];
            *p = T::from_f64(p.to_f64() * beta);
        }, _never => unreachable!("the power was read")));
    }
    match master {
        Some(m) => copy_master(cx, m),
        None => Ok(()),
    }
}

pub static ADAM: Op = Op {
    name: "adam",
    inputs: &[
        slot("Param"),
        slot("Grad"),
        slot("LearningRate"),
        slot("Moment1"),
        slot("Moment2"),
        slot("Beta1Pow"),
        slot("Beta2Pow"),
        slot("Beta1Tensor").opt(),
        slot("Beta2Tensor").opt(),
        slot("MasterParam").opt(),
    ],
    outputs: &[
        slot("ParamOut").aliases("Param"),
        slot("Moment1Out").aliases("Moment1"),
        slot("Moment2Out").aliases("Moment2"),
        slot("Beta1PowOut").aliases("Beta1Pow"),
        slot("Beta2PowOut").aliases("Beta2Pow"),
        slot("MasterParamOut").opt().aliases("MasterParam"),
    ],
    attrs: AdamAttrs::FIELDS,
    infer: |cx| {
        let param = cx.dims(0)?;
        for slot in [1, 3, 4] {
            like_param(cx, &param, slot)?;
        }
        infer_aliases(cx)
    },
    cpu: Kernel::Pure(adam),
    ..OP
};

pub static TABLE: &[&Op] = &[&SGD, &MOMENTUM, &ADAM];
