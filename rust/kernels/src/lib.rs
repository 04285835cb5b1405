//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators.

pub mod pool;
pub mod simd;
