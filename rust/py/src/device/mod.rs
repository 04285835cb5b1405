//! Devices other than the CPU.

pub mod cuda;
mod driver;
mod graph;
pub mod place;
mod recipe;
mod table;
mod together;
