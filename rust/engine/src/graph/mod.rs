//! Programs at run time: binding to the operator table, plans, their execution.

pub mod bind;
mod captured;
mod compile;
pub mod exec;
mod found;
mod fused;
pub mod grad_desc;
pub mod hogwild;
mod known;
pub mod op_range;
pub mod passes;
mod pieces;
pub mod plan;
pub mod schedule;
mod state;
#[cfg(test)]
mod tests;
pub mod var;
pub mod window;

pub use captured::release as release_graphs;
pub use exec::{Executor, How, Prepared};
