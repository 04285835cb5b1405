//! mean_iou: mean intersection over union of classes.

use super::label::{bad_class, classes};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OP};
use oar_core::{attrs, ensure, slots};
use oar_kernels::loss::mean_iou as kernel;

attrs! {
    pub struct IouAttrs { num_classes: i32 }
}

slots! {
    mod iou {
        PREDICTIONS "Predictions", LABELS "Labels", IN_WRONGS "InWrongs".duplicable().dispensable(),
        IN_CORRECTS "InCorrects".duplicable().dispensable(), IN_MEAN "InMeanIou".duplicable().dispensable()
        => MEAN "OutMeanIou", WRONG "OutWrong", CORRECT "OutCorrect"
    }
}

fn run_iou(cx: &mut KernelContext) -> Result<()> {
    use iou::{CORRECT, IN_CORRECTS, IN_MEAN, IN_WRONGS, LABELS, MEAN, PREDICTIONS, WRONG};
    let (predicted, labels) = (cx.input(PREDICTIONS)?.to_i64s()?, cx.input(LABELS)?.to_i64s()?);
    let (op, n) = (cx.op.name, classes(cx.op.name, cx.attrs::<IouAttrs>().num_classes)?);
    ensure!(
        predicted.len() == labels.len(),
        InvalidArgument,
        "operator {op}: Predictions and Labels must have as many elements, got {} and {}",
        predicted.len(),
        labels.len()
    );
    let former = |cx: &KernelContext, slot: InSlot| -> Result<Vec<i32>> {
        let mut sum = vec![0i32; n as usize];
        for t in cx.inputs(slot)? {
            ensure!(
                t.dtype() == DType::I32 && t.numel() == n as usize,
                InvalidArgument,
                "operator {op}: {} must have {n} elements of data type int32, got {t:?}",
                cx.op.inputs[slot.0].name
            );
            sum.iter_mut().zip(t.data::<i32>()).for_each(|(s, v)| *s = s.wrapping_add(*v));
        }
        Ok(sum)
    };
    let (mut wrong, mut correct) = (former(cx, IN_WRONGS)?, former(cx, IN_CORRECTS)?);
    kernel::count(&predicted, &labels, &mut wrong, &mut correct).map_err(|e| bad_class(op, "Predictions", e, n))?;
    let mut mean = 0f32;
    for t in cx.inputs(IN_MEAN)? {
        ensure!(
            t.dtype() == DType::F32 && t.numel() == 1,
            InvalidArgument,
            "operator {op}: InMeanIou must have one element of data type float32, got {t:?}"
        );
        mean += t.data::<f32>()[0];
    }
    mean += kernel::mean(&wrong, &correct);
    cx.out_data::<f32>(MEAN)?[0] = mean;
    cx.out_data::<i32>(WRONG)?.copy_from_slice(&wrong);
    cx.out_data::<i32>(CORRECT)?.copy_from_slice(&correct);
    Ok(())
}

pub static IOU: Op = Op {
    name: "mean_iou",
    inputs: iou::INS,
    outputs: iou::OUTS,
    dtypes: DTypes::INDICES,
    attrs: IouAttrs::FIELDS,
    infer: |cx| {
        let n = classes(cx.op.name, cx.attrs::<IouAttrs>().num_classes)?;
        cx.dims(iou::PREDICTIONS)?;
        cx.dims(iou::LABELS)?;
        cx.set(iou::MEAN, &[1], DType::F32);
        cx.set(iou::WRONG, &[n], DType::I32);
        cx.set(iou::CORRECT, &[n], DType::I32);
        Ok(())
    },
    cpu: Kernel::Pure(run_iou),
    ..OP
};

pub static TABLE: &[&Op] = &[&IOU];
