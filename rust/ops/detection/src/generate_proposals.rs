//! generate_proposals and generate_proposals_v2: anchors moved by predicted deltas, ranked by score, with non-maximum
//! suppression.

use crate::boxes::{clipped, least, pixel, BoxFloat};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::nms::suppress;
use oar_ops_common::levels;

attrs! {
    pub struct ProposalAttrs { pre_nms_topN: i32, post_nms_topN: i32, nms_thresh: f32, min_size: f32, eta: f32 }
    pub struct ProposalV2Attrs {
        pre_nms_topN: i32, post_nms_topN: i32, nms_thresh: f32, min_size: f32, eta: f32, pixel_offset: bool = true,
    }
}

slots! {
    mod io {
        SCORES "Scores", DELTAS "BboxDeltas", INFO "ImInfo", ANCHORS "Anchors", VARIANCES "Variances"
        => ROIS "RpnRois".kernel_allocated(), PROBS "RpnRoiProbs".kernel_allocated(), COUNT "RpnRoisNum".dispensable().kernel_allocated()
    }
    mod v2 {
        SCORES "Scores", DELTAS "BboxDeltas", INFO "ImShape", ANCHORS "Anchors", VARIANCES "Variances"
        => ROIS "RpnRois".kernel_allocated(), PROBS "RpnRoiProbs".kernel_allocated(), COUNT "RpnRoisNum".dispensable().kernel_allocated()
    }
}

/// The attributes of a call.
struct Rule {
    /// Number of boxes before and after suppression; all if not positive.
    before: i32,
    after: i32,
    threshold: f32,
    min_size: f32,
    eta: f32,
    /// Boxes include their right and bottom pixels.
    pixels: bool,
    /// ImInfo has a scale, and min_size applies to the unscaled image.
    scaled: bool,
}

/// Inputs of a call.
struct Call<'a, R> {
    rule: Rule,
    /// Anchors per position; positions.
    anchors: usize,
    places: usize,
    scores: &'a [R],
    deltas: &'a [R],
    info: &'a [R],
    boxes: &'a [R],
    variances: &'a [R],
}

type Corners<R> = [R; 4];

impl<R: BoxFloat> Call<'_, R> {
    fn all(&self) -> usize {
        self.anchors * self.places
    }

    fn pixel(&self) -> R {
        pixel(!self.rule.pixels)
    }

    /// The score of anchor `i`, in the order of positions.
    fn score(&self, image: usize, i: usize) -> R {
        self.scores[image * self.all() + i % self.anchors * self.places + i / self.anchors]
    }

    /// The anchor moved by its deltas and clipped to the image.
    fn moved(&self, image: usize, i: usize, (height, width): (R, R)) -> Corners<R> {
        let (half, two, grown_most) = (R::from_f64(0.5), R::from_f64(2.0), R::from_f64((1000.0f64 / 16.0).ln()));
        let (b, v, pixel) = (&self.boxes[i * 4..][..4], &self.variances[i * 4..][..4], self.pixel());
        let delta = |k: usize| {
            let plane = (image * self.anchors + i % self.anchors) * 4 + k;
            v[k] * self.deltas[plane * self.places + i / self.anchors]
        };
        let mut found = [R::ZERO; 4];
        for (k, end) in [width, height].into_iter().enumerate() {
            let size = b[k + 2] - b[k] + pixel;
            let center = delta(k) * size + (b[k] + half * size);
            let grown = least(delta(k + 2), grown_most).exp() * size;
            let cut = |v: R| clipped(v, end - pixel);
            found[k] = cut(center - grown / two);
            found[k + 2] = cut(center + grown / two - pixel);
        }
        found
    }

    /// Whether a box is large enough and its center within the image.
    fn counts(&self, b: &Corners<R>, info: &[R]) -> bool {
        let (least, two, pixel) = (R::from_f64(self.rule.min_size.max(1.0) as f64), R::from_f64(2.0), self.pixel());
        let large = |k: usize| {
            let size = b[k + 2] - b[k];
            (if self.rule.scaled { size / info[2] } else { size }) + pixel >= least
        };
        let central = |k: usize, end: R| b[k] + (b[k + 2] - b[k] + pixel) / two <= end;
        large(0) && large(1) && (!self.rule.pixels || (central(0, info[1]) && central(1, info[0])))
    }

    /// The proposals of an image with scores, in descending order; one zero box if there are none.
    fn image(&self, image: usize) -> Vec<(R, Corners<R>)> {
        let info = &self.info[image * if self.rule.scaled { 3 } else { 2 }..];
        let mut order: Vec<u32> = (0..self.all() as u32).collect();
        let falling = |a: &u32, b: &u32| {
            let (a, b) = (self.score(image, *a as usize), self.score(image, *b as usize));
            b.partial_cmp(&a).unwrap_or_else(|| a.partial_cmp(&a).is_none().cmp(&b.partial_cmp(&b).is_none()))
        };
        let by = |a: &u32, b: &u32| falling(a, b).then(a.cmp(b));
        if self.rule.before > 0 && (self.rule.before as usize) < order.len() {
            order.select_nth_unstable_by(self.rule.before as usize, by);
            order.truncate(self.rule.before as usize);
        }
        order.sort_unstable_by(by);
        let boxes = order.iter().map(|&i| (i, self.moved(image, i as usize, (info[0], info[1]))));
        let mut found: Vec<(u32, Corners<R>)> = boxes.filter(|(_, b)| self.counts(b, info)).collect();
        if found.is_empty() {
            return vec![(R::ZERO, [R::ZERO; 4])];
        }
        if self.rule.threshold > 0.0 {
            // Among equal scores the last one comes first.
            found.reverse();
            found.sort_by(|a, b| falling(&a.0, &b.0));
            let (bound, eta) = (R::from_f64(self.rule.threshold as f64), R::from_f64(self.rule.eta as f64));
            let mut kept = suppress(0..found.len(), (bound, eta), !self.rule.pixels, |i| &found[i].1);
            kept.truncate(usize::try_from(self.rule.after).ok().filter(|&n| n > 0).unwrap_or(usize::MAX));
            found = kept.into_iter().map(|i| found[i]).collect();
        }
        found.into_iter().map(|(i, b)| (self.score(image, i as usize), b)).collect()
    }
}

fn rule(a: &ProposalAttrs) -> Rule {
    let &ProposalAttrs { pre_nms_topN: before, post_nms_topN: after, nms_thresh: threshold, min_size, eta } = a;
    Rule { before, after, threshold, min_size, eta, pixels: true, scaled: true }
}

fn rule_v2(a: &ProposalV2Attrs) -> Rule {
    let &ProposalV2Attrs {
        pre_nms_topN: before,
        post_nms_topN: after,
        nms_thresh: threshold,
        min_size,
        eta,
        pixel_offset,
    } = a;
    Rule { before, after, threshold, min_size, eta, pixels: pixel_offset, scaled: false }
}

fn infer(cx: &mut ShapeContext, width: i64) -> Result<()> {
    let (op, dtype) = (cx.op.name, cx.dtype(io::ANCHORS)?);
    let (scores, deltas, info) = (cx.dims(io::SCORES)?, cx.dims(io::DELTAS)?, cx.dims(io::INFO)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        scores.len() == 4 && deltas.len() == 4 && [0, 2, 3].iter().all(|&k| agree(scores[k], deltas[k])),
        InvalidArgument,
        "operator {op}: Scores must have shape [N, A, H, W] and BboxDeltas [N, 4 * A, H, W], got {:?} and {:?}",
        &scores[..],
        &deltas[..]
    );
    ensure!(
        scores[1] < 0 || deltas[1] < 0 || scores[1].checked_mul(4) == Some(deltas[1]),
        InvalidArgument,
        "operator {op}: BboxDeltas must have 4 channels for each of Scores, got {} and {}",
        deltas[1],
        scores[1]
    );
    ensure!(
        info.len() == 2 && agree(info[1], width) && agree(info[0], scores[0]),
        InvalidArgument,
        "operator {op}: input '{}' must have shape [{}, {width}], got {:?}",
        cx.op.inputs[io::INFO.0].name,
        scores[0],
        &info[..]
    );
    cx.set(io::ROIS, &[-1, 4], dtype);
    cx.set(io::PROBS, &[-1, 1], dtype);
    cx.set(io::COUNT, &[-1], DType::I32);
    let levels = cx.meta(io::SCORES, 0)?.lod_level.max(1);
    cx.set_levels(io::ROIS, levels);
    cx.set_levels(io::PROBS, levels);
    Ok(())
}

fn elements<'a, T: Element>(cx: &KernelContext<'a>, slot: InSlot, count: usize) -> Result<&'a [T]> {
    let t = cx.input(slot)?;
    ensure!(
        t.dtype() == T::DTYPE && t.numel() == count,
        InvalidArgument,
        "operator {}: input '{}' must be {} with {count} elements, got {t:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        T::DTYPE
    );
    Ok(t.data::<T>())
}

fn compute<R: BoxFloat>(cx: &mut KernelContext, rule: Rule) -> Result<()> {
    let d = cx.input(io::SCORES)?.dims();
    let (images, anchors, places) = (d[0] as usize, d[1] as usize, (d[2] * d[3]) as usize);
    let all = anchors * places;
    ensure!(
        all <= u32::MAX as usize,
        ResourceExhausted,
        "operator {}: {all} anchors of an image are too many",
        cx.op.name
    );
    let call = Call::<R> {
        anchors,
        places,
        scores: elements(cx, io::SCORES, images * all)?,
        deltas: elements(cx, io::DELTAS, images * all * 4)?,
        info: elements(cx, io::INFO, images * if rule.scaled { 3 } else { 2 })?,
        boxes: elements(cx, io::ANCHORS, all * 4)?,
        variances: elements(cx, io::VARIANCES, all * 4)?,
        rule,
    };
    let (mut rois, mut probs, mut ends) = (Vec::new(), Vec::new(), vec![0]);
    for image in 0..images {
        for (score, b) in call.image(image) {
            rois.extend(b);
            probs.push(score);
        }
        ends.push(probs.len());
    }
    if cx.wants(io::COUNT) {
        let counts: Vec<i32> = levels::lengths(&ends).map(|n| n as i32).collect();
        cx.set(io::COUNT, Tensor::from_slice(&counts, &[images as i64])?);
    }
    let lod = levels::one(ends);
    let rows = probs.len() as i64;
    cx.set(io::ROIS, Tensor::from_slice(&rois, &[rows, 4])?.with_lod(lod.clone()));
    cx.set(io::PROBS, Tensor::from_slice(&probs, &[rows, 1])?.with_lod(lod));
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let rule = rule(cx.attrs());
    dispatch!(cx.input(io::ANCHORS)?.dtype(), T in [f32, f64], compute::<T>(cx, rule), other => cx.unsupported(other))
}

fn run_v2(cx: &mut KernelContext) -> Result<()> {
    let rule = rule_v2(cx.attrs());
    dispatch!(cx.input(io::ANCHORS)?.dtype(), T in [f32, f64], compute::<T>(cx, rule), other => cx.unsupported(other))
}

pub static GENERATE_PROPOSALS: Op = Op {
    name: "generate_proposals",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: ProposalAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, 3),
    cpu: Kernel::Pure(run),
    ..OP
};

pub static GENERATE_PROPOSALS_V2: Op = Op {
    name: "generate_proposals_v2",
    inputs: v2::INS,
    outputs: v2::OUTS,
    attrs: ProposalV2Attrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, 2),
    cpu: Kernel::Pure(run_v2),
    ..OP
};

pub static TABLE: &[&Op] = &[&GENERATE_PROPOSALS, &GENERATE_PROPOSALS_V2];
