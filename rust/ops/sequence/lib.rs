//! Operators: sequences of different lengths (LoD).

pub mod sequence;
