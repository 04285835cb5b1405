//! generate_proposal_labels: sampled proposals and ground truth boxes with classes and target deltas.

use super::{corners, delta, images, marks, overlap, put, rows, sizes, Corners, Draws};
use crate::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use std::ops::Range;

attrs! {
    pub struct LabelAttrs {
        batch_size_per_im: i32, fg_fraction: f32, fg_thresh: f32, bg_thresh_hi: f32, bg_thresh_lo: f32,
        bbox_reg_weights: Vec<f32>, class_nums: i32, use_random: bool = true, is_cascade_rcnn: bool = false,
        is_cls_agnostic: bool = false,
    }
}

slots! {
    mod io {
        ROIS "RpnRois", CLASSES "GtClasses", CROWD "IsCrowd", BOXES "GtBoxes", INFO "ImInfo", OVERLAP "MaxOverlap".dispensable()
        => OUT "Rois".kernel_allocated(), LABELS "LabelsInt32".kernel_allocated(), TARGETS "BboxTargets".kernel_allocated(),
        INSIDE "BboxInsideWeights".kernel_allocated(), OUTSIDE "BboxOutsideWeights".kernel_allocated(), OVERLAPS "MaxOverlapWithGT".kernel_allocated()
    }
}

/// Overlaps that differ by less are equal.
const NEAR: f64 = 1e-5;
/// Limit of elements of the deltas (four per class).
const MOST: usize = 1 << 31;

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a, dtype) = (cx.op.name, cx.attrs::<LabelAttrs>(), cx.dtype(io::ROIS)?);
    for (slot, width) in [(io::ROIS, 4), (io::BOXES, 4), (io::INFO, 3)] {
        let dims = cx.dims(slot)?;
        if dims.len() != 2 || (dims[1] != width && dims[1] >= 0) {
            return cx.wrong(slot, &format!("of two dimensions, [rows, {width}]"));
        }
    }
    ensure!(
        !a.is_cascade_rcnn || cx.has(io::OVERLAP),
        NotFound,
        "operator {op}: input 'MaxOverlap' must be given where is_cascade_rcnn is True"
    );
    for (name, value) in [("class_nums", a.class_nums), ("batch_size_per_im", a.batch_size_per_im)] {
        ensure!(value > 0, InvalidArgument, "operator {op}: attribute '{name}' must be above 0, got {value}");
    }
    ensure!(
        a.bbox_reg_weights.len() == 4,
        InvalidArgument,
        "operator {op}: attribute 'bbox_reg_weights' must be 4 numbers, got {:?}",
        a.bbox_reg_weights
    );
    let width = 4 * a.class_nums as i64;
    for (slot, dims, dtype) in [
        (io::OUT, &[-1, 4][..], dtype),
        (io::LABELS, &[-1, 1], DType::I32),
        (io::TARGETS, &[-1, width], dtype),
        (io::INSIDE, &[-1, width], dtype),
        (io::OUTSIDE, &[-1, width], dtype),
        (io::OVERLAPS, &[-1], dtype),
    ] {
        cx.set(slot, dims, dtype);
        cx.set_levels(slot, 1);
    }
    Ok(())
}

/// The sampled boxes of an image: ground truth boxes first, then proposals.
struct Drawn {
    /// Foreground boxes, and the ground truth box of each.
    objects: Vec<(usize, usize)>,
    background: Vec<usize>,
}

fn draw<R: BoxFloat>(a: &LabelAttrs, overlaps: &[R], shared: &dyn Fn(usize, usize) -> R, crowd: &[bool]) -> Drawn {
    let mut drawn = Drawn { objects: Vec::new(), background: Vec::new() };
    let at_least = |v: R, bound: f32| v >= R::from_f64(bound as f64);
    for (i, &most) in overlaps.iter().enumerate() {
        if crowd.get(i) == Some(&true) {
            // Without overlap Paddle compares -1 with the bounds.
            if at_least(R::from_f64(-1.0), a.bg_thresh_lo) && !at_least(R::from_f64(-1.0), a.bg_thresh_hi) {
                drawn.background.push(i);
            }
        } else if at_least(most, a.fg_thresh) {
            let same = |&j: &usize| (most - shared(i, j)).to_f64().abs() < NEAR;
            drawn.objects.extend((0..crowd.len()).find(same).map(|j| (i, j)));
        } else if at_least(most, a.bg_thresh_lo) && !at_least(most, a.bg_thresh_hi) {
            drawn.background.push(i);
        }
    }
    if !a.is_cascade_rcnn {
        let draws = Draws::new(a.use_random);
        let all = a.batch_size_per_im as i64;
        draws.keep(&mut drawn.objects, ((all as f32 * a.fg_fraction).floor() as i64).max(0));
        draws.keep(&mut drawn.background, (all - drawn.objects.len() as i64).max(0));
    }
    drawn
}

#[derive(Default)]
struct Results<R> {
    rois: Vec<R>,
    labels: Vec<i32>,
    /// Row, class and delta of each foreground box.
    targets: Vec<(usize, usize, [R; 4])>,
    overlaps: Vec<R>,
    ends: Vec<usize>,
}

struct Image<'a, R> {
    rois: &'a [R],
    seen: Option<&'a [R]>,
    boxes: &'a [R],
    classes: &'a [i32],
    crowd: &'a [i32],
    scale: R,
}

impl<R: BoxFloat> Image<'_, R> {
    /// The proposals in ground truth coordinates; a cascade drops empty boxes and ground truth boxes.
    fn proposals(&self) -> Vec<Corners<R>> {
        let all = corners(self.rois).map(|b| b.map(|v| v / self.scale));
        let Some(seen) = self.seen else { return all.collect() };
        let area = |b: &Corners<R>| b[2] - b[0] + R::ONE > R::ZERO && b[3] - b[1] + R::ONE > R::ZERO;
        let remaining: Vec<_> = all.zip(seen).filter(|(b, &o)| area(b) && o < R::ONE).map(|(b, _)| b).collect();
        if remaining.is_empty() {
            return vec![[R::ZERO; 4]];
        }
        remaining
    }

    fn run(&self, op: &str, a: &LabelAttrs, all: &mut Results<R>) -> Result<()> {
        let truth: Vec<Corners<R>> = corners(self.boxes).collect();
        let boxes: Vec<Corners<R>> = truth.iter().copied().chain(self.proposals()).collect();
        let shared = |i: usize, j: usize| overlap(&boxes[i], &truth[j]);
        let most = |i: usize| (0..truth.len()).map(|j| shared(i, j)).fold(R::ZERO, crate::boxes::most);
        let overlaps: Vec<R> = (0..boxes.len()).map(most).collect();
        let crowd: Vec<bool> = self.crowd.iter().map(|&c| c != 0).collect();
        let drawn = draw(a, &overlaps, &shared, &crowd);
        for &(i, j) in &drawn.objects {
            let label = self.classes[j];
            ensure!(
                label < a.class_nums && (label <= 0 || !a.is_cls_agnostic || a.class_nums > 1),
                InvalidArgument,
                "operator {op}: the classes of true boxes must be below class_nums {}, got {label}",
                a.class_nums
            );
            if label > 0 {
                let class = if a.is_cls_agnostic { 1 } else { label as usize };
                let moved = delta(&boxes[i], &truth[j], Some(&a.bbox_reg_weights));
                all.targets.push((all.labels.len(), class, moved));
            }
            all.labels.push(label);
        }
        all.labels.extend(drawn.background.iter().map(|_| 0));
        for i in drawn.objects.iter().map(|o| o.0).chain(drawn.background) {
            all.rois.extend(boxes[i].map(|v| v * self.scale));
            all.overlaps.push(overlaps[i]);
        }
        Ok(())
    }
}

fn compute<R: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<LabelAttrs>());
    let rois_of = images(cx, io::ROIS, None)?;
    let boxes_of: Vec<Range<usize>> = images(cx, io::BOXES, Some(rois_of.len()))?;
    let (classes, crowd) = (marks(cx, io::CLASSES, &boxes_of)?, marks(cx, io::CROWD, &boxes_of)?);
    let (rois, boxes) = (rows::<R>(cx, io::ROIS, 4)?, rows::<R>(cx, io::BOXES, 4)?);
    let info = sizes::<R>(cx, io::INFO, rois_of.len())?;
    let seen = if a.is_cascade_rcnn { Some(rows::<R>(cx, io::OVERLAP, 1)?) } else { None };
    ensure!(
        seen.is_none_or(|s| s.len() * 4 == rois.len()),
        InvalidArgument,
        "operator {op}: input 'MaxOverlap' must have one number for each of the {} proposals",
        rois.len() / 4
    );
    let mut all = Results { ends: vec![0], ..Results::default() };
    for (i, (r, b)) in rois_of.iter().zip(&boxes_of).enumerate() {
        if !r.is_empty() {
            let image = Image {
                rois: &rois[r.start * 4..r.end * 4],
                seen: seen.map(|s| &s[r.clone()]),
                boxes: &boxes[b.start * 4..b.end * 4],
                classes: &classes[b.clone()],
                crowd: &crowd[b.clone()],
                scale: info[i * 3 + 2],
            };
            image.run(op, a, &mut all)?;
        }
        all.ends.push(all.labels.len());
    }
    let width = 4 * a.class_nums as usize;
    ensure!(
        all.labels.len().checked_mul(width).is_some_and(|n| n <= MOST),
        ResourceExhausted,
        "operator {op}: {} rows of deltas for {} classes are too many",
        all.labels.len(),
        a.class_nums
    );
    put(cx, io::OUT, &all.rois, 4, &all.ends)?;
    put(cx, io::LABELS, &all.labels, 1, &all.ends)?;
    put(cx, io::OVERLAPS, &all.overlaps, 0, &all.ends)?;
    for (slot, weights) in [(io::TARGETS, false), (io::INSIDE, true), (io::OUTSIDE, true)] {
        let mut table = vec![R::ZERO; all.labels.len() * width];
        for &(row, class, moved) in &all.targets {
            table[row * width + class * 4..][..4].copy_from_slice(&if weights { [R::ONE; 4] } else { moved });
        }
        put(cx, slot, &table, width as i64, &all.ends)?;
    }
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    dispatch!(cx.input(io::ROIS)?.dtype(), T in [f32, f64], compute::<T>(cx), other => cx.unsupported(other))
}

pub static GENERATE_PROPOSAL_LABELS: Op = Op {
    name: "generate_proposal_labels",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: LabelAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Random(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&GENERATE_PROPOSAL_LABELS];
