//! Parameter updates.

pub mod optimizer;
pub mod rules;
