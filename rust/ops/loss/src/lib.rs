//! Operators: losses and metrics.

pub mod auc;
pub mod counts;
pub mod cross_entropy;
mod elements;
pub mod hierarchical;
pub mod label;
pub mod likelihood;
pub mod loss;
pub mod margin;
pub mod metric;
pub mod nce;
pub mod pairs;
pub mod probability;
pub mod residual;
pub mod sample_logits;
pub mod sigmoid;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    metric::TABLE,        // accuracy
    loss::TABLE,          // cross entropies of scores
    probability::TABLE,   // bce_loss, log_loss, kldiv_loss
    likelihood::TABLE,    // nll_loss
    residual::TABLE,      // losses of differences
    margin::TABLE,        // hinge and rank losses
    sigmoid::TABLE,       // sigmoid_focal_loss, teacher_student_sigmoid_loss, bpr_loss
    hierarchical::TABLE,  // hierarchical_sigmoid
    nce::TABLE,           // nce
    auc::TABLE,           // auc
    counts::TABLE,        // mean_iou, precision_recall
    cross_entropy::TABLE, // cross entropies of probabilities
    sample_logits::TABLE, // sample_logits
    pairs::TABLE,         // positive_negative_pair
];
