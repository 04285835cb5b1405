//! Boxes.

pub mod overlaps;
