//! Operators: compositions with a kernel of their own.

pub mod batch_norm;
mod compose;
pub mod conv_fusion;
pub mod elementwise;
pub mod products;
pub mod seq_pool;
pub mod transformer;
