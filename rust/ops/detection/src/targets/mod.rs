//! Shared by training target operators: rows of images, checks of inputs, seeds, outputs with LoD.

pub mod masks;
pub mod rcnn;
pub mod rpn;

use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext, OutSlot};
use oar_core::tensor::{generator, Tensor};
use oar_kernels::detection::targets::Draws;
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

/// Random numbers that start from one number of the global generator; without `random` the first items are selected.
fn draws(random: bool) -> Draws {
    Draws::new(random.then(generator::next_u64))
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
