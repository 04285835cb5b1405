//! Operators: optimizers and SelectedRows.

pub mod optimizer;
pub mod rows;
