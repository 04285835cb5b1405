//! Detection operators: boxes, anchors, non-maximum suppression, regions of interest.

pub mod anchors;
pub mod box_coder;
mod boxes;
pub mod detection_map;
mod detection_rows;
pub mod generate_proposals;
pub mod iou_similarity;
pub mod locality_aware_nms;
pub mod matching;
pub mod matrix_nms;
pub mod multiclass_nms;
pub mod polygon_box_transform;
mod real;
pub mod retinanet_detection_output;
pub mod rois;
pub mod targets;
pub mod yolo;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    rois::max::TABLE,     // roi_pool
    rois::align::TABLE,   // roi_align
    rois::psroi::TABLE,   // psroi_pool
    rois::precise::TABLE, // prroi_pool
    rois::deform::TABLE,  // deformable_psroi_pooling
    rois::quads::TABLE,   // roi_perspective_transform
    rois::fpn::TABLE,     // distribute_fpn_proposals, collect_fpn_proposals
    generate_proposals::TABLE,
    targets::rpn::TABLE,   // rpn_target_assign, retinanet_target_assign
    targets::rcnn::TABLE,  // generate_proposal_labels
    targets::masks::TABLE, // generate_mask_labels
    anchors::TABLE,        // anchor_generator, prior_box, density_prior_box
    box_coder::TABLE,      // box_coder, box_clip, box_decoder_and_assign
    iou_similarity::TABLE,
    polygon_box_transform::TABLE,
    matching::TABLE, // bipartite_match, target_assign, mine_hard_examples
    multiclass_nms::TABLE,
    matrix_nms::TABLE,
    locality_aware_nms::TABLE,
    retinanet_detection_output::TABLE,
    yolo::TABLE, // yolo_box, yolov3_loss
    detection_map::TABLE,
];
