//! Operators: rings and collectives.

pub mod collective;
pub mod communicator;
pub mod sync_batch_norm;
