//! Boxes of object detection: overlap, non-maximum suppression, matching, coding, anchors, regions of interest,
//! training targets.

pub mod anchors;
pub mod average_precision;
pub mod box_coder;
pub mod boxes;
pub mod detection_rows;
pub mod matching;
pub mod nms;
pub mod overlaps;
pub mod polygon;
pub mod proposals;
pub mod rois;
pub mod targets;
pub mod yolo;
