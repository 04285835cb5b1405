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
