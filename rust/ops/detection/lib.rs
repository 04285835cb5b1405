//! Operators: boxes, anchors, regions of interest.

pub mod rois;
