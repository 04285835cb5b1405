//! Operators: rings and collectives.

pub mod collective;
pub mod communicator;
