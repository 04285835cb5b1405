//! Operators: the same elements in another shape or place, and new tensors.

pub mod concat;
pub mod creation;
pub mod diagonal;
pub mod expand;
pub mod expand_v2;
pub mod fill;
pub mod flip;
pub mod gather_nd;
pub mod grid;
pub mod index_select;
pub mod indexing;
pub mod masked_select;
pub mod memory;
pub mod multiplex;
pub mod pad;
pub mod pad_images;
pub mod partial;
pub mod reshape;
pub mod roll;
pub mod set_value;
pub mod slice;
pub mod stack;
pub mod transpose;
pub mod tril_triu;
pub mod unique;
