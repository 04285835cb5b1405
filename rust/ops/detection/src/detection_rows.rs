//! Rows of detected boxes as output tensors.

use super::boxes::BoxFloat;
use oar_core::base::Result;
use oar_core::ensure;
use oar_core::op::{InSlot, KernelContext, ShapeContext};
use oar_core::tensor::Tensor;
use oar_kernels::detection::detection_rows::DetectionRows;
use oar_ops_common::{axis, levels};

/// The outputs of selected boxes.
pub trait DetectionOutputs<T> {
    /// The number of boxes per image.
    fn counts(&self) -> Result<Tensor>;
    /// The indices of the boxes among all inputs.
    fn places(&self) -> Result<Tensor>;
    /// The rows [class, score, box].
    fn boxes(self) -> Result<Tensor>;
    /// As `boxes`; without boxes, one row of one -1, as in 1.x.
    fn boxes_or_mark(self) -> Result<Tensor>;
}

impl<T: BoxFloat> DetectionOutputs<T> for DetectionRows<T> {
    fn counts(&self) -> Result<Tensor> {
        let counts: Vec<i32> = levels::lengths(&self.level).map(|n| n as i32).collect();
        Tensor::from_slice(&counts, &[counts.len() as i64])
    }

    fn places(&self) -> Result<Tensor> {
        let t = Tensor::from_slice(&self.index, &[self.index.len() as i64, 1])?;
        Ok(t.with_lod(levels::one(self.level.clone())))
    }

    fn boxes(self) -> Result<Tensor> {
        let t = Tensor::from_slice(&self.data, &[self.index.len() as i64, self.width as i64])?;
        Ok(t.with_lod(levels::one(self.level)))
    }

    fn boxes_or_mark(self) -> Result<Tensor> {
        if !self.index.is_empty() {
            return self.boxes();
        }
        Ok(Tensor::from_slice(&[T::from_f64(-1.0)], &[1, 1])?.with_lod(levels::one(vec![0, 1])))
    }
}

/// Checks boxes [images, count, numbers] and scores [images, classes, count]; returns the numbers per box.
pub fn infer_images(cx: &ShapeContext, boxes: InSlot, scores: InSlot, sizes: &[i64]) -> Result<i64> {
    let size = cx.dims(boxes)?.get(2).copied().unwrap_or(-1);
    cx.shaped_in_run(boxes, &[-1, -1, -1])?;
    if let Some(t) = cx.tensor(boxes) {
        cx.shaped_in_run(scores, &[t.dims()[0], -1, t.dims()[1]])?;
        ensure!(
            sizes.contains(&size),
            InvalidArgument,
            "operator {}: the last dimension of BBoxes must be one of {sizes:?}, got shape {:?}",
            cx.op.name,
            t.dims()
        );
    }
    Ok(size)
}

/// Output row width for boxes of `size` numbers.
pub fn row(size: i64) -> i64 {
    if size < 0 {
        -1
    } else {
        size + 2
    }
}

/// Images, classes and boxes per image; boxes and scores must have one data type.
pub(crate) fn sizes(cx: &KernelContext, boxes: InSlot, scores: InSlot) -> Result<(usize, usize, usize)> {
    let (b, s) = (cx.input(boxes)?, cx.input(scores)?);
    axis::like(cx, b, b.dims(), s.dtype(), "BBoxes")?;
    Ok((s.dims()[0] as usize, s.dims()[1] as usize, s.dims()[2] as usize))
}
