//! Devices other than the CPU.

pub mod cuda;
mod driver;
pub mod place;
mod recipe;
mod table;
