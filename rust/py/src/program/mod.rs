//! Programs: descriptions, scopes, the executor.

pub mod desc;
pub mod executor;
pub mod scope;
pub mod static_call;
