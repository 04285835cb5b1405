//! Normalisation by the statistics of channels, groups, rows or vectors.

pub mod batch_norm;
pub mod cos_sim;
pub mod data_norm;
pub mod group_norm;
pub mod inplace_abn;
pub mod l2_normalize;
pub(crate) mod lanes;
pub mod layer_norm;
pub mod lrn;
pub mod p_norm;
pub mod spectral_norm;
