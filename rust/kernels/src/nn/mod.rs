//! Layers without a family of their own.

pub mod add_position_encoding;
pub mod batch_fc;
pub mod bilinear_tensor_product;
pub mod cvm;
pub mod fsp;
pub mod label_smooth;
pub mod maxout;
pub mod prelu;
pub mod rank_attention;
pub mod similarity_focus;
pub mod tdm;
pub mod temporal_shift;
