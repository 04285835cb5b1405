//! Tensors of eager mode and of scopes: numbers, indices, numpy, DLPack.

pub mod assign;
pub mod buffer;
pub mod class;
pub mod dlpack;
pub mod indexing;
pub mod lod_tensor;
pub mod new;
pub mod number;
pub mod numpy;
pub mod object;
pub mod random;
pub mod selected_rows;
