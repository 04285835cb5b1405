//! generate_mask_labels: for each foreground proposal the object's outline within it, as a grid of 0 and 1.

use super::{corners, images, marks, outline, overlap, put, rows, sizes, Corners};
use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
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

/// Limit of mask elements.
const MOST: i64 = 1 << 31;
/// Mask value of other classes.
const IGNORED: i32 = -1;

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

type Polygon<'a> = &'a [f32];

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

/// The bounding box of polygons.
fn around(polygons: &[Polygon]) -> Corners<f32> {
    // As in Paddle: right and bottom start at the smallest positive number.
    let mut found = [f32::MAX, f32::MAX, f32::MIN_POSITIVE, f32::MIN_POSITIVE];
    for p in polygons.iter().flat_map(|p| p.chunks_exact(2)) {
        for k in 0..2 {
            found[k] = found[k].min(p[k]);
            found[k + 2] = found[k + 2].max(p[k]);
        }
    }
    found
}

struct Image<'a> {
    rois: &'a [f32],
    labels: &'a [i32],
    /// The polygons of objects that are not crowds.
    objects: Vec<&'a [Polygon<'a>]>,
    scale: f32,
}

#[derive(Default)]
struct Results {
    rois: Vec<f32>,
    has: Vec<i32>,
    mask: Vec<i32>,
    ends: Vec<usize>,
}

impl Image<'_> {
    fn run(&self, op: &str, a: &MaskAttrs, all: &mut Results) -> Result<()> {
        let side = a.resolution as usize;
        let (area, width) = (side * side, side * side * a.num_classes as usize);
        let shown: Vec<usize> = (0..self.labels.len()).filter(|&i| self.labels[i] > 0).collect();
        // Every image needs a mask: without objects, one background proposal with an ignored mask.
        let background = || self.labels.iter().position(|&l| l == 0);
        let chosen = if shown.is_empty() { background().into_iter().collect() } else { shown };
        ensure!(
            (all.mask.len() + chosen.len() * width) as i64 <= MOST,
            ResourceExhausted,
            "operator {op}: masks of {width} elements for more than {} proposals are too many",
            all.has.len()
        );
        let boxes: Vec<Corners<f32>> = self.objects.iter().map(|p| around(p)).collect();
        let rois: Vec<Corners<f32>> = corners(self.rois).map(|b| b.map(|v| v / self.scale)).collect();
        for i in chosen {
            let (roi, label) = (&rois[i], self.labels[i]);
            all.rois.extend(roi.map(|v| v * self.scale));
            all.has.push(i as i32);
            let from = all.mask.len();
            all.mask.resize(from + width, IGNORED);
            if label <= 0 {
                continue;
            }
            ensure!(
                label < a.num_classes && !boxes.is_empty(),
                InvalidArgument,
                "operator {op}: a proposal of class {label} needs num_classes above that, got {}, and an object of its image \
                 that is not a crowd, got {}",
                a.num_classes,
                boxes.len()
            );
            let (mut best, mut most) = (0, f32::MIN_POSITIVE);
            for (j, b) in boxes.iter().enumerate() {
                let value = overlap(roi, b);
                if value > most {
                    (best, most) = (j, value);
                }
            }
            let mut cells = vec![0u8; area];
            for polygon in self.objects[best] {
                outline::draw(op, &within(polygon, roi, side), side, &mut cells)?;
            }
            let to = &mut all.mask[from + label as usize * area..][..area];
            to.iter_mut().zip(&cells).for_each(|(to, &c)| *to = c as i32);
        }
        Ok(())
    }
}

/// The corners of a polygon in grid cells over the box.
fn within(polygon: Polygon, b: &Corners<f32>, side: usize) -> Vec<(f32, f32)> {
    let (width, height) = ((b[2] - b[0]).max(1.0), (b[3] - b[1]).max(1.0));
    let side = side as f32;
    polygon.chunks_exact(2).map(|p| ((p[0] - b[0]) * side / width, (p[1] - b[1]) * side / height)).collect()
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
    let mut all = Results { ends: vec![0], ..Results::default() };
    for (i, (r, b)) in rois_of.iter().zip(&boxes_of).enumerate() {
        if !r.is_empty() {
            let objects = b.clone().filter(|&j| classes[j] > 0 && crowd[j] == 0).map(|j| &polygons[j][..]);
            let image = Image {
                rois: &rois[r.start * 4..r.end * 4],
                labels: &labels[r.clone()],
                objects: objects.collect(),
                scale: info[i * 3 + 2],
            };
            image.run(op, a, &mut all)?;
        }
        all.ends.push(all.has.len());
    }
    put(cx, io::OUT, &all.rois, 4, &all.ends)?;
    put(cx, io::HAS, &all.has, 1, &all.ends)?;
    put(cx, io::MASK, &all.mask, a.num_classes as i64 * a.resolution as i64 * a.resolution as i64, &all.ends)
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
