//! Copies, gathers, broadcasting.

pub mod copy;
#[cfg(test)]
mod copy_tests;
pub mod index;
pub mod strides;
