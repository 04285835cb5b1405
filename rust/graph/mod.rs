//! Programs at run time: scopes, plans, the scheduler.

pub mod scope;

pub use scope::Scope;
