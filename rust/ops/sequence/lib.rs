//! Operators: sequences of different lengths (LoD).

pub mod reverse;
pub mod segment_pool;
pub mod sequence;
