//! Shared by RoI pooling operators: the images of RoIs, shape rule, checks.

pub mod align;
pub mod deform;
pub mod fpn;
pub mod max;
pub mod precise;
pub mod psroi;
pub mod quads;

use oar_core::base::{DType, Dims, ErrorKind, Result};
use oar_core::op::{InSlot, KernelContext, ShapeContext};
use oar_core::tensor::Tensor;
use oar_core::{ensure, err};
use oar_kernels::detection::rois::Pooling;
use oar_ops_common::index::index_of;
use std::ops::Range;

/// Limit of output elements, and of bins or samples along one side of a RoI.
const MOST: i64 = 1 << 31;
pub const MOST_BINS: i64 = 1 << 24;

/// Checks X, ROIs (`sides` numbers each) and the output sizes; returns the output shape.
pub fn shape(
    cx: &ShapeContext,
    (x, rois, count): (InSlot, InSlot, Option<InSlot>),
    sides: i64,
    channels: Option<i64>,
    (height, width, scale): (i32, i32, f32),
    kind: ErrorKind,
) -> Result<Dims> {
    let (op, x_name) = (cx.op.name, cx.op.inputs[x.0].name);
    let (x, rois) = (cx.dims(x)?, cx.dims(rois)?);
    ensure!(
        x.len() == 4,
        InvalidArgument,
        "operator {op}: input '{x_name}' must have 4 dimensions, [N, C, H, W], got shape {:?}",
        &x[..]
    );
    ensure!(
        rois.len() == 2 && (rois[1] == sides || rois[1] < 0),
        InvalidArgument,
        "operator {op}: input 'ROIs' must have shape [number of RoIs, {sides}], got {:?}",
        &rois[..]
    );
    if let Some(count) = count.filter(|&c| cx.has(c)) {
        let (name, count) = (cx.op.inputs[count.0].name, cx.dims(count)?);
        ensure!(
            count.len() == 1,
            InvalidArgument,
            "operator {op}: input '{name}' must have one dimension, got shape {:?}",
            &count[..]
        );
    }
    for (what, size) in [("height", height as f64), ("width", width as f64), ("spatial scale", scale as f64)] {
        if size.is_nan() || size <= 0.0 {
            return Err(oar_core::base::Error::new(
                kind,
                format!("operator {op}: the {what} of the attributes must be greater than 0, got {size}"),
            ));
        }
    }
    let out = Dims::from_slice(&[rois[0], channels.unwrap_or(x[1]), height as i64, width as i64]);
    let bins = height as i64 * width as i64;
    let all = out[..2].iter().try_fold(bins, |n, &d| n.checked_mul(d.max(1)));
    ensure!(
        bins <= MOST_BINS && all.is_some_and(|n| n <= MOST),
        ResourceExhausted,
        "operator {op}: a result of shape {:?} is too large",
        &out[..]
    );
    Ok(out)
}

/// Fails unless ROIs and other coordinates have the data type of the maps.
pub fn same_type(cx: &KernelContext, dtype: DType, slots: &[InSlot]) -> Result<()> {
    for &slot in slots {
        let t = cx.input(slot)?;
        ensure!(
            t.dtype() == dtype,
            InvalidArgument,
            "operator {}: input '{}' must be {dtype} as the maps are, got {}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            t.dtype()
        );
    }
    Ok(())
}

/// The incoming gradient, which must have this shape.
pub fn grad_of<'a>(cx: &KernelContext<'a>, slot: InSlot, dims: &[i64], dtype: DType) -> Result<&'a Tensor> {
    let d = cx.input(slot)?;
    ensure!(
        d.dims() == dims && d.dtype() == dtype,
        InvalidArgument,
        "operator {}: input '{}' must be {dtype} of shape {dims:?}, got {d:?}",
        cx.op.name,
        cx.op.inputs[slot.0].name
    );
    Ok(d)
}

/// The rows of each image: from a tensor of counts, else from the last LoD level.
pub fn spans(op: &str, name: &str, t: &Tensor, counts: Option<&Tensor>) -> Result<Vec<Range<usize>>> {
    let rows = t.dims().first().map_or(0, |&d| d as usize);
    let mut ends = vec![0usize];
    match counts {
        Some(counts) => {
            let mut at = 0usize;
            for &n in index_of(op, counts)?.iter() {
                at = usize::try_from(n).ok().and_then(|n| at.checked_add(n)).ok_or_else(|| {
                    err!(InvalidArgument, "operator {op}: a number of RoIs must not be negative, got {n}")
                })?;
                ends.push(at);
            }
        }
        None => {
            let level = t.lod.as_ref().and_then(|l| l.last());
            let level = level.ok_or_else(|| {
                err!(InvalidArgument, "operator {op}: input '{name}' must have LoD, which maps rows to images")
            })?;
            ends.clone_from(level);
        }
    }
    ensure!(
        ends.first() == Some(&0) && ends.is_sorted() && ends.last() == Some(&rows),
        InvalidArgument,
        "operator {op}: the offsets {ends:?} must divide the {rows} rows of '{name}' into images"
    );
    Ok(ends.windows(2).map(|w| w[0]..w[1]).collect())
}

/// The pooling of each channel by itself, with the same bins for all; the RoIs of each image are checked.
pub fn pooling(
    cx: &KernelContext,
    (x, rois, counts): (InSlot, InSlot, Option<InSlot>),
    (rows, cols): (i32, i32),
) -> Result<Pooling> {
    let (op, x) = (cx.op, cx.input(x)?);
    same_type(cx, x.dtype(), &[rois])?;
    let (name, d) = (op.inputs[rois.0].name, x.dims());
    let images = spans(op.name, name, cx.input(rois)?, counts.and_then(|c| cx.opt(c)))?;
    ensure!(
        images.len() as i64 == d[0],
        InvalidArgument,
        "operator {}: '{name}' are of {} images, but the batch has {}",
        op.name,
        images.len(),
        d[0]
    );
    Ok(Pooling::new(images, d[1] as usize, (d[2] as usize, d[3] as usize), rows as usize * cols as usize))
}
