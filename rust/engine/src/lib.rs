//! Runs operators: eager calls with the tape and backward, and the execution plans of Programs.

pub mod autograd;
pub mod graph;
pub mod static_call;
