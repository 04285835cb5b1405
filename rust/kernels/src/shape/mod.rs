//! Copies, gathers, scatters and broadcasting by shapes and strides.

pub mod copy;
pub mod index;
pub mod strides;
