//! Random operators: random numbers, sampling and dropout.

pub mod dropout;
pub mod gaussian_random;
pub mod randint;
pub mod random_crop;
mod random_fill;
pub mod sampling;
pub mod sampling_id;
pub mod shuffle_batch;
pub mod uniform_random;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    uniform_random::TABLE,  // uniform_random and uniform_random_batch_size_like
    gaussian_random::TABLE, // gaussian_random, gaussian_random_batch_size_like and truncated_gaussian_random
    randint::TABLE,         // randint and randperm
    dropout::TABLE,
    sampling::TABLE, // bernoulli, multinomial, seed
    random_crop::TABLE,
    sampling_id::TABLE,
    shuffle_batch::TABLE,
];
