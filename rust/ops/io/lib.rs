//! Operators: readers and files.

pub mod files;
pub mod reader;
