//! Operators of trainers and parameter servers.

pub mod compress;
pub mod exchange;
pub mod outside;
pub mod pipeline;
pub mod split;
pub mod tables;
