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
use oar_kernels::detection::yolo::{self, YoloBoxes, YoloGrid, YoloLoss};
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

fn grid(x: &Tensor, anchors: usize, classes: i32) -> YoloGrid {
    let d = x.dims();
    YoloGrid { anchors, classes: classes as usize, rows: d[2] as usize, columns: d[3] as usize }
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

fn run_boxes<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let (t, a) = (cx.input(boxes::X)?, cx.attrs::<BoxAttrs>());
    let size = cx.input(boxes::SIZE)?;
    axis::like(cx, size, size.dims(), DType::I32, "ImgSize")?;
    let (x, size) = (t.data::<T>(), size.data::<i32>());
    let g = grid(t, a.anchors.len() / 2, a.class_num);
    let mut found = Tensor::zeros(T::DTYPE, cx.out(boxes::BOXES)?.dims())?;
    let mut scores = Tensor::zeros(T::DTYPE, cx.out(boxes::SCORES)?.dims())?;
    let rule = YoloBoxes {
        anchors: &a.anchors,
        ratio: a.downsample_ratio,
        threshold: a.conf_thresh,
        clip: a.clip_bbox,
        scale: a.scale_x_y,
    };
    yolo::boxes(x, size, g, &rule, found.data_mut::<T>()?, scores.data_mut::<T>()?);
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

/// The checked inputs of the loss and its gradient.
fn truth<'a, T: BoxFloat>(cx: &KernelContext<'a>) -> Result<YoloLoss<'a, T>> {
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
    Ok(YoloLoss {
        g: grid(x, a.anchor_mask.len(), a.class_num),
        anchors: &a.anchors,
        mask: &a.anchor_mask,
        ratio: a.downsample_ratio,
        ignore: a.ignore_thresh,
        scale: a.scale_x_y,
        x: x.data::<T>(),
        boxes: boxes.data::<T>(),
        labels: labels.data::<i32>(),
        scores: scores.map(|t| t.data::<T>()),
        count: dims[1] as usize,
        targets: [T::from_f64(1.0 - smooth), T::from_f64(smooth)],
    })
}

fn run_loss<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    let t = truth::<T>(cx)?;
    let [losses, masks, matches] = [loss::LOSS, loss::OBJECT, loss::MATCH];
    let mut mask = Tensor::zeros(T::DTYPE, cx.out(masks)?.dims())?;
    let mut matched = cx.take_out(matches)?;
    let mut sums = cx.take_out(losses)?;
    t.forward(sums.data_mut::<T>()?, mask.data_mut::<T>()?, matched.data_mut::<i32>()?);
    cx.set(losses, sums);
    cx.set(masks, mask);
    cx.set(matches, matched);
    Ok(())
}

fn run_loss_grad<T: BoxFloat>(cx: &mut KernelContext) -> Result<()> {
    use loss_grad::{DLOSS, DX, MATCH, OBJECT};
    let t = truth::<T>(cx)?;
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
    t.backward(dloss, object, matched, dx.data_mut::<T>()?);
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
