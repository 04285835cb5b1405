//! Convolution, pooling, normalisation, softmax.

pub mod conv;
pub(crate) mod conv_band;
pub(crate) mod conv_depthwise;
pub(crate) mod conv_direct;
pub(crate) mod conv_dots;
pub(crate) mod conv_patch;
pub mod deform;
pub mod grid_sample;
pub mod group_norm;
pub mod l2_normalize;
pub mod layer_norm;
pub mod norm;
pub(crate) mod norm_lanes;
pub mod pooling;
pub mod pooling_grad;
pub mod resize;
pub mod softmax;
pub mod unfold;
pub mod winograd;
pub(crate) mod winograd_tiles;
