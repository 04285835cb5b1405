//! Operators: sequences of different lengths (LoD).

pub mod reverse;
pub mod sequence;
