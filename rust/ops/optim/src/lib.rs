//! Optimizer operators, and operators on SelectedRows.

pub mod adaptive;
pub mod average_accumulates;
pub mod dgc_momentum;
pub mod dpsgd;
pub mod lamb;
pub mod lars_momentum;
pub mod loss_scaling;
pub mod optimizer;
pub mod proximal;
pub mod selected_rows;
mod update;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    optimizer::TABLE, // sgd, momentum, adam
    adaptive::TABLE,  // adagrad, adadelta, adamax, rmsprop
    proximal::TABLE,  // ftrl, proximal_gd, proximal_adagrad
    lamb::TABLE,
    lars_momentum::TABLE,
    dgc_momentum::TABLE,
    dpsgd::TABLE,
    average_accumulates::TABLE,
    loss_scaling::TABLE,  // check_finite_and_unscale, update_loss_scaling
    selected_rows::TABLE, // SelectedRows
];
