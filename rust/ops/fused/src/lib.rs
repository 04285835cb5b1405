//! Operators: compositions with a kernel of their own.

pub mod batch_norm;
mod compose;
pub mod conv_fusion;
pub mod elementwise;
pub mod products;
pub mod seq_pool;
pub mod transformer;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    conv_fusion::TABLE, // conv2d_fusion, conv2d_inception_fusion
    batch_norm::TABLE,  // batch_norm with a sum and an activation
    elementwise::TABLE, // fused_elemwise_activation
    transformer::TABLE, // attention and layer_norm with what stands before them
    products::TABLE,    // chains of products
    seq_pool::TABLE,    // fused_embedding_seq_pool
];
