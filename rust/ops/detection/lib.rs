//! Operators: boxes, anchors, regions of interest.

pub mod anchors;
pub mod box_coder;
mod boxes;
pub mod detection_map;
pub mod matching;
pub mod multiclass_nms;
pub mod other_nms;
mod polygon;
pub mod proposals;
mod real;
pub mod rois;
pub mod similarity;
mod suppress;
pub mod targets;
pub mod yolo;
