//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators.

pub mod cast;
pub mod complex;
pub mod conv;
mod conv_band;
mod conv_depthwise;
mod conv_direct;
mod conv_dots;
mod conv_patch;
pub mod copy;
pub mod elementwise;
mod elementwise_loops;
mod erfinv;
pub mod formula;
pub mod formula_rows;
pub mod fused;
pub mod gemm;
mod gemm_drive;
mod gemm_kernel;
mod gemm_pack;
pub mod gemm_simd;
#[cfg(target_arch = "x86_64")]
mod gemm_simd_x86;
mod gemm_sweep;
mod gemm_tile;
mod gemm_vec;
pub mod index;
pub mod integer;
pub mod math;
mod math_more;
#[cfg(test)]
mod math_tests;
pub mod norm;
mod norm_lanes;
pub mod optimizer;
pub mod order;
pub mod pool;
pub mod pooling;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod sequence;
pub mod shape;
pub mod simd;
pub mod softmax;
pub mod softmax_loss;
pub mod types;
pub mod unit;

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod elementwise_tests;
