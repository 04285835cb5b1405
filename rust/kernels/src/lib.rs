//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators.

pub mod elementwise;
pub mod formula;
pub mod formula_rows;
pub mod math;
pub mod pool;
pub mod reduce;
pub mod shape;
pub mod simd;
pub mod types;

#[cfg(test)]
mod elementwise_tests;
