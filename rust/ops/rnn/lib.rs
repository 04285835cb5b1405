//! Operators: recurrent networks and decoding.

pub mod ctc_align;
pub mod edit_distance;
pub mod gather_tree;
mod lod;
pub mod rnn;
pub mod warpctc;
