//! nce: noise-contrastive estimation, a loss of the label's class against sampled classes.

use super::elements::{agree, of_size};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, VarKind};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Meta, Op, ShapeContext, OP};
use oar_core::tensor::generator::with_engine;
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::loss::nce::{draw_rows, Nce, NceGrads, Noise};
use std::sync::Arc;

attrs! {
    pub struct NceAttrs {
        num_total_classes: i32, num_neg_samples: i32 = 10, sampler: i32 = 0, seed: i32 = 0, is_sparse: bool = false,
        remote_prefetch: bool = false, trainer_id: i32 = 0, height_sections: Vec<i64> = vec![],
        epmap: Vec<String> = vec![], table_names: Vec<String> = vec![], custom_neg_classes: Vec<i32> = vec![],
    }
}

slots! {
    mod nce {
        INPUT "Input", LABEL "Label", WEIGHT "Weight", BIAS "Bias".dispensable(), SAMPLE_WEIGHT "SampleWeight".dispensable(),
        PROBS "CustomDistProbs".dispensable(), ALIAS "CustomDistAlias".dispensable(), ALIAS_PROBS "CustomDistAliasProbs".dispensable()
        => COST "Cost", LOGITS "SampleLogits".intermediate(), LABELS "SampleLabels".intermediate()
    }
    mod nce_grad {
        INPUT "Input", LABEL "Label", BIAS "Bias".dispensable(), WEIGHT "Weight", LOGITS "SampleLogits", LABELS "SampleLabels",
        SAMPLE_WEIGHT "SampleWeight".dispensable(), PROBS "CustomDistProbs".dispensable(), ALIAS "CustomDistAlias".dispensable(),
        ALIAS_PROBS "CustomDistAliasProbs".dispensable(), DCOST "Cost@GRAD"
        => DINPUT "Input@GRAD", DBIAS "Bias@GRAD", DWEIGHT "Weight@GRAD".kernel_allocated()
    }
}

/// Limit of sampled classes per row.
const MOST: i32 = 1 << 20;

fn infer_nce(cx: &mut ShapeContext) -> Result<()> {
    use nce::{ALIAS, ALIAS_PROBS, BIAS, COST, INPUT, LABEL, LABELS, LOGITS, PROBS, SAMPLE_WEIGHT, WEIGHT};
    let (x, label, w, dtype) = (cx.dims(INPUT)?, cx.dims(LABEL)?, cx.dims(WEIGHT)?, cx.dtype(INPUT)?);
    let a = cx.attrs::<NceAttrs>();
    let total = a.num_total_classes as i64;
    ensure!(
        x.len() == 2 && w.len() == 2 && agree(x[1], w[1]) && agree(w[0], total) && total > 0,
        InvalidArgument,
        "operator nce: Weight must have a row as wide as Input's {:?} for each of the {total} classes, got {:?}",
        &x[..],
        &w[..]
    );
    ensure!(
        matches!(label.len(), 1 | 2) && agree(label[0], x[0]),
        InvalidArgument,
        "operator nce: Label must have a row for each row of Input {:?}, got {:?}",
        &x[..],
        &label[..]
    );
    ensure!(
        (0..=MOST).contains(&a.num_neg_samples)
            && (a.custom_neg_classes.is_empty() || a.custom_neg_classes.len() == a.num_neg_samples as usize),
        InvalidArgument,
        "operator nce: num_neg_samples must be from 0 to {MOST}, and the number of custom_neg_classes where those are \
         given, got {} and {}",
        a.num_neg_samples,
        a.custom_neg_classes.len()
    );
    if a.remote_prefetch {
        bail!(Unimplemented, "operator nce: remote_prefetch needs a parameter server");
    }
    let given = [(BIAS, w[0], false), (SAMPLE_WEIGHT, x[0], false)];
    let custom = [PROBS, ALIAS, ALIAS_PROBS].map(|slot| (slot, total, a.sampler == 2));
    for (slot, n, needed) in given.into_iter().chain(custom) {
        if !cx.has(slot) {
            let name = cx.op.inputs[slot.0].name;
            ensure!(!needed, NotFound, "operator nce: sampler 2 needs input '{name}', got none");
            continue;
        }
        let dims = cx.dims(slot)?;
        let known = dims.iter().all(|&d| d >= 0) && n >= 0;
        // As in Paddle there may be more sample weights than rows; the first ones are used.
        let (found, more) = (dims.iter().product::<i64>(), slot == SAMPLE_WEIGHT);
        ensure!(
            !known || found == n || (more && found > n),
            InvalidArgument,
            "operator nce: {} must have {n} elements, got shape {:?}",
            cx.op.inputs[slot.0].name,
            &dims[..]
        );
    }
    ensure!(
        (0..=2).contains(&a.sampler),
        InvalidArgument,
        "operator nce: sampler must be 0 (uniform), 1 (log-uniform) or 2 (custom), got {}",
        a.sampler
    );
    let own = if label.len() == 2 { label[1] } else { 1 };
    let columns = if own < 0 { -1 } else { own + a.num_neg_samples as i64 };
    cx.set(COST, &[x[0], 1], dtype);
    cx.set(LOGITS, &[x[0], columns], dtype);
    cx.set(LABELS, &[x[0], columns], DType::I64);
    Ok(())
}

fn noise<'a>(cx: &KernelContext<'a>, [probs, alias, alias_probs]: [InSlot; 3]) -> Result<Noise<'a>> {
    let a = cx.attrs::<NceAttrs>();
    Ok(match a.sampler {
        0 => Noise::Uniform,
        1 => Noise::LogUniform,
        _ => {
            let n = a.num_total_classes as usize;
            let floats = |slot| -> Result<&'a [f32]> { Ok(of_size(cx, slot, n, DType::F32)?.data::<f32>()) };
            let alias = cx.input(alias)?.to_i64s()?;
            let fits = alias.len() == n && alias.iter().all(|a| (-1..n as i64).contains(a));
            ensure!(
                fits,
                InvalidArgument,
                "operator {}: CustomDistAlias must hold {n} classes, or -1 for none",
                cx.op.name
            );
            Noise::Custom { probs: floats(probs)?, alias, alias_probs: floats(alias_probs)? }
        }
    })
}

/// The classes of each row: its labels, then the sampled ones; and the number of columns.
fn draw_labels(cx: &KernelContext, noise: &Noise) -> Result<(Vec<i64>, usize)> {
    let (label, a) = (cx.input(nce::LABEL)?, cx.attrs::<NceAttrs>());
    let (rows, classes) = (label.dims()[0] as usize, a.num_total_classes as i64);
    let own = label.numel().checked_div(rows).unwrap_or(0);
    let columns = own + a.num_neg_samples as usize;
    let given = label.to_i64s()?;
    let sampled = (a.num_neg_samples as usize, &a.custom_neg_classes[..]);
    let found =
        with_engine(a.seed as u32 as u64, |engine| draw_rows(noise, engine, (&given, own), rows, sampled, classes));
    check_labels(cx.op.name, &found, classes)?;
    Ok((found, columns))
}

fn check_labels(op: &str, labels: &[i64], classes: i64) -> Result<()> {
    if let Some(label) = labels.iter().find(|l| !(0..classes).contains(l)) {
        bail!(InvalidArgument, "operator {op}: labels must be classes from 0 to below {classes}, got {label}");
    }
    Ok(())
}

/// An optional input of `n` elements.
fn optional<'a>(cx: &KernelContext<'a>, slot: InSlot, n: usize, dtype: DType) -> Result<Option<&'a Tensor>> {
    cx.opt(slot).map(|_| of_size(cx, slot, n, dtype)).transpose()
}

/// The sample weights, at least one per row.
fn weights<'a>(cx: &KernelContext<'a>, slot: InSlot, rows: usize, dtype: DType) -> Result<Option<&'a Tensor>> {
    let count = cx.opt(slot).map_or(rows, |t| t.numel().max(rows));
    optional(cx, slot, count, dtype)
}

fn run_nce(cx: &mut KernelContext) -> Result<()> {
    use nce::{ALIAS, ALIAS_PROBS, BIAS, COST, INPUT, LABELS, LOGITS, PROBS, SAMPLE_WEIGHT, WEIGHT};
    let (x, w, a) = (cx.input(INPUT)?, cx.input(WEIGHT)?, cx.attrs::<NceAttrs>());
    let (rows, width, classes) = (x.dims()[0] as usize, x.dims()[1] as usize, a.num_total_classes as i64);
    let noise = noise(cx, [PROBS, ALIAS, ALIAS_PROBS])?;
    let (labels, columns) = draw_labels(cx, &noise)?;
    let w = of_size(cx, WEIGHT, classes as usize * width, w.dtype())?;
    let bias = optional(cx, BIAS, classes as usize, x.dtype())?;
    let weight = weights(cx, SAMPLE_WEIGHT, rows, x.dtype())?;
    ensure!(
        w.dtype() == x.dtype(),
        InvalidArgument,
        "operator nce: Input and Weight must have the same data type, got {} and {}",
        x.dtype(),
        w.dtype()
    );
    let mut logits = cx.take_out(LOGITS)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let nce = Nce {
            x: x.data::<T>(),
            weight: w.data::<T>(),
            bias: bias.map(|b| b.data::<T>()),
            labels: &labels,
            row_weights: weight.map(|w| w.data::<T>()),
            width,
            columns,
            drawn: a.num_neg_samples as usize,
            noise: &noise,
            classes,
        };
        nce.forward(logits.data_mut::<T>()?, cx.out_data::<T>(COST)?);
    }, other => return cx.unsupported(other));
    cx.set(LOGITS, logits);
    cx.out_data::<i64>(LABELS)?.copy_from_slice(&labels);
    Ok(())
}

fn run_nce_grad(cx: &mut KernelContext) -> Result<()> {
    use nce_grad::{
        ALIAS, ALIAS_PROBS, DBIAS, DCOST, DINPUT, DWEIGHT, INPUT, LABELS, LOGITS, PROBS, SAMPLE_WEIGHT, WEIGHT,
    };
    let (x, w, a) = (cx.input(INPUT)?, cx.input(WEIGHT)?, cx.attrs::<NceAttrs>());
    ensure!(x.rank() == 2, InvalidArgument, "operator nce_grad: Input must have two dimensions, got {x:?}");
    let (rows, width, classes) = (x.dims()[0] as usize, x.dims()[1] as usize, a.num_total_classes as i64);
    let noise = noise(cx, [PROBS, ALIAS, ALIAS_PROBS])?;
    let labels = cx.input(LABELS)?.to_i64s()?;
    check_labels(cx.op.name, &labels, classes)?;
    let columns = labels.len().checked_div(rows).unwrap_or(0);
    let drawn = a.num_neg_samples.max(0) as usize;
    let w = of_size(cx, WEIGHT, classes.max(0) as usize * width, w.dtype())?;
    let (logits, dcost) = (of_size(cx, LOGITS, rows * columns, x.dtype())?, of_size(cx, DCOST, rows, x.dtype())?);
    let weight = weights(cx, SAMPLE_WEIGHT, rows, x.dtype())?;
    ensure!(
        w.dtype() == x.dtype() && drawn <= columns,
        InvalidArgument,
        "operator nce_grad: Input and Weight must have the same data type, and SampleLabels {drawn} columns or more, got \
         {x:?}, {w:?} and {columns}"
    );
    let mut used = labels.clone();
    used.sort_unstable();
    used.dedup();
    let kept = if a.is_sparse { used.len() } else { classes as usize };
    let place = |class: i64| if a.is_sparse { used.partition_point(|&u| u < class) } else { class as usize };
    let mut dw = Tensor::empty(x.dtype(), &[kept as i64, width as i64])?;
    let (wants_x, wants_bias) = (cx.wants(DINPUT), cx.wants(DBIAS));
    let mut dx = if wants_x { Some(cx.take_out(DINPUT)?) } else { None };
    let mut dbias = if wants_bias { Some(cx.take_out(DBIAS)?) } else { None };
    ensure!(
        dbias.as_ref().is_none_or(|t| t.numel() as i64 >= classes && t.dtype() == x.dtype()),
        InvalidArgument,
        "operator nce_grad: Bias must have {classes} elements of Input's data type, got {:?}",
        dbias.as_ref().map(Tensor::dims)
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let nce = Nce {
            x: x.data::<T>(),
            weight: w.data::<T>(),
            bias: None,
            labels: &labels,
            row_weights: weight.map(|w| w.data::<T>()),
            width,
            columns,
            drawn,
            noise: &noise,
            classes,
        };
        let mut grads = NceGrads {
            weight: dw.data_mut::<T>()?,
            bias: dbias.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
            x: dx.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
        };
        grads.weight.fill(0.0);
        grads.bias.iter_mut().chain(&mut grads.x).for_each(|d| d.fill(0.0));
        nce.backward(logits.data::<T>(), dcost.data::<T>(), place, grads);
    }, other => return cx.unsupported(other));
    if let Some(dx) = dx {
        cx.set(DINPUT, dx);
    }
    if let Some(dbias) = dbias {
        cx.set(DBIAS, dbias);
    }
    if a.is_sparse {
        cx.set(DWEIGHT, SelectedRows { rows: Arc::new(used), height: classes, value: dw });
    } else {
        cx.set(DWEIGHT, dw);
    }
    Ok(())
}

pub static NCE: Op = Op {
    name: "nce",
    inputs: nce::INS,
    outputs: nce::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: NceAttrs::FIELDS,
    infer: infer_nce,
    cpu: Kernel::Random(run_nce),
    grad: Grad::By(&NCE_GRAD),
    ..OP
};

pub static NCE_GRAD: Op = Op {
    name: "nce_grad",
    inputs: nce_grad::INS,
    outputs: nce_grad::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: NceAttrs::FIELDS,
    infer: |cx| {
        grads_like_inputs(cx)?;
        if cx.attrs::<NceAttrs>().is_sparse {
            let w = cx.meta(nce_grad::WEIGHT, 0)?;
            cx.set_meta(nce_grad::DWEIGHT, 0, Meta { kind: VarKind::Rows, ..w });
        }
        Ok(())
    },
    cpu: Kernel::Pure(run_nce_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&NCE, &NCE_GRAD];
