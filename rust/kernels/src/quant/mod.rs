//! Quantisation: levels of simulated quantisation, and numbers from levels.

pub mod dequantize;
pub mod fake_quantize;
