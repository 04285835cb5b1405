//! detection_map: mean average precision of detections, over one batch or all batches so far.

use super::boxes::{clipped, descending, least, most, set_rows, BoxFloat};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{InSlot, Kernel, KernelContext, Op, OutSlot, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
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

/// A label's box and whether it is difficult.
type Label<T> = ([T; 4], bool);

/// Intersection over union, where a box with max less than min has an area, too.
fn overlap<T: BoxFloat>(a: &[T; 4], b: &[T; 4]) -> T {
    if b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1] {
        return T::ZERO;
    }
    let side = |k: usize| least(a[k + 2], b[k + 2]) - most(a[k], b[k]);
    let area = |c: &[T; 4]| (c[2] - c[0]) * (c[3] - c[1]);
    let shared = side(0) * side(1);
    shared / (area(a) + area(b) - shared)
}

/// Per class: the number of labels, and (score, is true positive) of each detection.
struct Tally<T> {
    labels: BTreeMap<i32, i32>,
    found: BTreeMap<i32, Vec<(T, bool)>>,
    /// Paddle's second list, with negated flags: the caller's states may differ.
    wrong: BTreeMap<i32, Vec<(T, bool)>>,
}

impl<T: BoxFloat> Tally<T> {
    fn add(&mut self, class: i32, score: T, right: bool) {
        self.found.entry(class).or_default().push((score, right));
        self.wrong.entry(class).or_default().push((score, !right));
    }

    /// Adds the labels and detections of one image.
    fn image(
        &mut self,
        labels: &BTreeMap<i32, Vec<Label<T>>>,
        mut detected: BTreeMap<i32, Vec<(T, [T; 4])>>,
        a: &MapAttrs,
    ) {
        for (&class, all) in labels {
            let count = all.iter().filter(|l| a.evaluate_difficult || !l.1).count() as i32;
            if count > 0 {
                let sum = self.labels.entry(class).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        for (&class, all) in &mut detected {
            let Some(known) = labels.get(&class) else {
                all.iter().for_each(|d| self.add(class, d.0, false));
                continue;
            };
            all.sort_by(|x, y| descending(x.0, y.0));
            let mut taken = vec![false; known.len()];
            for (score, place) in all.iter() {
                let place = place.map(|v| clipped(v, T::ONE));
                let (mut best, mut highest) = (0, T::from_f64(-1.0));
                for (k, label) in known.iter().enumerate() {
                    let shared = overlap(&place, &label.0);
                    if shared > highest {
                        (best, highest) = (k, shared);
                    }
                }
                let right = highest.to_f64() > f64::from(a.overlap_threshold);
                if !right {
                    self.add(class, *score, false);
                } else if a.evaluate_difficult || !known[best].1 {
                    // A label matches one detection.
                    self.add(class, *score, !std::mem::replace(&mut taken[best], true));
                }
            }
        }
    }

    fn precision(&self, a: &MapAttrs, by_points: bool) -> T {
        let (mut sum, mut classes) = (T::ZERO, 0);
        for (class, &count) in &self.labels {
            // As in Paddle the number of labels, not the class, is compared with background_label; the default 0 skips
            // classes without labels.
            if count == a.background_label {
                continue;
            }
            classes += 1;
            let Some(found) = self.found.get(class) else { continue };
            let (right, wrong) = (sums(found), sums(self.wrong.get(class).map_or(&[][..], |w| w)));
            let recall: Vec<T> = right.iter().map(|&r| T::from_f64(r) / T::from_f64(count.into())).collect();
            let precision: Vec<T> =
                right.iter().zip(&wrong).map(|(&r, &w)| T::from_f64(r) / T::from_f64(r + w)).collect();
            sum += if by_points { at_points(&precision, &recall) } else { below(&precision, &recall) };
        }
        if classes > 0 {
            sum / T::from_f64(classes.into())
        } else {
            sum
        }
    }
}

/// Cumulative sums of the flags in descending order of scores.
fn sums<T: BoxFloat>(marked: &[(T, bool)]) -> Vec<f64> {
    let mut order = marked.to_vec();
    order.sort_by(|a, b| descending(a.0, b.0));
    let mut sum = 0.0;
    order
        .iter()
        .map(|m| {
            sum += f64::from(m.1 as u8);
            sum
        })
        .collect()
}

/// 11-point interpolated average precision.
fn at_points<T: BoxFloat>(precision: &[T], recall: &[T]) -> T {
    let mut best = [T::ZERO; 11];
    let mut start = precision.len();
    for j in (0..11).rev() {
        for i in (0..start).rev() {
            if recall[i].to_f64() < j as f64 / 10.0 {
                start = i + 1;
                if j > 0 {
                    best[j - 1] = best[j];
                }
                break;
            } else if best[j] < precision[i] {
                best[j] = precision[i];
            }
        }
    }
    best.iter().rev().fold(T::ZERO, |sum, &p| sum + p / T::from_f64(11.0))
}

/// The area under the precision-recall curve, in float32 as in Paddle.
fn below<T: BoxFloat>(precision: &[T], recall: &[T]) -> T {
    let (mut area, mut before) = (0f32, 0f32);
    for (p, r) in precision.iter().zip(recall) {
        let step = (r.to_f64() - f64::from(before)).abs();
        if step > 1e-6 {
            area = (f64::from(area) + p.to_f64() * step) as f32;
        }
        before = r.to_f64() as f32;
    }
    T::from_f64(area.into())
}

/// The rows of a state by class.
fn state<T: BoxFloat>(cx: &KernelContext, slot: InSlot) -> Result<BTreeMap<i32, Vec<(T, bool)>>> {
    let (t, name) = (cx.input(slot)?, cx.op.inputs[slot.0].name);
    axis::like(cx, t, &[t.dims().first().copied().unwrap_or(0), 2], T::DTYPE, name)?;
    let level = levels::first(cx.op.name, name, t)?;
    let mut found = BTreeMap::new();
    for (class, ends) in level.windows(2).enumerate().filter(|(_, ends)| ends[1] > ends[0]) {
        let rows = t.data::<T>()[ends[0] * 2..ends[1] * 2].chunks_exact(2);
        found.insert(class as i32, rows.map(|r| (r[0], r[1].to_f64() as i32 != 0)).collect());
    }
    Ok(found)
}

fn set_state<T: BoxFloat>(
    cx: &mut KernelContext,
    slot: OutSlot,
    found: &BTreeMap<i32, Vec<(T, bool)>>,
    classes: i32,
) -> Result<()> {
    let (mut level, mut rows) = (vec![0], Vec::new());
    for class in 0..classes {
        for (score, mark) in found.get(&class).into_iter().flatten() {
            rows.extend([*score, T::from_f64(f64::from(*mark as u8))]);
        }
        level.push(rows.len() / 2);
    }
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
    let mut tally = Tally { labels: BTreeMap::new(), found: BTreeMap::new(), wrong: BTreeMap::new() };
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
    for (l, d) in of_labels.windows(2).zip(of_detected.windows(2)) {
        let mut known: BTreeMap<i32, Vec<Label<T>>> = BTreeMap::new();
        for row in labels[l[0] * width..l[1] * width].chunks_exact(width) {
            let b = &row[width - 4..];
            let easy = width == 5 || row[1].to_f64().abs() < 1e-6;
            known.entry(row[0].to_f64() as i32).or_default().push(([b[0], b[1], b[2], b[3]], !easy));
        }
        let mut found: BTreeMap<i32, Vec<(T, [T; 4])>> = BTreeMap::new();
        for row in rows[d[0] * 6..d[1] * 6].chunks_exact(6) {
            found.entry(row[0].to_f64() as i32).or_default().push((row[1], [row[2], row[3], row[4], row[5]]));
        }
        tally.image(&known, found, a);
    }
    let by_points = by_points(op, a)?;
    cx.out_data::<T>(map::MAP)?[0] = tally.precision(a, by_points);
    let counts = cx.out_data::<i32>(map::COUNT_OUT)?;
    for (class, to) in (0..).zip(counts) {
        *to = tally.labels.get(&class).copied().unwrap_or(0);
    }
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
