//! detection_map: mean average precision of detections, over one batch or all batches so far.

use super::boxes::{set_rows, BoxFloat};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::detection::average_precision::{flagged, state_rows, PrecisionRule, Tally};
use oar_ops_common::{axis, levels};
use std::collections::BTreeMap;

attrs! {
    pub struct MapAttrs {
        class_num: i32, background_label: i32 = 0, overlap_threshold: f32 = 0.5, evaluate_difficult: bool = true,
        ap_type: Text = "integral".into(),
    }
}

slots! {
    /// Detections [class, score, box] and labels [class, (difficult,) box] with LoD; accumulated true and false
    /// positives [score, 1 or 0], with LoD by class.
    mod map {
        DETECTED "DetectRes", LABEL "Label", HAS_STATE "HasState".dispensable(), COUNT "PosCount".dispensable(),
        RIGHT "TruePos".dispensable(), WRONG "FalsePos".dispensable()
        => COUNT_OUT "AccumPosCount", RIGHT_OUT "AccumTruePos".kernel_allocated(), WRONG_OUT "AccumFalsePos".kernel_allocated(), MAP "MAP"
    }
}

/// Limit of classes.
const MOST: i32 = 1 << 24;

/// True for 11-point interpolation, false for the integral.
fn by_points(op: &str, a: &MapAttrs) -> Result<bool> {
    Ok(match a.ap_type.as_str() {
        "integral" => false,
        "11point" => true,
        other => bail!(InvalidArgument, "operator {op}: ap_type must be integral or 11point, got '{other}'"),
    })
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<MapAttrs>());
    by_points(op, a)?;
    ensure!(
        (0..=MOST).contains(&a.class_num),
        InvalidArgument,
        "operator {op}: class_num must be between 0 and {MOST}, got {}",
        a.class_num
    );
    cx.shaped(map::DETECTED, &[-1, 6])?;
    let label = cx.dims(map::LABEL)?;
    if label.len() != 2 || !matches!(label[1], 5 | 6) && label[1] >= 0 {
        return cx.wrong(map::LABEL, "of shape [-1, 6] or [-1, 5]");
    }
    if cx.has(map::COUNT) {
        for slot in [map::RIGHT, map::WRONG] {
            let name = cx.op.inputs[slot.0].name;
            ensure!(cx.has(slot), InvalidArgument, "operator {op}: input '{name}' must be given, as PosCount is");
        }
    }
    let dtype = cx.dtype(map::DETECTED)?;
    cx.set(map::COUNT_OUT, &[a.class_num.into(), 1], DType::I32);
    for slot in [map::RIGHT_OUT, map::WRONG_OUT] {
        set_rows(cx, slot, 2, dtype, 1);
    }
    cx.set(map::MAP, &[1], dtype);
    Ok(())
}

/// The rows of a state by class.
fn state<T: BoxFloat>(cx: &KernelContext, slot: InSlot) -> Result<BTreeMap<i32, Vec<(T, bool)>>> {
    let (t, name) = (cx.input(slot)?, cx.op.inputs[slot.0].name);
    axis::like(cx, t, &[t.dims().first().copied().unwrap_or(0), 2], T::DTYPE, name)?;
    let level = levels::first(cx.op.name, name, t)?;
    let mut found = BTreeMap::new();
    for (class, ends) in level.windows(2).enumerate().filter(|(_, ends)| ends[1] > ends[0]) {
        found.insert(class as i32, flagged(&t.data::<T>()[ends[0] * 2..ends[1] * 2]));
    }
    Ok(found)
}

fn set_state<T: BoxFloat>(
    cx: &mut KernelContext,
    slot: OutSlot,
    found: &BTreeMap<i32, Vec<(T, bool)>>,
    classes: i32,
) -> Result<()> {
    let (rows, level) = state_rows(found, classes);
    let t = Tensor::from_slice(&rows, &[rows.len() as i64 / 2, 2])?;
    cx.set(slot, t.with_lod(levels::one(level)));
    Ok(())
}

fn run<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (detected, label, op) = (cx.input(map::DETECTED)?, cx.input(map::LABEL)?, cx.op.name);
    let a = cx.attrs::<MapAttrs>();
    axis::like(cx, label, label.dims(), T::DTYPE, "Label")?;
    let (of_labels, of_detected) = (levels::only(op, "Label", label)?, levels::first(op, "DetectRes", detected)?);
    ensure!(
        of_labels.len() == of_detected.len(),
        InvalidArgument,
        "operator {op}: Label and DetectRes must be of as many images, got {} and {}",
        of_labels.len() - 1,
        of_detected.len() - 1
    );
    let mut tally = Tally::<T>::default();
    let has_state = match cx.opt(map::HAS_STATE) {
        Some(t) => {
            let flags = t.to_i64s()?;
            ensure!(!flags.is_empty(), InvalidArgument, "operator {op}: HasState must hold an integer, got none");
            flags[0] != 0
        }
        None => false,
    };
    if let Some(count) = cx.opt(map::COUNT).filter(|_| has_state) {
        ensure!(
            count.dtype() == DType::I32 && count.numel() as i64 >= i64::from(a.class_num),
            InvalidArgument,
            "operator {op}: PosCount must have an int32 for each of {} classes, got {count:?}",
            a.class_num
        );
        tally.labels = (0..a.class_num).zip(count.data::<i32>().iter().copied()).collect();
        (tally.found, tally.wrong) = (state(cx, map::RIGHT)?, state(cx, map::WRONG)?);
        let same = |(class, all): (&i32, &Vec<_>)| tally.wrong.get(class).is_some_and(|w| w.len() == all.len());
        ensure!(
            tally.found.len() == tally.wrong.len() && tally.found.iter().all(same),
            InvalidArgument,
            "operator {op}: TruePos and FalsePos must have as many rows of each class"
        );
    }
    let (width, labels, rows) = (label.dims()[1] as usize, label.data::<T>(), detected.data::<T>());
    let rule = PrecisionRule {
        threshold: a.overlap_threshold,
        difficult: a.evaluate_difficult,
        background: a.background_label,
        by_points: by_points(op, a)?,
    };
    for (l, d) in of_labels.windows(2).zip(of_detected.windows(2)) {
        tally.add_image(&labels[l[0] * width..l[1] * width], width, &rows[d[0] * 6..d[1] * 6], &rule);
    }
    cx.out_data::<T>(map::MAP)?[0] = tally.precision(&rule);
    let counts = cx.out_data::<i32>(map::COUNT_OUT)?;
    (0..).zip(counts).for_each(|(class, to)| *to = tally.labels.get(&class).copied().unwrap_or(0));
    set_state(cx, map::RIGHT_OUT, &tally.found, a.class_num)?;
    set_state(cx, map::WRONG_OUT, &tally.wrong, a.class_num)
}

pub static DETECTION_MAP: Op = Op {
    name: "detection_map",
    inputs: map::INS,
    outputs: map::OUTS,
    attrs: MapAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(map::DETECTED)?.dtype();
        dispatch!(dtype, T in [f32, f64], run::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&DETECTION_MAP];
