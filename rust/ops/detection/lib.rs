//! Operators: boxes, anchors, regions of interest.
