//! The output of a YOLOv3 network, [images, anchors * (5 + classes), rows, columns]: x, y, width, height, objectness
//! and class scores of each anchor.

mod boxes;
mod loss;

pub use boxes::{boxes, YoloBoxes};
pub use loss::YoloLoss;

use crate::types::Float;

/// The numbers of one anchor at one grid position.
struct AnchorOutput {
    /// Offset of the first number, and the stride.
    at: usize,
    step: usize,
}

/// The grid of a network's output.
#[derive(Clone, Copy)]
pub struct YoloGrid {
    pub anchors: usize,
    pub classes: usize,
    pub rows: usize,
    pub columns: usize,
}

impl YoloGrid {
    pub fn places(&self) -> usize {
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

/// Side length of the network's input.
fn input_size<T: Float>(ratio: i32, size: usize) -> T {
    T::from_f64(f64::from(ratio) * size as f64)
}

/// Factor and bias of the centers' sigmoid.
fn center_scale<T: Float>(scale: f32) -> (T, T) {
    (T::from_f64(scale.into()), T::from_f64((-0.5 * (f64::from(scale) - 1.0)) as f32 as f64))
}
