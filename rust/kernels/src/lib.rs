//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators.

pub mod cast;
pub mod copy;
pub mod elementwise;
mod erfinv;
pub mod formula;
pub mod formula_rows;
pub mod index;
pub mod integer;
pub mod math;
pub mod order;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod shape;
pub mod simd;
pub mod types;

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod elementwise_tests;
