//! Losses and their gradients.

pub mod cross_entropy;
pub mod huber;
