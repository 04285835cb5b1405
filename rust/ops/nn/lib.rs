//! Operators: convolution, pooling, normalisation, softmax, embedding.

pub mod affine_channel;
pub mod batch_norm;
pub mod bilateral_slice;
pub mod conv;
pub mod embedding;
pub mod grid;
pub mod group_norm;
pub mod instance_norm;
pub mod label_smooth;
pub mod layer_norm;
pub mod log_softmax;
pub mod lrn;
pub mod maxout;
pub mod pooling;
pub mod position;
pub mod prelu;
pub mod resize;
pub mod shuffle;
pub mod softmax;
pub mod spectral_norm;
pub mod temporal_shift;
pub mod unit;
