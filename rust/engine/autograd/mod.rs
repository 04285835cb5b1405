//! Eager calls, their tape, and backward.

pub mod eager;
pub mod engine;
pub mod leaf;
pub mod reducer;
mod reducer_memory;
mod reducer_rows;
pub mod tape;
pub mod trace;
mod var;

pub use eager::call;
pub use tape::{Node, Track};
pub use var::EVar;
