//! Boxes of object detection.

pub mod overlaps;
