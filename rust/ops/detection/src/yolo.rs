//! yolo_box (boxes of a YOLOv3 network's output) and yolov3_loss.
//!
//! The network's output is [images, anchors * (5 + classes), rows, columns]: x, y, width, height, objectness and class
//! scores of each anchor.

use super::boxes::BoxFloat;
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool;
use oar_ops_common::axis;

attrs! {
    pub struct BoxAttrs {
        class_num: i32, anchors: Vec<i32> = vec![], downsample_ratio: i32 = 32, conf_thresh: f32 = 0.01,
        clip_bbox: bool = true, scale_x_y: f32 = 1.0,
    }
    pub struct LossAttrs {
        class_num: i32, anchors: Vec<i32> = vec![], anchor_mask: Vec<i32> = vec![], downsample_ratio: i32 = 32,
        ignore_thresh: f32 = 0.7, use_label_smooth: bool = true, scale_x_y: f32 = 1.0,
    }
}

slots! {
    mod boxes { X "X", SIZE "ImgSize" => BOXES "Boxes", SCORES "Scores" }
    mod loss {
        X "X", BOX "GTBox", LABEL "GTLabel", SCORE "GTScore".dispensable()
        => LOSS "Loss", OBJECT "ObjectnessMask".intermediate(), MATCH "GTMatchMask".intermediate()
    }
    mod loss_grad {
        X "X", BOX "GTBox", LABEL "GTLabel", SCORE "GTScore".dispensable(), DLOSS "Loss@GRAD", OBJECT "ObjectnessMask",
        MATCH "GTMatchMask"
        => DX "X@GRAD", DBOX "GTBox@GRAD".dispensable(), DLABEL "GTLabel@GRAD".dispensable(), DSCORE "GTScore@GRAD".dispensable()
    }
}

/// Fails unless X has the channels of `count` anchors.
fn check(cx: &ShapeContext, x: InSlot, anchors: &[i32], count: usize, classes: i32) -> Result<()> {
    let op = cx.op.name;
    ensure!(
        !anchors.is_empty() && anchors.len().is_multiple_of(2),
        InvalidArgument,
        "operator {op}: anchors must be pairs of a width and a height, at least one, got {anchors:?}"
    );
    ensure!(classes > 0, InvalidArgument, "operator {op}: class_num must be greater than 0, got {classes}");
    cx.shaped(x, &[-1, count as i64 * (5 + i64::from(classes)), -1, -1])
}

/// The numbers of one anchor at one grid position.
struct AnchorOutput {
    /// Offset of the first number, and the stride.
    at: usize,
    step: usize,
}

/// The grid of a network's output.
#[derive(Clone, Copy)]
struct Grid {
    anchors: usize,
    classes: usize,
    rows: usize,
    columns: usize,
}

impl Grid {
    fn new(x: &Tensor, anchors: usize, classes: i32) -> Grid {
        let d = x.dims();
        Grid { anchors, classes: classes as usize, rows: d[2] as usize, columns: d[3] as usize }
    }

    fn places(&self) -> usize {
        self.rows * self.columns
    }

    /// The numbers of an anchor (counted over all images) at a grid position.
    fn anchor_output(&self, anchor: usize, place: usize) -> AnchorOutput {
        AnchorOutput { at: anchor * (5 + self.classes) * self.places() + place, step: self.places() }
    }
}

impl AnchorOutput {
    fn nth(&self, k: usize) -> usize {
        self.at + k * self.step
    }
}

fn infer_boxes(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<BoxAttrs>();
    let anchors = a.anchors.len() / 2;
    check(cx, boxes::X, &a.anchors, anchors, a.class_num)?;
    let (x, dtype) = (cx.dims(boxes::X)?, cx.dtype(boxes::X)?);
    cx.shaped(boxes::SIZE, &[x[0], 2])?;
    let count = if x[2] < 0 || x[3] < 0 { -1 } else { (x[2] * x[3]).saturating_mul(anchors as i64) };
    cx.set(boxes::BOXES, &[x[0], count, 4], dtype);
    cx.set(boxes::SCORES, &[x[0], count, a.class_num.into()], dtype);
    Ok(())
}

/// Side length of the network's input.
fn input_size<T: BoxFloat>(ratio: i32, size: usize) -> T {
    T::from_f64(f64::from(ratio) * size as f64)
}

/// Boxes of one anchor and image: calls `each(position, box, confidence)` for those above the threshold.
fn decode<T: BoxFloat>(
    x: &[T],
    g: Grid,
    anchor: usize,
    image: &[i32],
    a: &BoxAttrs,
    mut each: impl FnMut(usize, [T; 4], T),
) {
    let of = |v: f64| T::from_f64(v);
    let (scale, bias) = (of(a.scale_x_y.into()), of((-0.5 * (f64::from(a.scale_x_y) - 1.0)) as f32 as f64));
    let [height, width] = [image[0], image[1]].map(|n| of(n.into()));
    let own = anchor % g.anchors * 2;
    let sides = [a.anchors[own], a.anchors[own + 1]].map(|n| of(n.into()));
    let input = [input_size::<T>(a.downsample_ratio, g.columns), input_size::<T>(a.downsample_ratio, g.rows)];
    let (two, one) = (of(2.0), T::ONE);
    for place in 0..g.places() {
        let cell = g.anchor_output(anchor, place);
        let sure = x[cell.nth(4)].sigmoid();
        if sure.to_f64() < f64::from(a.conf_thresh) {
            continue;
        }
        let center = |k: usize, i: usize| of(i as f64) + x[cell.nth(k)].sigmoid() * scale + bias;
        let cx = center(0, place % g.columns) * width / of(g.columns as f64);
        let cy = center(1, place / g.columns) * height / of(g.rows as f64);
        let w = x[cell.nth(2)].exp() * sides[0] * width / input[0];
        let h = x[cell.nth(3)].exp() * sides[1] * height / input[1];
        let mut b = [cx - w / two, cy - h / two, cx + w / two, cy + h / two];
        if a.clip_bbox {
            // NaN is clamped to the edge, too.
            let inner = |v: T| if v > T::ZERO { v } else { T::ZERO };
            let outer = |v: T, end: T| if v < end - one { v } else { end - one };
            b = [inner(b[0]), inner(b[1]), outer(b[2], width), outer(b[3], height)];
        }
        each(place, b, sure);
    }
}

fn run_boxes<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (t, a) = (cx.input(boxes::X)?, cx.attrs::<BoxAttrs>());
    let size = cx.input(boxes::SIZE)?;
    axis::like(cx, size, size.dims(), DType::I32, "ImgSize")?;
    let (x, size) = (t.data::<T>(), size.data::<i32>());
    let g = Grid::new(t, a.anchors.len() / 2, a.class_num);
    let (places, classes) = (g.places(), g.classes);
    let mut found = Tensor::zeros(T::DTYPE, cx.out(boxes::BOXES)?.dims())?;
    let mut scores = Tensor::zeros(T::DTYPE, cx.out(boxes::SCORES)?.dims())?;
    if places > 0 {
        let parts = found.data_mut::<T>()?.chunks_exact_mut(places * 4);
        let mut parts: Vec<_> = parts.zip(scores.data_mut::<T>()?.chunks_exact_mut(places * classes)).collect();
        pool::parts(&mut parts, 1, |at, part| {
            for (k, (to, scores)) in part.iter_mut().enumerate() {
                let anchor = at + k;
                let image = anchor / g.anchors * 2;
                decode(x, g, anchor, &size[image..image + 2], a, |place, b, sure| {
                    to[place * 4..place * 4 + 4].copy_from_slice(&b);
                    let cell = g.anchor_output(anchor, place);
                    for (c, s) in scores[place * classes..(place + 1) * classes].iter_mut().enumerate() {
                        *s = sure * x[cell.nth(5 + c)].sigmoid();
                    }
                });
            }
        });
    }
    cx.set(boxes::BOXES, found);
    cx.set(boxes::SCORES, scores);
    Ok(())
}

pub static YOLO_BOX: Op = Op {
    name: "yolo_box",
    inputs: boxes::INS,
    outputs: boxes::OUTS,
    attrs: BoxAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_boxes,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(boxes::X)?.dtype();
        dispatch!(dtype, T in [f32, f64], run_boxes::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

fn infer_loss(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<LossAttrs>());
    check(cx, loss::X, &a.anchors, a.anchor_mask.len(), a.class_num)?;
    let (x, b, dtype) = (cx.dims(loss::X)?, cx.dims(loss::BOX)?, cx.dtype(loss::X)?);
    let all = a.anchors.len() / 2;
    ensure!(
        a.anchor_mask.iter().all(|&m| m >= 0 && (m as usize) < all),
        InvalidArgument,
        "operator {op}: anchor_mask must be numbers of {all} anchors, got {:?}",
        a.anchor_mask
    );
    if !(x[2] == x[3] || x[2] < 0 || x[3] < 0) {
        return cx.wrong(loss::X, "as high as it is wide");
    }
    cx.shaped(loss::BOX, &[x[0], -1, 4])?;
    cx.shaped(loss::LABEL, &[b[0], b[1]])?;
    if cx.has(loss::SCORE) {
        cx.shaped(loss::SCORE, &[b[0], b[1]])?;
    }
    cx.set(loss::LOSS, &[x[0]], dtype);
    cx.set(loss::OBJECT, &[x[0], a.anchor_mask.len() as i64, x[2], x[3]], dtype);
    cx.set(loss::MATCH, &[x[0], b[1]], DType::I32);
    Ok(())
}

/// A box by center and size, relative to the image.
#[derive(Clone, Copy)]
struct Centered<T> {
    x: T,
    y: T,
    w: T,
    h: T,
}

impl<T: BoxFloat> Centered<T> {
    fn iou(&self, o: &Centered<T>) -> T {
        let side = |c1: T, w1: T, c2: T, w2: T| {
            let two = T::from_f64(2.0);
            let (l1, l2, r1, r2) = (c1 - w1 / two, c2 - w2 / two, c1 + w1 / two, c2 + w2 / two);
            (if r1 < r2 { r1 } else { r2 }) - (if l1 > l2 { l1 } else { l2 })
        };
        let (w, h) = (side(self.x, self.w, o.x, o.w), side(self.y, self.h, o.y, o.h));
        let shared = if w < T::ZERO || h < T::ZERO { T::ZERO } else { w * h };
        shared / (self.w * self.h + o.w * o.h - shared)
    }
}

/// Inputs of the forward and the gradient operator.
struct Truth<'a, T> {
    a: &'a LossAttrs,
    g: Grid,
    x: &'a [T],
    boxes: &'a [T],
    labels: &'a [i32],
    scores: Option<&'a [T]>,
    /// Object rows per image, including padding.
    count: usize,
    /// Target scores of an object's class and of the others.
    targets: [T; 2],
}

/// The assignment of an object: its anchor (over all images), grid position, targets and weights.
struct Assignment<T> {
    cell: AnchorOutput,
    place: [T; 4],
    weight: T,
    score: T,
    label: i32,
}

impl<'a, T: BoxFloat> Truth<'a, T> {
    fn new(cx: &KernelContext<'a>) -> Result<Truth<'a, T>> {
        let (x, boxes, labels) = (cx.input(loss::X)?, cx.input(loss::BOX)?, cx.input(loss::LABEL)?);
        let a = cx.attrs::<LossAttrs>();
        let dims = [boxes.dims()[0], boxes.dims()[1]];
        axis::like(cx, boxes, boxes.dims(), x.dtype(), "GTBox")?;
        axis::like(cx, labels, &dims, DType::I32, "GTLabel")?;
        let scores = cx.opt(loss::SCORE);
        if let Some(t) = scores {
            axis::like(cx, t, &dims, x.dtype(), "GTScore")?;
        }
        let smooth = if a.use_label_smooth { (1.0 / f64::from(a.class_num)).min(1.0 / 40.0) } else { 0.0 };
        Ok(Truth {
            a,
            g: Grid::new(x, a.anchor_mask.len(), a.class_num),
            x: x.data::<T>(),
            boxes: boxes.data::<T>(),
            labels: labels.data::<i32>(),
            scores: scores.map(|t| t.data::<T>()),
            count: dims[1] as usize,
            targets: [T::from_f64(1.0 - smooth), T::from_f64(smooth)],
        })
    }

    fn object(&self, k: usize) -> Centered<T> {
        let b = &self.boxes[k * 4..k * 4 + 4];
        Centered { x: b[0], y: b[1], w: b[2], h: b[3] }
    }

    /// Rows without width or height are padding.
    fn is_object(&self, k: usize) -> bool {
        let b = self.object(k);
        !(b.w.to_f64() < 1e-6 || b.h.to_f64() < 1e-6)
    }

    fn input(&self) -> T {
        input_size(self.a.downsample_ratio, self.g.rows)
    }

    /// The predicted box at a grid position.
    fn predicted_box(&self, anchor: usize, place: usize) -> Centered<T> {
        let (g, a) = (self.g, self.a);
        let (scale, bias) =
            (T::from_f64(a.scale_x_y.into()), T::from_f64((-0.5 * (f64::from(a.scale_x_y) - 1.0)) as f32 as f64));
        let cell = g.anchor_output(anchor, place);
        let own = a.anchor_mask[anchor % g.anchors] as usize * 2;
        let center = |k: usize, i: usize| {
            (T::from_f64(i as f64) + self.x[cell.nth(k)].sigmoid() * scale + bias) / T::from_f64(g.rows as f64)
        };
        let side = |k: usize| self.x[cell.nth(2 + k)].exp() * T::from_f64(a.anchors[own + k].into()) / self.input();
        Centered { x: center(0, place % g.columns), y: center(1, place / g.columns), w: side(0), h: side(1) }
    }

    /// The index in anchor_mask of the anchor closest to an object, -1 if another output has it.
    fn mask_of(&self, k: usize) -> i32 {
        let shape = Centered { x: T::ZERO, y: T::ZERO, ..self.object(k) };
        let (mut best, mut highest) = (0, T::ZERO);
        for (i, sides) in self.a.anchors.chunks_exact(2).enumerate() {
            let [w, h] = [sides[0], sides[1]].map(|n| T::from_f64(n.into()) / self.input());
            let iou = Centered { x: T::ZERO, y: T::ZERO, w, h }.iou(&shape);
            if iou > highest {
                (best, highest) = (i as i32, iou);
            }
        }
        self.a.anchor_mask.iter().position(|&m| m == best).map_or(-1, |i| i as i32)
    }

    /// The assignment of an object. A center outside the grid is assigned to the nearest position.
    fn assignment(&self, k: usize, mask: usize) -> Assignment<T> {
        let (g, b) = (self.g, self.object(k));
        let spot = |c: T, n: usize| ((c * T::from_f64(n as f64)).to_f64() as usize).min(n - 1);
        let (i, j) = (spot(b.x, g.columns), spot(b.y, g.rows));
        let own = self.a.anchor_mask[mask] as usize * 2;
        let size = T::from_f64(g.rows as f64);
        let ln = |side: T, k: usize| {
            T::from_f64((side * self.input() / T::from_f64(self.a.anchors[own + k].into())).to_f64().ln())
        };
        let score = self.scores.map_or(T::ONE, |s| s[k]);
        Assignment {
            cell: g.anchor_output(k / self.count * g.anchors + mask, j * g.columns + i),
            place: [b.x * size - T::from_f64(i as f64), b.y * size - T::from_f64(j as f64), ln(b.w, 0), ln(b.h, 1)],
            weight: (T::from_f64(2.0) - b.w * b.h) * score,
            score,
            label: self.labels[k],
        }
    }

    fn target(&self, label: i32, class: usize) -> T {
        self.targets[usize::from(i64::from(label) != class as i64)]
    }
}

/// Sigmoid cross entropy of a logit.
fn entropy<T: BoxFloat>(x: T, label: T) -> T {
    let softened = (-x.to_f64().abs()).exp().ln_1p();
    T::from_f64((if x > T::ZERO { x } else { T::ZERO } - x * label).to_f64() + softened)
}

fn entropy_slope<T: BoxFloat>(x: T, label: T) -> T {
    T::from_f64(1.0 / (1.0 + (-x.to_f64()).exp()) - label.to_f64())
}

/// Weight and target of a position's objectness; `None` if a prediction overlaps an object well.
fn weight_of<T: BoxFloat>(mask: T) -> Option<(T, T)> {
    if mask.to_f64() > 1e-5 {
        Some((mask, T::ONE))
    } else {
        (mask.to_f64() > -0.5).then_some((T::ONE, T::ZERO))
    }
}

fn run_loss<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let t = Truth::<T>::new(cx)?;
    let [losses, masks, matches] = [loss::LOSS, loss::OBJECT, loss::MATCH];
    let mut mask = Tensor::zeros(T::DTYPE, cx.out(masks)?.dims())?;
    let mut matched = cx.take_out(matches)?;
    let mut sums = cx.take_out(losses)?;
    let (places, g) = (t.g.places(), t.g);
    let valid: Vec<bool> = (0..t.labels.len()).map(|k| t.is_object(k)).collect();
    let ids = matched.data_mut::<i32>()?;
    // Predictions that overlap an object well are not penalized as background.
    let objects = mask.data_mut::<T>()?;
    pool::parts(objects, 1 << 8, |at, part| {
        for (n, to) in part.iter_mut().enumerate() {
            let (anchor, place) = ((at + n) / places, (at + n) % places);
            let own = anchor / g.anchors * t.count;
            let (predicted, mut best) = (t.predicted_box(anchor, place), T::ZERO);
            for k in (own..own + t.count).filter(|&k| valid[k]) {
                let iou = predicted.iou(&t.object(k));
                best = if iou > best { iou } else { best };
            }
            if best > T::from_f64(t.a.ignore_thresh.into()) {
                *to = T::from_f64(-1.0);
            }
        }
    });
    for (image, sum) in sums.data_mut::<T>()?.iter_mut().enumerate() {
        *sum = T::ZERO;
        for k in image * t.count..(image + 1) * t.count {
            ids[k] = if valid[k] && places > 0 { t.mask_of(k) } else { -1 };
            if ids[k] < 0 {
                continue;
            }
            let assigned = t.assignment(k, ids[k] as usize);
            let x = |n: usize| t.x[assigned.cell.nth(n)];
            for n in 0..2 {
                *sum += entropy(x(n), assigned.place[n]) * assigned.weight;
            }
            for n in 2..4 {
                *sum += T::from_f64((assigned.place[n] - x(n)).to_f64().abs()) * assigned.weight;
            }
            let place = assigned.cell.at % places;
            objects[(image * g.anchors + ids[k] as usize) * places + place] = assigned.score;
            for class in 0..g.classes {
                *sum += entropy(x(5 + class), t.target(assigned.label, class)) * assigned.score;
            }
        }
        let own = image * g.anchors * places;
        for (n, &mask) in (own..).zip(&objects[own..own + g.anchors * places]) {
            if let Some((weight, there)) = weight_of(mask) {
                *sum += entropy(t.x[g.anchor_output(n / places, n % places).nth(4)], there) * weight;
            }
        }
    }
    cx.set(losses, sums);
    cx.set(masks, mask);
    cx.set(matches, matched);
    Ok(())
}

/// The gradient of the loss. As in Paddle the last object counts if several share an anchor and a position.
fn run_loss_grad<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    use loss_grad::{DLOSS, DX, MATCH, OBJECT};
    let t = Truth::<T>::new(cx)?;
    let x = cx.input(loss_grad::X)?;
    let (dloss, object, matched) = (cx.input(DLOSS)?, cx.input(OBJECT)?, cx.input(MATCH)?);
    let (d, g, places) = (x.dims(), t.g, t.g.places());
    axis::like(cx, dloss, &[d[0]], x.dtype(), "Loss@GRAD")?;
    axis::like(cx, object, &[d[0], g.anchors as i64, d[2], d[3]], x.dtype(), "ObjectnessMask")?;
    axis::like(cx, matched, &[d[0], t.count as i64], DType::I32, "GTMatchMask")?;
    let (dloss, object, matched) = (dloss.data::<T>(), object.data::<T>(), matched.data::<i32>());
    ensure!(
        matched.iter().all(|&m| m < g.anchors as i32 && (m < 0 || places > 0)),
        InvalidArgument,
        "operator yolov3_loss_grad: GTMatchMask must be below the number of anchors, {}, got {matched:?}",
        g.anchors
    );
    let mut dx = Tensor::zeros(x.dtype(), d)?;
    let to = dx.data_mut::<T>()?;
    for (k, &mask) in matched.iter().enumerate().filter(|(_, &mask)| mask >= 0) {
        let (assigned, by) = (t.assignment(k, mask as usize), dloss[k / t.count]);
        for n in 0..4 {
            let (at, want) = (assigned.cell.nth(n), assigned.place[n]);
            let slope = match (n < 2, t.x[at] > want) {
                (true, _) => entropy_slope(t.x[at], want),
                (false, above) => T::from_f64(if above { 1.0 } else { -1.0 }),
            };
            to[at] += slope * assigned.weight * by;
        }
        for class in 0..g.classes {
            let at = assigned.cell.nth(5 + class);
            to[at] += entropy_slope(t.x[at], t.target(assigned.label, class)) * assigned.score * by;
        }
    }
    for (n, &mask) in object.iter().enumerate() {
        if let Some((weight, there)) = weight_of(mask) {
            let at = g.anchor_output(n / places, n % places).nth(4);
            to[at] = entropy_slope(t.x[at], there) * weight * dloss[n / places / g.anchors];
        }
    }
    cx.set(DX, dx);
    Ok(())
}

pub static YOLOV3_LOSS: Op = Op {
    name: "yolov3_loss",
    inputs: loss::INS,
    outputs: loss::OUTS,
    attrs: LossAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_loss,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(loss::X)?.dtype();
        dispatch!(dtype, T in [f32, f64], run_loss::<T>(cx), other => cx.unsupported(other))
    }),
    // Only the network's output has a gradient.
    grad: Grad::Map(&YOLOV3_LOSS_GRAD, &[("GTBox@GRAD", ""), ("GTLabel@GRAD", ""), ("GTScore@GRAD", "")]),
    ..OP
};

pub static YOLOV3_LOSS_GRAD: Op = Op {
    name: "yolov3_loss_grad",
    inputs: loss_grad::INS,
    outputs: loss_grad::OUTS,
    attrs: LossAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| cx.like(loss_grad::DX, loss_grad::X),
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(loss_grad::X)?.dtype();
        dispatch!(dtype, T in [f32, f64], run_loss_grad::<T>(cx), other => cx.unsupported(other))
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[&YOLO_BOX, &YOLOV3_LOSS, &YOLOV3_LOSS_GRAD];
