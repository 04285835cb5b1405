//! Operators: random numbers and dropout.

pub mod random;
pub mod random_crop;
pub mod sampling;
pub mod sampling_id;
pub mod shuffle_batch;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    random::TABLE,        // random numbers, dropout
    sampling::TABLE,      // bernoulli, multinomial, seed
    random_crop::TABLE,   // random_crop
    sampling_id::TABLE,   // sampling_id
    shuffle_batch::TABLE, // shuffle_batch
];
