//! Fused operators: compositions with one kernel.

mod compose;
pub mod conv_fusion;
pub mod fused_batch_norm;
pub mod fused_elemwise_activation;
pub mod fused_embedding_seq_pool;
pub mod fusion_repeated_fc_relu;
pub mod fusion_squared_mat_sub;
pub mod fusion_transpose_flatten_concat;
mod shapes;
pub mod transformer;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    conv_fusion::TABLE,      // conv2d_fusion, conv2d_inception_fusion
    fused_batch_norm::TABLE, // batch_norm with a sum and an activation
    fused_elemwise_activation::TABLE,
    transformer::TABLE, // attention and layer_norm with what stands before them
    fusion_repeated_fc_relu::TABLE,
    fusion_squared_mat_sub::TABLE,
    fusion_transpose_flatten_concat::TABLE,
    fused_embedding_seq_pool::TABLE,
];
