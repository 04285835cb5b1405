//! Programs at run time: what the table says of a desc, scopes, plans, their execution.

pub mod bind;
pub mod exec;
pub mod grad_desc;
pub mod plan;

pub use exec::Executor;
