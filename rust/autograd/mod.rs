//! Eager calls, their tape, and backward.

pub mod eager;
pub mod engine;
pub mod reducer;
mod reducer_rows;
pub mod tape;
pub mod trace;

pub use eager::{call, EVar};
pub use tape::{Node, Track};
