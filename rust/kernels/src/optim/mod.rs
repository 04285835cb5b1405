//! Parameter updates.

pub mod optimizer;
