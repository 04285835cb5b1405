//! Operators: random numbers and dropout.

pub mod random;
