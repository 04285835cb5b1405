//! Eager calls, the tape, backward.

pub mod autocast;
mod bucket;
pub mod eager;
pub mod engine;
pub mod leaf;
pub mod linear;
pub mod reducer;
mod reducer_memory;
mod reducer_rows;
mod request;
pub mod segment;
pub mod tape;
pub mod trace;

pub use eager::call;
pub use tape::{EagerVar, GradEdge, Node};
