//! What every other crate of the engine stands on: errors and shapes, tensors, Programs, and what an operator is.

pub mod base;
pub mod ir;
pub mod op;
pub mod tensor;
