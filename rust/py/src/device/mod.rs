//! Devices other than the CPU.

pub mod cuda;
pub mod place;
