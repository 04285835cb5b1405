//! Sequences of different lengths in one tensor, described by offsets (level-of-detail, LoD).

pub mod pool;
