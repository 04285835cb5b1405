//! What runs operators: eager calls with their tape and backward, and the plans of Programs.

pub mod autograd;
pub mod graph;
