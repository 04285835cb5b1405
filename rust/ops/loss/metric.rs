//! Metrics: accuracy.

use oar_core::base::{DType, Result};
use oar_core::ensure;
use oar_core::op::{slot, Infer, Kernel, NoAttrs, Op, Run, OP};

fn infer_accuracy(cx: &mut Infer) -> Result<()> {
    let (out, label) = (cx.dims(0)?, cx.dims(2)?);
    ensure!(
        label.len() == 2,
        InvalidArgument,
        "operator accuracy: Label must have two dimensions, got shape {label:?}"
    );
    if cx.is_run() {
        ensure!(
            label[1] == 1,
            InvalidArgument,
            "operator accuracy: the second dimension of Label must be 1, got shape {label:?}"
        );
        ensure!(
            out.len() == 2 && out[0] == label[0] && cx.dims(1)? == out,
            InvalidArgument,
            "operator accuracy: Out and Indices must be matrices of as many rows as Label has, got Out {out:?}, Indices \
             {:?}, Label {label:?}",
            cx.dims(1)?
        );
    }
    cx.set(0, &[1], DType::F32);
    cx.set(1, &[1], DType::I32);
    cx.set(2, &[1], DType::I32);
    cx.share_lod(0, 0);
    Ok(())
}

/// The fraction of rows whose label is among the indices of the row.
fn accuracy(cx: &mut Run) -> Result<()> {
    let (indices, labels) = (cx.input(1)?.to_i64s()?, cx.input(2)?.to_i64s()?);
    let width = cx.input(1)?.dims()[1] as usize;
    let mut correct = 0;
    for (i, &label) in labels.iter().enumerate() {
        ensure!(label >= 0, InvalidArgument, "operator accuracy: labels must not be negative, label {i} is {label}");
        correct += indices[i * width..(i + 1) * width].contains(&label) as i32;
    }
    let total = labels.len() as i32;
    cx.out_data::<f32>(0)?[0] = if total == 0 { 0.0 } else { correct as f32 / total as f32 };
    cx.out_data::<i32>(1)?[0] = correct;
    cx.out_data::<i32>(2)?[0] = total;
    Ok(())
}

pub static ACCURACY: Op = Op {
    name: "accuracy",
    inputs: &[slot("Out"), slot("Indices"), slot("Label")],
    outputs: &[slot("Accuracy"), slot("Correct"), slot("Total")],
    attrs: NoAttrs::FIELDS,
    infer: infer_accuracy,
    cpu: Kernel::Pure(accuracy),
    ..OP
};

pub static TABLE: &[&Op] = &[&ACCURACY];
