//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators.

pub mod conv;
mod conv_direct;
mod conv_patch;
pub mod gemm;
mod gemm_drive;
mod gemm_kernel;
mod gemm_pack;
mod gemm_simd;
mod gemm_vec;
pub mod pool;
pub mod simd;
