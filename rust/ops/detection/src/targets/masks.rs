//! generate_mask_labels: for each foreground proposal the object's outline within it, as a grid of 0 and 1.

use super::{images, marks, put, rows, sizes};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Error, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, err, slots};
use oar_kernels::detection::targets::masks::{MaskError, MaskResults, MaskTargets, Polygon, MOST};
use std::ops::Range;

attrs! {
    pub struct MaskAttrs { num_classes: i32, resolution: i32 }
}

slots! {
    mod io {
        INFO "ImInfo", CLASSES "GtClasses", CROWD "IsCrowd", SEGMENTS "GtSegms", ROIS "Rois", LABELS "LabelsInt32"
        => OUT "MaskRois".kernel_allocated(), HAS "RoiHasMaskInt32".kernel_allocated(), MASK "MaskInt32".kernel_allocated()
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<MaskAttrs>());
    for (slot, width) in [(io::INFO, 3), (io::SEGMENTS, 2), (io::ROIS, 4)] {
        let dims = cx.dims(slot)?;
        if dims.len() != 2 || (dims[1] != width && dims[1] >= 0) {
            return cx.wrong(slot, &format!("of two dimensions, [rows, {width}]"));
        }
    }
    for (name, value) in [("num_classes", a.num_classes), ("resolution", a.resolution)] {
        ensure!(value > 0, InvalidArgument, "operator {op}: attribute '{name}' must be above 0, got {value}");
    }
    let (side, dtype) = (a.resolution as i64, cx.dtype(io::ROIS)?);
    let width = (side * side).checked_mul(a.num_classes as i64).filter(|&n| n <= MOST);
    ensure!(
        width.is_some(),
        ResourceExhausted,
        "operator {op}: masks of {} classes with {side} x {side} elements are too large",
        a.num_classes
    );
    cx.set(io::OUT, &[-1, 4], dtype);
    cx.set(io::HAS, &[-1, 1], DType::I32);
    cx.set(io::MASK, &[-1, width.unwrap_or(-1)], DType::I32);
    for slot in [io::OUT, io::HAS, io::MASK] {
        cx.set_levels(slot, 1);
    }
    Ok(())
}

/// The polygons of each ground truth box.
fn polygons<'a>(op: &str, t: &'a Tensor, images: usize, boxes: usize) -> Result<Vec<Vec<Polygon<'a>>>> {
    let lod = t.lod.as_deref().map_or(&[][..], |l| &l[..]);
    ensure!(
        lod.len() == 3,
        InvalidArgument,
        "operator {op}: input 'GtSegms' must have LoD of 3 levels (images, objects, polygons), got {}",
        lod.len()
    );
    let counts = [images, boxes, lod[2].len().saturating_sub(1), t.dims()[0] as usize];
    let fits = |k: usize| {
        let l = &lod[k];
        l.first() == Some(&0) && l.is_sorted() && l.last() == Some(&counts[k + 1])
    };
    ensure!(
        lod[0].len() == images + 1 && lod[1].len() == boxes + 1 && (0..3).all(fits),
        InvalidArgument,
        "operator {op}: the LoD of 'GtSegms' must divide {} points into polygons of {boxes} objects in {images} images, got \
         {lod:?}",
        counts[3]
    );
    let (points, ends) = (t.data::<f32>(), &lod[2]);
    ensure!(
        ends.windows(2).all(|w| w[0] < w[1]),
        InvalidArgument,
        "operator {op}: every polygon of 'GtSegms' must have points, got {ends:?}"
    );
    let polygon = |p: usize| &points[ends[p] * 2..ends[p + 1] * 2];
    Ok(lod[1].windows(2).map(|w| (w[0]..w[1]).map(polygon).collect()).collect())
}

fn refused(op: &str, a: &MaskAttrs, all: &MaskResults, e: MaskError) -> Error {
    match e {
        MaskError::TooMany => err!(
            ResourceExhausted,
            "operator {op}: masks of {} elements for more than {} proposals are too many",
            a.resolution as usize * a.resolution as usize * a.num_classes as usize,
            all.has.len()
        ),
        MaskError::Class { label, objects } => err!(
            InvalidArgument,
            "operator {op}: a proposal of class {label} needs num_classes above that, got {}, and an object of its image \
             that is not a crowd, got {objects}",
            a.num_classes
        ),
        MaskError::Outline(points) => err!(
            ResourceExhausted,
            "operator {op}: a polygon is too large for its box: its outline has {points} points"
        ),
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<MaskAttrs>());
    let boxes_of: Vec<Range<usize>> = images(cx, io::CLASSES, None)?;
    let (classes, crowd) = (rows::<i32>(cx, io::CLASSES, 1)?, marks(cx, io::CROWD, &boxes_of)?);
    let rois_of = images(cx, io::ROIS, Some(boxes_of.len()))?;
    let (rois, labels) = (rows::<f32>(cx, io::ROIS, 4)?, marks(cx, io::LABELS, &rois_of)?);
    rows::<f32>(cx, io::SEGMENTS, 2)?;
    let polygons = polygons(op, cx.input(io::SEGMENTS)?, boxes_of.len(), classes.len())?;
    let info = sizes::<f32>(cx, io::INFO, boxes_of.len())?;
    let (mut all, mut ends) = (MaskResults::default(), vec![0]);
    for (i, (r, b)) in rois_of.iter().zip(&boxes_of).enumerate() {
        if !r.is_empty() {
            let objects = b.clone().filter(|&j| classes[j] > 0 && crowd[j] == 0).map(|j| &polygons[j][..]);
            let image = MaskTargets {
                rois: &rois[r.start * 4..r.end * 4],
                labels: &labels[r.clone()],
                objects: objects.collect(),
                scale: info[i * 3 + 2],
            };
            image.run(a.resolution as usize, a.num_classes, &mut all).map_err(|e| refused(op, a, &all, e))?;
        }
        ends.push(all.has.len());
    }
    put(cx, io::OUT, &all.rois, 4, &ends)?;
    put(cx, io::HAS, &all.has, 1, &ends)?;
    put(cx, io::MASK, &all.mask, a.num_classes as i64 * a.resolution as i64 * a.resolution as i64, &ends)
}

pub static GENERATE_MASK_LABELS: Op = Op {
    name: "generate_mask_labels",
    inputs: io::INS,
    outputs: io::OUTS,
    attrs: MaskAttrs::FIELDS,
    // The first input is ImInfo, which has the data type of the boxes.
    dtypes: DTypes::of(&[DType::F32]),
    infer,
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&GENERATE_MASK_LABELS];
