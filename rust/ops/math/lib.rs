//! Operators: elementwise operators, reductions, products, order.

pub mod activation;
pub mod basic;
pub mod clip_by_norm;
pub mod comparison;
pub mod complex;
pub mod decompose;
pub mod elementwise;
pub mod equality;
pub mod finite;
pub mod histogram;
pub mod kron;
pub mod matmul;
pub mod minus;
pub mod norms;
pub mod order;
pub mod products;
pub mod reduction;
pub mod scalar;
pub mod similarity;
