//! Operators: quantisation.

pub mod bytes;
pub mod dequantize;
pub mod fake;

/// The operators of this group, a line a family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    fake::TABLE,       // simulated quantisation
    dequantize::TABLE, // levels back to numbers
    bytes::TABLE,      // quantize, requantize, dequantize
];
