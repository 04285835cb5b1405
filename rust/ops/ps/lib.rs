//! Operators of trainers and parameter servers.

pub mod exchange;
pub mod split;
pub mod tables;
