//! Operators: the same elements in another shape or place, and new tensors.

pub mod concat;
pub mod creation;
pub mod expand;
pub mod expand_v2;
pub mod flip;
pub mod indexing;
pub mod reshape;
pub mod set_value;
pub mod slice;
pub mod stack;
pub mod transpose;
