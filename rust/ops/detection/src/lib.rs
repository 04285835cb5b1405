//! Operators: boxes, anchors, regions of interest.

pub mod anchors;
pub mod box_coder;
mod boxes;
pub mod detection_map;
pub mod matching;
pub mod multiclass_nms;
pub mod other_nms;
pub mod proposals;
mod real;
pub mod rois;
pub mod similarity;
mod suppress;
pub mod targets;
pub mod yolo;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    rois::max::TABLE,      // regions of interest: their maxima,
    rois::align::TABLE,    // bilinear samples,
    rois::psroi::TABLE,    // averages, every bin of its own plane,
    rois::precise::TABLE,  // integrals,
    rois::deform::TABLE,   // samples of displaced bins,
    rois::quads::TABLE,    // quadrangles as rectangles
    rois::fpn::TABLE,      // levels of a feature pyramid
    proposals::TABLE,      // generate_proposals
    targets::rpn::TABLE,   // what anchors aim at,
    targets::rcnn::TABLE,  // proposals,
    targets::masks::TABLE, // masks
    anchors::TABLE,        // anchor_generator, prior_box, density_prior_box
    box_coder::TABLE,      // box_coder, box_clip, box_decoder_and_assign
    similarity::TABLE,     // iou_similarity, polygon_box_transform
    matching::TABLE,       // bipartite_match, target_assign, mine_hard_examples
    multiclass_nms::TABLE,
    other_nms::TABLE, // matrix_nms, locality_aware_nms, retinanet_detection_output
    yolo::TABLE,      // yolo_box, yolov3_loss
    detection_map::TABLE,
];
