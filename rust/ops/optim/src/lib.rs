//! Operators: optimizers and SelectedRows.

pub mod adaptive;
pub mod average;
pub mod dgc_momentum;
pub mod layerwise;
pub mod loss_scaling;
pub mod optimizer;
pub mod private;
pub mod proximal;
pub mod rows;
mod update;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    optimizer::TABLE,    // sgd, momentum, adam
    adaptive::TABLE,     // adagrad, adadelta, adamax, rmsprop
    proximal::TABLE,     // ftrl, proximal_gd, proximal_adagrad
    layerwise::TABLE,    // lamb, lars_momentum
    dgc_momentum::TABLE, // dgc_momentum
    private::TABLE,      // dpsgd
    average::TABLE,      // average_accumulates
    loss_scaling::TABLE, // check_finite_and_unscale, update_loss_scaling
    rows::TABLE,         // SelectedRows
];
