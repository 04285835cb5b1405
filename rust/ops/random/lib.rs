//! Operators: random numbers and dropout.

pub mod random;
pub mod random_crop;
pub mod sampling;
pub mod sampling_id;
pub mod shuffle_batch;
