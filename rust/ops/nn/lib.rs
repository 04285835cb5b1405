//! Operators: convolution, pooling, normalisation, softmax, embedding.

pub mod batch_norm;
pub mod conv;
pub mod embedding;
pub mod group_norm;
pub mod layer_norm;
pub mod log_softmax;
pub mod pooling;
pub mod resize;
pub mod softmax;
pub mod unit;
