//! rpn_target_assign and retinanet_target_assign: foreground and background anchors, and target deltas.

use super::{corners, delta, images, marks, overlap, put, rows, sizes, Corners, Draws};
use crate::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use std::ops::Range;

attrs! {
    pub struct RpnAttrs {
        rpn_batch_size_per_im: i32 = 256, rpn_straddle_thresh: f32, rpn_positive_overlap: f32 = 0.7,
        rpn_negative_overlap: f32 = 0.3, rpn_fg_fraction: f32 = 0.25, use_random: bool = true,
    }
    pub struct RetinanetAttrs { positive_overlap: f32 = 0.5, negative_overlap: f32 = 0.4 }
}

slots! {
    mod rpn {
        ANCHOR "Anchor", BOXES "GtBoxes", CROWD "IsCrowd", INFO "ImInfo"
        => LOCATION "LocationIndex".kernel_allocated(), SCORE "ScoreIndex".kernel_allocated(), TARGET "TargetBBox".kernel_allocated(),
        LABEL "TargetLabel".kernel_allocated(), WEIGHT "BBoxInsideWeight".kernel_allocated()
    }
    mod retinanet {
        ANCHOR "Anchor", BOXES "GtBoxes", LABELS "GtLabels", CROWD "IsCrowd", INFO "ImInfo"
        => LOCATION "LocationIndex".kernel_allocated(), SCORE "ScoreIndex".kernel_allocated(), TARGET "TargetBBox".kernel_allocated(),
        LABEL "TargetLabel".kernel_allocated(), WEIGHT "BBoxInsideWeight".kernel_allocated(), COUNT "ForegroundNumber".kernel_allocated()
    }
}

/// Overlaps that differ by less are equal.
const NEAR: f64 = 1e-5;

/// Overlap thresholds of foreground and background, and the number of samples.
struct Rule {
    positive: f32,
    negative: f32,
    /// (anchors per image, foreground fraction)
    drawn: Option<(i32, f32)>,
}

/// The selected anchors of an image.
#[derive(Default)]
struct Chosen {
    /// Foreground anchors, preceded by placeholders for anchors that are also background.
    located: Vec<usize>,
    stand_ins: usize,
    objects: Vec<usize>,
    background: Vec<usize>,
    /// The ground truth box of greatest overlap of each anchor.
    best: Vec<usize>,
}

fn choose<R: BoxFloat>(rule: &Rule, anchors: &[Corners<R>], boxes: &[Corners<R>], draws: &Draws) -> Chosen {
    let mut most = vec![R::from_f64(f64::NEG_INFINITY); anchors.len()];
    let mut of_box = vec![R::from_f64(f64::NEG_INFINITY); boxes.len()];
    let mut best = vec![0; anchors.len()];
    for (i, a) in anchors.iter().enumerate() {
        for (j, b) in boxes.iter().enumerate() {
            let value = overlap(a, b);
            if value > most[i] {
                (most[i], best[i]) = (value, j);
            }
            if value > of_box[j] {
                of_box[j] = value;
            }
        }
    }
    // An anchor is foreground if its overlap reaches the threshold or is an object's maximum.
    let positive = |i: &usize| {
        let of_any = || {
            let a = &anchors[*i];
            boxes.iter().zip(&of_box).any(|(b, &most)| (overlap(a, b) - most).to_f64().abs() < NEAR)
        };
        !boxes.is_empty() && (most[*i] >= R::from_f64(rule.positive as f64) || of_any())
    };
    let mut objects: Vec<usize> = (0..anchors.len()).filter(positive).collect();
    let sampling = rule.drawn.filter(|&(all, share)| all > 0 && share > 0.0);
    if let Some((all, share)) = sampling {
        draws.keep(&mut objects, (share * all as f32) as i64);
    }
    let mut background: Vec<usize> =
        (0..anchors.len()).filter(|&i| most[i] < R::from_f64(rule.negative as f64)).collect();
    if let Some((all, _)) = sampling {
        draws.keep(&mut background, all as i64 - objects.len() as i64);
    }
    // If an anchor is both, background wins; a placeholder of weight 0 keeps the number of locations.
    let mut label = vec![-1i8; anchors.len()];
    objects.iter().for_each(|&i| label[i] = 1);
    let first = objects.first().copied();
    let mut located = Vec::new();
    for &i in &background {
        if label[i] == 1 {
            located.extend(first);
        }
        label[i] = 0;
    }
    let stand_ins = located.len();
    let of = |wanted: i8| (0..label.len()).filter(|&i| label[i] == wanted).collect::<Vec<_>>();
    let (objects, background) = (of(1), of(0));
    located.extend(&objects);
    Chosen { located, stand_ins, objects, background, best }
}

/// The checked inputs of a call.
struct Call<'a, R> {
    anchors: &'a [R],
    boxes: &'a [R],
    images: Vec<Range<usize>>,
    crowd: &'a [i32],
    labels: Option<&'a [i32]>,
    info: &'a [R],
}

struct Results<R> {
    location: Vec<i32>,
    score: Vec<i32>,
    target: Vec<R>,
    label: Vec<i32>,
    weight: Vec<R>,
    count: Vec<i32>,
    located: Vec<usize>,
    scored: Vec<usize>,
}

impl<'a, R: BoxFloat> Call<'a, R> {
    fn new(
        cx: &KernelContext<'a>,
        [anchor, boxes, crowd, info]: [InSlot; 4],
        labels: Option<InSlot>,
    ) -> Result<Call<'a, R>> {
        let anchors = rows::<R>(cx, anchor, 4)?;
        let images = images(cx, boxes, None)?;
        let last = images.len().checked_mul(anchors.len() / 4).filter(|&n| n <= i32::MAX as usize);
        ensure!(
            last.is_some(),
            ResourceExhausted,
            "operator {}: the {} anchors of {} images have more numbers than int32 holds",
            cx.op.name,
            anchors.len() / 4,
            images.len()
        );
        Ok(Call {
            anchors,
            boxes: rows(cx, boxes, 4)?,
            crowd: marks(cx, crowd, &images)?,
            labels: labels.map(|l| marks(cx, l, &images)).transpose()?,
            info: sizes(cx, info, images.len())?,
            images,
        })
    }

    /// Anchors that exceed the image by at most `straddle`; all if it is negative.
    fn inside(&self, straddle: f32, image: usize) -> Vec<usize> {
        let far = R::from_f64(straddle as f64);
        let (height, width) = (self.info[image * 3], self.info[image * 3 + 1]);
        let fits = |b: &Corners<R>| {
            b[0] >= R::ZERO - far && b[1] >= R::ZERO - far && b[2] < width + far && b[3] < height + far
        };
        let all = corners(self.anchors).enumerate();
        all.filter(|(_, b)| straddle < 0.0 || fits(b)).map(|(i, _)| i).collect()
    }

    fn run(&self, straddle: f32, rule: &Rule, draws: &Draws) -> Results<R> {
        let mut all = Results {
            location: Vec::new(),
            score: Vec::new(),
            target: Vec::new(),
            label: Vec::new(),
            weight: Vec::new(),
            count: Vec::new(),
            located: vec![0],
            scored: vec![0],
        };
        let anchors: Vec<Corners<R>> = corners(self.anchors).collect();
        for (image, rows) in self.images.iter().enumerate() {
            let scale = self.info[image * 3 + 2];
            let inside = self.inside(straddle, image);
            let near: Vec<_> = inside.iter().map(|&i| anchors[i]).collect();
            let not_crowd: Vec<usize> = rows.clone().filter(|&i| self.crowd[i] == 0).collect();
            let boxes: Vec<_> =
                not_crowd.iter().map(|&i| [0, 1, 2, 3].map(|k| self.boxes[i * 4 + k] * scale)).collect();
            let chosen = choose(rule, &near, &boxes, draws);
            let numbered = |i: &usize| (image * anchors.len() + inside[*i]) as i32;
            all.location.extend(chosen.located.iter().map(numbered));
            all.score.extend(chosen.objects.iter().chain(&chosen.background).map(numbered));
            for &i in &chosen.located {
                all.target.extend(delta(&near[i], &boxes[chosen.best[i]], None));
            }
            let class = |i: &usize| self.labels.map_or(1, |l| l[not_crowd[chosen.best[*i]]]);
            all.label.extend(chosen.objects.iter().map(class));
            all.label.extend(chosen.background.iter().map(|_| 0));
            all.weight.extend((0..chosen.located.len() * 4).map(|i| match i < chosen.stand_ins * 4 {
                true => R::ZERO,
                false => R::ONE,
            }));
            all.count.push(chosen.located.len() as i32 + 1);
            all.located.push(all.location.len());
            all.scored.push(all.score.len());
        }
        all
    }
}

fn finish<R: BoxFloat>(cx: &mut KernelContext, all: &Results<R>) -> Result<()> {
    put(cx, rpn::LOCATION, &all.location, 0, &all.located)?;
    put(cx, rpn::SCORE, &all.score, 0, &all.scored)?;
    put(cx, rpn::TARGET, &all.target, 4, &all.located)?;
    put(cx, rpn::LABEL, &all.label, 1, &all.scored)?;
    put(cx, rpn::WEIGHT, &all.weight, 4, &all.located)
}

fn run_rpn(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RpnAttrs>();
    let rule = Rule {
        positive: a.rpn_positive_overlap,
        negative: a.rpn_negative_overlap,
        drawn: Some((a.rpn_batch_size_per_im, a.rpn_fg_fraction)),
    };
    let draws = Draws::new(a.use_random);
    dispatch!(cx.input(rpn::ANCHOR)?.dtype(), T in [f32, f64], {
        let call = Call::<T>::new(cx, [rpn::ANCHOR, rpn::BOXES, rpn::CROWD, rpn::INFO], None)?;
        let all = call.run(a.rpn_straddle_thresh, &rule, &draws);
        let most = call.images.len() as i64 * a.rpn_batch_size_per_im as i64;
        ensure!(
            all.location.len() as i64 <= most && all.score.len() as i64 <= most,
            InvalidArgument,
            "operator rpn_target_assign: {} locations and {} scores are more than rpn_batch_size_per_im, {}, for each image",
            all.location.len(),
            all.score.len(),
            a.rpn_batch_size_per_im
        );
        finish(cx, &all)
    }, other => cx.unsupported(other))
}

fn run_retinanet(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<RetinanetAttrs>();
    let rule = Rule { positive: a.positive_overlap, negative: a.negative_overlap, drawn: None };
    dispatch!(cx.input(retinanet::ANCHOR)?.dtype(), T in [f32, f64], {
        use retinanet::{ANCHOR, BOXES, CROWD, INFO, LABELS};
        let call = Call::<T>::new(cx, [ANCHOR, BOXES, CROWD, INFO], Some(LABELS))?;
        let all = call.run(-1.0, &rule, &Draws::new(false));
        let each: Vec<usize> = (0..=all.count.len()).collect();
        put(cx, retinanet::COUNT, &all.count, 1, &each)?;
        finish(cx, &all)
    }, other => cx.unsupported(other))
}

/// Anchor and boxes must have rows of 4 numbers, ImInfo of 3; the outputs' rows are unknown.
fn infer(cx: &mut ShapeContext, flat: &[(InSlot, i64)]) -> Result<()> {
    for &(slot, width) in flat {
        let dims = cx.dims(slot)?;
        if dims.len() != 2 || (dims[1] != width && dims[1] >= 0) {
            return cx.wrong(slot, &format!("of two dimensions, [rows, {width}]"));
        }
    }
    let dtype = cx.dtype(rpn::ANCHOR)?;
    for (slot, dims, dtype) in [
        (rpn::LOCATION, &[-1][..], DType::I32),
        (rpn::SCORE, &[-1], DType::I32),
        (rpn::TARGET, &[-1, 4], dtype),
        (rpn::LABEL, &[-1, 1], DType::I32),
        (rpn::WEIGHT, &[-1, 4], dtype),
    ] {
        cx.set(slot, dims, dtype);
        cx.set_levels(slot, 1);
    }
    Ok(())
}

pub static RPN_TARGET_ASSIGN: Op = Op {
    name: "rpn_target_assign",
    inputs: rpn::INS,
    outputs: rpn::OUTS,
    attrs: RpnAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| infer(cx, &[(rpn::ANCHOR, 4), (rpn::BOXES, 4), (rpn::INFO, 3)]),
    cpu: Kernel::Random(run_rpn),
    ..OP
};

pub static RETINANET_TARGET_ASSIGN: Op = Op {
    name: "retinanet_target_assign",
    inputs: retinanet::INS,
    outputs: retinanet::OUTS,
    attrs: RetinanetAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        infer(cx, &[(retinanet::ANCHOR, 4), (retinanet::BOXES, 4), (retinanet::LABELS, 1), (retinanet::INFO, 3)])?;
        cx.set(retinanet::COUNT, &[-1, 1], DType::I32);
        cx.set_levels(retinanet::COUNT, 1);
        Ok(())
    },
    cpu: Kernel::Pure(run_retinanet),
    ..OP
};

pub static TABLE: &[&Op] = &[&RPN_TARGET_ASSIGN, &RETINANET_TARGET_ASSIGN];
