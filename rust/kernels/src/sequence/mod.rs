//! Sequences of different lengths in one tensor, described by offsets (level-of-detail, LoD).

pub mod chunks;
pub mod embedding_pool;
pub mod pool;
pub mod segments;
pub mod windows;
