//! Shared by training target operators: matching of anchors and proposals with ground truth boxes, and sampling.

pub mod masks;
mod outline;
pub mod rcnn;
pub mod rpn;

use crate::boxes::{least, most, BoxFloat};
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext, OutSlot};
use oar_core::tensor::{generator, Tensor};
use oar_ops_common::levels;
use std::ops::Range;

/// The rows of each image, from the only LoD level.
fn images(cx: &KernelContext, slot: InSlot, count: Option<usize>) -> Result<Vec<Range<usize>>> {
    let (op, name, t) = (cx.op.name, cx.op.inputs[slot.0].name, cx.input(slot)?);
    let level = levels::only(op, name, t)?;
    let found: Vec<_> = level.windows(2).map(|w| w[0]..w[1]).collect();
    ensure!(
        count.is_none_or(|n| n == found.len()),
        InvalidArgument,
        "operator {op}: '{name}' has rows of {} images, other inputs of {}",
        found.len(),
        count.unwrap_or(0)
    );
    Ok(found)
}

/// The elements of an input of data type `T` with rows of `width` elements.
fn rows<'a, T: Element>(cx: &KernelContext<'a>, slot: InSlot, width: usize) -> Result<&'a [T]> {
    let (t, name) = (cx.input(slot)?, cx.op.inputs[slot.0].name);
    let rows = t.dims().first().map_or(0, |&d| d as usize);
    ensure!(
        t.dtype() == T::DTYPE && t.numel() == rows * width,
        InvalidArgument,
        "operator {}: input '{name}' must be {} with {width} elements in each row, got {t:?}",
        cx.op.name,
        T::DTYPE
    );
    Ok(t.data::<T>())
}

/// One integer per row of the boxes.
fn marks<'a>(cx: &KernelContext<'a>, slot: InSlot, boxes: &[Range<usize>]) -> Result<&'a [i32]> {
    let found = images(cx, slot, Some(boxes.len()))?;
    ensure!(
        found == boxes,
        InvalidArgument,
        "operator {}: input '{}' must have one row for each true box of an image, got the LoD {:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name,
        cx.input(slot)?.lod
    );
    rows::<i32>(cx, slot, 1)
}

/// ImInfo: height, width and scale per image.
fn sizes<'a, T: Element>(cx: &KernelContext<'a>, slot: InSlot, images: usize) -> Result<&'a [T]> {
    let info = rows::<T>(cx, slot, 3)?;
    ensure!(
        info.len() >= images * 3,
        InvalidArgument,
        "operator {}: ImInfo must have a row for each of the {images} images, got {} rows",
        cx.op.name,
        info.len() / 3
    );
    Ok(info)
}

// Boxes: left, top, right, bottom pixel, inclusive.

type Corners<R> = [R; 4];

fn corners<R: BoxFloat>(boxes: &[R]) -> impl Iterator<Item = Corners<R>> + '_ {
    boxes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]])
}

/// Intersection over union.
fn overlap<R: BoxFloat>(a: &Corners<R>, b: &Corners<R>) -> R {
    let area = |b: &Corners<R>| (b[2] - b[0] + R::ONE) * (b[3] - b[1] + R::ONE);
    let side = |k: usize| most(least(a[k + 2], b[k + 2]) - most(a[k], b[k]) + R::ONE, R::ZERO);
    let shared = side(0) * side(1);
    if shared == R::ZERO {
        return R::ZERO;
    }
    shared / (area(a) + area(b) - shared)
}

/// The deltas from a box to the ground truth box: center offset relative to the sides, logarithm of the sides' ratio.
fn delta<R: BoxFloat>(from: &Corners<R>, to: &Corners<R>, weights: Option<&[f32]>) -> [R; 4] {
    let half = R::from_f64(0.5);
    let side = |b: &Corners<R>, k: usize| b[k + 2] - b[k] + R::ONE;
    let center = |b: &Corners<R>, k: usize| b[k] + half * side(b, k);
    let moved = |k: usize| (center(to, k) - center(from, k)) / side(from, k);
    let grown = |k: usize| R::from_f64((side(to, k) / side(from, k)).to_f64().ln());
    let mut found = [moved(0), moved(1), grown(0), grown(1)];
    if let Some(weights) = weights {
        found.iter_mut().zip(weights).for_each(|(d, &w)| *d = *d / R::from_f64(w as f64));
    }
    found
}

/// Random numbers that a seed reproduces: each call starts from one number of the global generator.
pub struct Draws(Option<u64>);

impl Draws {
    const MODULUS: u64 = (1 << 31) - 1;

    /// Without `random` the first items are selected.
    pub fn new(random: bool) -> Draws {
        Draws(random.then(|| generator::next_u64() % (Self::MODULUS - 1) + 1))
    }

    /// A number in [0, 1) from `std::minstd_rand`.
    fn next(state: &mut u64) -> f64 {
        *state = *state * 48271 % Self::MODULUS;
        (*state - 1) as f64 / (Self::MODULUS - 1) as f64
    }

    /// Keeps `count` items (reservoir sampling); a negative count keeps all. Each call restarts from the seed.
    pub fn keep<T>(&self, items: &mut Vec<T>, count: i64) {
        let Ok(count) = usize::try_from(count) else { return };
        if items.len() <= count {
            return;
        }
        if let Some(mut state) = self.0 {
            for i in count..items.len() {
                let place = (Self::next(&mut state) * i as f64) as usize;
                if place < count {
                    items.swap(place, i);
                }
            }
        }
        items.truncate(count);
    }
}

/// Sets an output of rows of `width` elements (0: one dimension) with a LoD of these ends.
fn put<T: Element>(cx: &mut KernelContext, slot: OutSlot, data: &[T], width: i64, ends: &[usize]) -> Result<()> {
    if cx.wants(slot) {
        let rows = data.len() as i64 / width.max(1);
        let dims = [rows, width];
        let t = Tensor::from_slice(data, if width == 0 { &dims[..1] } else { &dims[..] })?;
        cx.set(slot, t.with_lod(levels::one(ends.to_vec())));
    }
    Ok(())
}
