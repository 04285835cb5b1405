//! Devices besides the CPU.

pub mod cuda;
