//! Quantization operators.

pub mod dequantize;
pub mod fake_quantize;
pub mod quantize;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    fake_quantize::TABLE, // simulated quantisation
    dequantize::TABLE,    // levels back to numbers
    quantize::TABLE,      // quantize, requantize, dequantize
];
