//! accuracy: fraction of rows whose label is among their top-k indices.

use oar_core::base::{DType, Result};
use oar_core::op::{Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{ensure, err, slots};
use oar_kernels::loss::accuracy::hits;

slots! {
    mod accuracy {
        OUT "Out", INDICES "Indices", LABEL "Label" => ACCURACY "Accuracy", CORRECT "Correct", TOTAL "Total"
    }
}

/// Outputs: one float32, two int32.
fn infer_accuracy(cx: &mut ShapeContext) -> Result<()> {
    use accuracy::{ACCURACY, CORRECT, INDICES, LABEL, OUT, TOTAL};
    let (out, indices, label) = (cx.dims(OUT)?, cx.dims(INDICES)?, cx.dims(LABEL)?);
    ensure!(
        label.len() == 2,
        InvalidArgument,
        "operator accuracy: Label must have two dimensions, got shape {label:?}"
    );
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        agree(label[1], 1),
        InvalidArgument,
        "operator accuracy: the second dimension of Label must be 1, got shape {label:?}"
    );
    let alike = out.len() == 2 && indices.len() == 2 && (0..2).all(|i| agree(out[i], indices[i]));
    ensure!(
        alike && agree(out[0], label[0]) && agree(indices[0], label[0]),
        InvalidArgument,
        "operator accuracy: Out and Indices must be matrices of as many rows as Label has, got Out {out:?}, Indices \
         {indices:?}, Label {label:?}"
    );
    cx.set(ACCURACY, &[1], DType::F32);
    cx.set(CORRECT, &[1], DType::I32);
    cx.set(TOTAL, &[1], DType::I32);
    cx.share_lod(ACCURACY, OUT);
    Ok(())
}

/// Accuracy, Correct and Total.
fn run_accuracy(cx: &mut KernelContext) -> Result<()> {
    use accuracy::{ACCURACY, CORRECT, INDICES, LABEL, TOTAL};
    let (indices, labels) = (cx.input(INDICES)?.to_i64s()?, cx.input(LABEL)?.to_i64s()?);
    let width = cx.input(INDICES)?.dims()[1] as usize;
    let correct = hits(&indices, width, &labels).map_err(|i| {
        err!(InvalidArgument, "operator accuracy: labels must not be negative, label {i} is {}", labels[i])
    })?;
    let total = labels.len() as i32;
    cx.out_data::<f32>(ACCURACY)?[0] = if total == 0 { 0.0 } else { correct as f32 / total as f32 };
    cx.out_data::<i32>(CORRECT)?[0] = correct;
    cx.out_data::<i32>(TOTAL)?[0] = total;
    Ok(())
}

pub static ACCURACY: Op = Op {
    name: "accuracy",
    inputs: accuracy::INS,
    outputs: accuracy::OUTS,
    attrs: NoAttrs::FIELDS,
    infer: infer_accuracy,
    cpu: Kernel::Pure(run_accuracy),
    ..OP
};

pub static TABLE: &[&Op] = &[&ACCURACY];
