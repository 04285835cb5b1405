//! Operators: the parameter server.

pub mod exchange;
pub mod split;
pub mod tables;
