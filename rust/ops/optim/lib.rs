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
