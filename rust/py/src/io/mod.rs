//! Files of tensors and of text.

pub mod feed;
pub mod tensor_file;
