//! Loss and metric operators.

pub mod accuracy;
pub mod auc;
pub mod bce_loss;
pub mod bpr_loss;
pub mod center_loss;
pub mod cross_entropy;
mod elements;
pub mod hierarchical_sigmoid;
pub mod hinge_loss;
pub mod huber_loss;
pub mod kldiv_loss;
pub mod label;
pub mod log_loss;
pub mod margin_rank_loss;
pub mod mean_iou;
pub mod modified_huber_loss;
pub mod nce;
pub mod nll_loss;
pub mod positive_negative_pair;
pub mod precision_recall;
pub mod rank_loss;
pub mod sample_logits;
pub mod sigmoid_cross_entropy_with_logits;
pub mod sigmoid_focal_loss;
pub mod smooth_l1_loss;
pub mod softmax_with_cross_entropy;
pub mod squared_l2_distance;
pub mod teacher_student_sigmoid_loss;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    accuracy::TABLE,
    softmax_with_cross_entropy::TABLE,
    sigmoid_cross_entropy_with_logits::TABLE,
    bce_loss::TABLE,
    log_loss::TABLE,
    kldiv_loss::TABLE,
    nll_loss::TABLE,
    huber_loss::TABLE,
    smooth_l1_loss::TABLE,
    squared_l2_distance::TABLE,
    center_loss::TABLE,
    hinge_loss::TABLE,
    modified_huber_loss::TABLE,
    rank_loss::TABLE,
    margin_rank_loss::TABLE,
    sigmoid_focal_loss::TABLE,
    teacher_student_sigmoid_loss::TABLE,
    bpr_loss::TABLE,
    hierarchical_sigmoid::TABLE,
    nce::TABLE,
    auc::TABLE,
    mean_iou::TABLE,
    precision_recall::TABLE,
    cross_entropy::TABLE, // cross entropies of probabilities
    sample_logits::TABLE,
    positive_negative_pair::TABLE,
];
