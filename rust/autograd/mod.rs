//! Eager calls, their tape, and backward.

pub mod eager;
pub mod engine;
pub mod reducer;
pub mod tape;

pub use eager::{call, EVar};
pub use tape::{Node, Track};
