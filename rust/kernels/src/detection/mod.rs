//! Boxes of object detection: overlap, non-maximum suppression, matching, coding, anchors.

pub mod anchors;
pub mod box_coder;
pub mod boxes;
pub mod matching;
pub mod nms;
pub mod overlaps;
pub mod polygon;
