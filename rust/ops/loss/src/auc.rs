//! auc: area under the ROC curve of binary classification, from counts per threshold.

use super::elements::agree;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::loss::auc::{area, buckets, Histogram};

attrs! {
    pub struct AucAttrs { curve: Text = "ROC".into(), num_thresholds: i32 = 8191, slide_steps: i32 = 1 }
}

slots! {
    mod auc {
        PREDICT "Predict", LABEL "Label", POS "StatPos", NEG "StatNeg"
        => AUC "AUC", POS_OUT "StatPosOut".aliases("StatPos"), NEG_OUT "StatNegOut".aliases("StatNeg")
    }
}

/// Limit of buckets in a table of counts.
const MOST: i64 = 1 << 28;

/// Buckets per step, and entries of a table: one row per step, their sum, the number of steps.
fn sizes(a: &AucAttrs) -> Result<(i64, i64)> {
    let (buckets, steps) = (a.num_thresholds as i64 + 1, a.slide_steps as i64);
    ensure!(
        buckets >= 1 && steps >= 0,
        InvalidArgument,
        "operator auc: num_thresholds and slide_steps must not be negative, got {} and {}",
        a.num_thresholds,
        a.slide_steps
    );
    let all = (1 + steps) * buckets + i64::from(steps > 0);
    ensure!(all <= MOST, ResourceExhausted, "operator auc: {all} counts exceed the limit of {MOST}");
    Ok((buckets, all))
}

fn infer_auc(cx: &mut ShapeContext) -> Result<()> {
    use auc::{AUC, LABEL, NEG_OUT, POS_OUT, PREDICT};
    let (predict, label) = (cx.dims(PREDICT)?, cx.dims(LABEL)?);
    ensure!(
        predict.len() == 2 && predict[1] <= 2 && !label.is_empty() && agree(predict[0], label[0]),
        InvalidArgument,
        "operator auc: Predict must have 1 or 2 columns and as many rows as Label, got {:?} and {:?}",
        &predict[..],
        &label[..]
    );
    let a = cx.attrs::<AucAttrs>();
    let (buckets, all) = sizes(a)?;
    let dims: &[i64] = if a.slide_steps > 0 { &[all] } else { &[1, buckets] };
    cx.set(AUC, &[1], DType::F64);
    cx.set(POS_OUT, dims, DType::I64);
    cx.set(NEG_OUT, dims, DType::I64);
    Ok(())
}

/// The bucket of each probability of class 1, and whether the label is 1; negative labels are ignored.
fn counted(cx: &KernelContext) -> Result<Vec<(usize, bool)>> {
    let (predict, labels) = (cx.input(auc::PREDICT)?, cx.input(auc::LABEL)?.to_i64s()?);
    let width = predict.dims()[1] as usize;
    let thresholds = cx.attrs::<AucAttrs>().num_thresholds;
    ensure!(
        labels.len() * width == predict.numel() && width > 0,
        InvalidArgument,
        "operator auc: Label must have one class for each row of Predict {predict:?}, got {}",
        labels.len()
    );
    dispatch!(predict.dtype(), T in [f32, f64], {
        buckets(predict.data::<T>(), width, &labels, thresholds).map_err(|p| {
            err!(PreconditionNotMet, "operator auc: Predict must hold probabilities, numbers from 0 to 1, got {p}")
        })
    }, other => cx.unsupported(other))
}

fn run_auc(cx: &mut KernelContext) -> Result<()> {
    use auc::{AUC, NEG_OUT, POS_OUT};
    let a = cx.attrs::<AucAttrs>();
    let (buckets, all) = sizes(a)?;
    let (buckets, steps) = (buckets as usize, a.slide_steps as usize);
    let found = counted(cx)?;
    let [Some(pos), Some(neg)] = cx.each_out([POS_OUT, NEG_OUT]) else {
        bail!(NotFound, "operator auc: outputs 'StatPosOut' and 'StatNegOut' are required");
    };
    ensure!(
        [&*pos, &*neg].iter().all(|t| t.dtype() == DType::I64 && t.numel() as i64 >= all),
        InvalidArgument,
        "operator auc: StatPos and StatNeg must hold {all} integers of int64, got {pos:?} and {neg:?}"
    );
    let mut neg = Histogram { table: neg.data_mut::<i64>()?, buckets, steps };
    let mut pos = Histogram { table: pos.data_mut::<i64>()?, buckets, steps };
    let of_class = |class: bool| found.iter().filter(move |f| f.1 == class).map(|f| f.0);
    neg.add(of_class(false));
    pos.add(of_class(true));
    let area = area(neg.sum(), pos.sum());
    cx.out_data::<f64>(AUC)?[0] = area;
    Ok(())
}

pub static AUC: Op = Op {
    name: "auc",
    inputs: auc::INS,
    outputs: auc::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: AucAttrs::FIELDS,
    infer: infer_auc,
    cpu: Kernel::Pure(run_auc),
    ..OP
};

pub static TABLE: &[&Op] = &[&AUC];
