//! multiclass_nms, multiclass_nms2 and multiclass_nms3: non-maximum suppression per class.

use super::boxes::{set_rows, BoxFloat};
use super::detection_rows::{infer_images, row, DetectionRows};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::detection::nms::{best_by_class, ranked, suppress, Found};
use oar_kernels::pool;
use oar_ops_common::{axis, levels};
use std::ops::Range;

attrs! {
    pub struct NmsAttrs {
        background_label: i32 = 0, score_threshold: f32, nms_top_k: i32, nms_threshold: f32 = 0.3,
        nms_eta: f32 = 1.0, keep_top_k: i32, normalized: bool = true,
    }
}

slots! {
    /// BBoxes [images, count, 4 (or polygon corners)] and Scores [images, classes, count]; or for all images BBoxes
    /// [count, classes, 4] with LoD and Scores [count, classes].
    mod nms { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated() }
    mod nms2 { BOXES "BBoxes", SCORES "Scores" => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated().intermediate() }
    mod nms3 {
        BOXES "BBoxes", SCORES "Scores", COUNTS "RoisNum".dispensable()
        => OUT "Out".kernel_allocated(), INDEX "Index".kernel_allocated().intermediate(), KEPT "NmsRoisNum".kernel_allocated().dispensable()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let dtype = cx.dtype(nms::SCORES)?;
    let size = if cx.dims(nms::SCORES)?.len() == 2 {
        let s = cx.dims(nms::SCORES)?;
        cx.shaped_in_run(nms::BOXES, &[s[0], s[1], 4])?;
        4
    } else {
        infer_images(cx, nms::BOXES, nms::SCORES, &[4, 8, 16, 24, 32])?
    };
    let level = cx.meta(nms::BOXES, 0)?.lod_level.max(1);
    set_rows(cx, nms::OUT, row(size), dtype, level);
    Ok(())
}

fn infer2(cx: &mut ShapeContext) -> Result<()> {
    infer(cx)?;
    let level = cx.meta(nms2::BOXES, 0)?.lod_level.max(1);
    set_rows(cx, nms2::INDEX, 1, DType::I32, level);
    Ok(())
}

fn infer3(cx: &mut ShapeContext) -> Result<()> {
    infer2(cx)?;
    cx.set(nms3::KEPT, &[-1], DType::I32);
    Ok(())
}

/// Boxes and scores of all images.
struct Boxes<'a, T> {
    boxes: &'a [T],
    scores: &'a [T],
    /// Numbers per box.
    size: usize,
    classes: usize,
    /// Boxes per image; `None` if each class has its own boxes, and images are given by LoD.
    per_image: Option<usize>,
}

impl<T: BoxFloat> Boxes<'_, T> {
    fn score(&self, row: usize, class: usize) -> T {
        self.scores[match self.per_image {
            Some(n) => (row / n * self.classes + class) * n + row % n,
            None => row * self.classes + class,
        }]
    }

    /// The index of a box among all.
    fn number(&self, row: usize, class: usize) -> usize {
        if self.per_image.is_some() {
            row
        } else {
            row * self.classes + class
        }
    }

    fn at(&self, row: usize, class: usize) -> &[T] {
        &self.boxes[self.number(row, class) * self.size..][..self.size]
    }

    /// The selected rows of one class of an image.
    fn of_class(&self, image: Range<usize>, class: usize, a: &NmsAttrs) -> Vec<usize> {
        let of = |v: f32| T::from_f64(v.into());
        let (threshold, top) = (of(a.score_threshold), a.nms_top_k);
        let candidates = match self.per_image {
            // The boxes are contiguous.
            Some(n) => {
                let first = (image.start / n.max(1) * self.classes + class) * n;
                ranked(image.zip(self.scores[first..first + n].iter().copied()), threshold, top)
            }
            None => ranked(image.map(|row| (row, self.score(row, class))), threshold, top),
        };
        let bounds = (of(a.nms_threshold), of(a.nms_eta));
        let mut selected = suppress(candidates, bounds, a.normalized, |i| self.at(i, class));
        if self.per_image.is_none() {
            selected.sort_unstable();
        }
        selected
    }
}

/// Row offsets of the images, from LoD or RoisNum.
fn images(cx: &KernelContext, boxes: &Tensor) -> Result<Vec<usize>> {
    let op = cx.op.name;
    let counts = match cx.op.input("RoisNum") {
        Some(_) => cx.opt(nms3::COUNTS),
        None => None,
    };
    let Some(t) = counts else { return Ok(levels::last(op, "BBoxes", boxes)?.to_vec()) };
    axis::like(cx, t, t.dims(), DType::I32, "RoisNum")?;
    let (counts, rows) = (t.data::<i32>(), boxes.dims()[0] as usize);
    let sum: i64 = counts.iter().map(|&n| i64::from(n)).sum();
    ensure!(
        counts.iter().all(|&n| n >= 0) && sum == rows as i64,
        InvalidArgument,
        "operator {op}: RoisNum must hold the numbers of boxes of the images, {rows} in total, got {:?}",
        &counts[..counts.len().min(16)]
    );
    Ok(levels::offsets(counts.iter().map(|&n| n as usize)))
}

fn rows<T: BoxFloat>(cx: &KernelContext) -> Result<DetectionRows<T>> {
    let (scores, a) = (cx.input(nms::SCORES)?, cx.attrs::<NmsAttrs>());
    let boxes = cx.input(nms::BOXES)?;
    axis::like(cx, boxes, boxes.dims(), scores.dtype(), "BBoxes")?;
    let by_image = scores.rank() == 3;
    let (n, classes) = (boxes.dims()[1] as usize, scores.dims()[1] as usize);
    let level = match by_image {
        true => levels::offsets((0..scores.dims()[0]).map(|_| n)),
        false => images(cx, boxes)?,
    };
    let all = Boxes {
        boxes: boxes.data::<T>(),
        scores: scores.data::<T>(),
        size: boxes.dims()[2] as usize,
        classes,
        per_image: by_image.then_some(n),
    };
    let mut selected: Vec<Vec<usize>> = vec![Vec::new(); (level.len() - 1) * classes];
    pool::parts(&mut selected, 1, |at, part| {
        for (k, to) in part.iter_mut().enumerate() {
            let (image, class) = ((at + k) / classes, (at + k) % classes);
            if class as i64 != i64::from(a.background_label) {
                *to = all.of_class(level[image]..level[image + 1], class, a);
            }
        }
    });
    let mut rows = DetectionRows::new(all.size);
    for image in 0..level.len() - 1 {
        let of_image = selected[image * classes..(image + 1) * classes].iter().enumerate();
        let mut found: Vec<Found<T>> = of_image
            .flat_map(|(class, selected)| selected.iter().map(move |&at| (class, at)))
            .map(|(class, at)| Found { class, at, score: all.score(at, class) })
            .collect();
        best_by_class(&mut found, a.keep_top_k);
        if !by_image {
            found.sort_by_key(|f| (f.class, f.at));
        }
        for f in found {
            rows.push(f.class, f.score, all.at(f.at, f.class), all.number(f.at, f.class));
        }
        rows.end_image();
    }
    Ok(rows)
}

pub static MULTICLASS_NMS: Op = Op {
    name: "multiclass_nms",
    inputs: nms::INS,
    outputs: nms::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(nms::SCORES)?.dtype();
        let out =
            dispatch!(dtype, T in [f32, f64], rows::<T>(cx)?.boxes_or_mark()?, other => return cx.unsupported(other));
        cx.set(nms::OUT, out);
        Ok(())
    }),
    ..OP
};

fn with_index(cx: &mut KernelContext) -> Result<()> {
    let dtype = cx.input(nms::SCORES)?.dtype();
    dispatch!(dtype, T in [f32, f64], {
        let rows = rows::<T>(cx)?;
        cx.set(nms2::INDEX, rows.places()?);
        if cx.op.output("NmsRoisNum").is_some() {
            cx.set(nms3::KEPT, rows.counts()?);
        }
        cx.set(nms2::OUT, rows.boxes()?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static MULTICLASS_NMS2: Op = Op {
    name: "multiclass_nms2",
    inputs: nms2::INS,
    outputs: nms2::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer2,
    cpu: Kernel::Pure(with_index),
    ..OP
};

pub static MULTICLASS_NMS3: Op = Op {
    name: "multiclass_nms3",
    inputs: nms3::INS,
    outputs: nms3::OUTS,
    attrs: NmsAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer3,
    cpu: Kernel::Pure(with_index),
    ..OP
};

pub static TABLE: &[&Op] = &[&MULTICLASS_NMS, &MULTICLASS_NMS2, &MULTICLASS_NMS3];
