//! Operators as functions of Python: their table, attributes, eager calls and what is recorded of them.

pub mod attrs;
pub mod builtins;
pub mod eager;
pub mod py_func;
pub mod table;
pub mod trace;
