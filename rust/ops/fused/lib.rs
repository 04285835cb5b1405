//! Operators: compositions with a kernel of their own.

pub mod conv_fusion;
