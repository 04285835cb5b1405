//! Operators: quantisation.

pub mod bytes;
pub mod dequantize;
pub mod fake;
