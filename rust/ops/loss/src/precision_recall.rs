//! precision_recall: precision, recall and F1 from counts per class.

use super::elements::agree;
use super::label::{bad_class, classes};
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::loss::precision_recall as kernel;

attrs! {
    pub struct PrecisionAttrs { class_number: i32 }
}

slots! {
    mod precision {
        PROBS "MaxProbs", INDICES "Indices", LABELS "Labels", WEIGHTS "Weights".dispensable(), STATES "StatesInfo".dispensable()
        => BATCH "BatchMetrics", METRICS "AccumMetrics", STATES_OUT "AccumStatesInfo"
    }
}

fn infer_precision(cx: &mut ShapeContext) -> Result<()> {
    use precision::{BATCH, INDICES, LABELS, METRICS, PROBS, STATES, STATES_OUT, WEIGHTS};
    let n = classes(cx.op.name, cx.attrs::<PrecisionAttrs>().class_number)?;
    let probs = cx.dims(PROBS)?;
    let rows = *probs.first().unwrap_or(&-1);
    let mut given: Vec<(InSlot, [i64; 2])> = vec![(PROBS, [rows, 1]), (INDICES, [rows, 1]), (LABELS, [rows, 1])];
    if cx.has(WEIGHTS) {
        given.push((WEIGHTS, [rows, 1]));
    }
    if cx.has(STATES) {
        given.push((STATES, [n, 4]));
    }
    for (slot, want) in given {
        let dims = cx.dims(slot)?;
        ensure!(
            dims.len() == 2 && agree(dims[0], want[0]) && agree(dims[1], want[1]),
            InvalidArgument,
            "operator precision_recall: {} must have the shape {want:?}, got {:?}",
            cx.op.inputs[slot.0].name,
            &dims[..]
        );
    }
    let dtype = cx.dtype(PROBS)?;
    cx.set(BATCH, &[6], DType::F64);
    cx.set(METRICS, &[6], DType::F64);
    cx.set(STATES_OUT, &[n, 4], dtype);
    Ok(())
}

fn run_precision(cx: &mut KernelContext) -> Result<()> {
    use precision::{BATCH, INDICES, LABELS, METRICS, PROBS, STATES, STATES_OUT, WEIGHTS};
    let (op, n) = (cx.op.name, classes(cx.op.name, cx.attrs::<PrecisionAttrs>().class_number)?);
    let dtype = cx.input(PROBS)?.dtype();
    let (indices, labels) = (cx.input(INDICES)?.to_i64s()?, cx.input(LABELS)?.to_i64s()?);
    let floats = |slot: InSlot, n: usize| -> Result<Option<Vec<f64>>> {
        let Some(t) = cx.opt(slot) else { return Ok(None) };
        ensure!(
            t.dtype() == dtype && t.numel() == n,
            InvalidArgument,
            "operator {op}: {} must have {n} elements of the data type of MaxProbs, got {t:?}",
            cx.op.inputs[slot.0].name
        );
        let values = dispatch!(dtype, T in [f32, f64], t.data::<T>().iter().map(|&v| f64::from(v)).collect(), other => {
            bail!(Unimplemented, "operator {op} has no CPU kernel for data type {other}")
        });
        Ok(Some(values))
    };
    let (weights, former) = (floats(WEIGHTS, indices.len())?, floats(STATES, 4 * n as usize)?);
    let counted = kernel::count(&indices, &labels, weights.as_deref(), n);
    let mut states = counted.map_err(|e| bad_class(op, "Indices", e, n))?;
    let put = |cx: &mut KernelContext, slot: OutSlot, values: [f64; 6]| -> Result<()> {
        cx.out_data::<f64>(slot)?.copy_from_slice(&values);
        Ok(())
    };
    put(cx, BATCH, kernel::metrics(&states))?;
    if let Some(former) = former {
        states.iter_mut().zip(former).for_each(|(s, f)| *s += f);
    }
    put(cx, METRICS, kernel::metrics(&states))?;
    dispatch!(dtype, T in [f32, f64], {
        cx.out_data::<T>(STATES_OUT)?.iter_mut().zip(&states).for_each(|(o, &s)| *o = s as T);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static PRECISION: Op = Op {
    name: "precision_recall",
    inputs: precision::INS,
    outputs: precision::OUTS,
    dtypes: DTypes::FLOATS,
    attrs: PrecisionAttrs::FIELDS,
    infer: infer_precision,
    cpu: Kernel::Pure(run_precision),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRECISION];
