//! Operators as Python functions: table, attributes, eager calls, tracing.

pub mod attrs;
pub mod builtins;
pub mod eager;
pub mod generated;
pub mod py_func;
pub mod recorded;
pub mod table;
pub mod trace;
