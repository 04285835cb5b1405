//! Operators: elementwise operators, reductions, products, order.

pub mod activation;
pub mod basic;
pub mod comparison;
pub mod complex;
pub mod elementwise;
pub mod matmul;
pub mod order;
pub mod reduction;
pub mod scalar;
