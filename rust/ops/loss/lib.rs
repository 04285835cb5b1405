//! Operators: losses and metrics.

pub mod cross_entropy;
pub mod label;
pub mod loss;
pub mod metric;
