//! Elementwise loops and formulas, reductions, products, order.

pub mod cast;
pub mod complex;
pub mod elementwise;
pub(crate) mod elementwise_loops;
#[cfg(test)]
mod elementwise_tests;
pub(crate) mod erfinv;
pub mod formula;
pub mod formula_rows;
pub mod functions;
pub(crate) mod functions_more;
pub(crate) mod functions_real;
#[cfg(test)]
mod functions_tests;
pub(crate) mod functions_trig;
pub mod fused;
pub mod gemm;
#[cfg(target_arch = "x86_64")]
pub mod gemm_amx;
#[cfg(not(target_arch = "x86_64"))]
pub mod gemm_amx_absent;
#[cfg(target_arch = "x86_64")]
mod gemm_amx_pack;
pub(crate) mod gemm_drive;
pub(crate) mod gemm_kernel;
pub(crate) mod gemm_pack;
pub(crate) mod gemm_sides;
pub mod gemm_simd;
mod gemm_simd_levels;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gemm_simd_x86;
pub(crate) mod gemm_sweep;
pub(crate) mod gemm_tile;
pub(crate) mod gemm_vec;
pub mod integer;
pub mod order;
pub mod reduce;
mod reduce_rows;
pub mod scan;

#[cfg(not(target_arch = "x86_64"))]
pub use gemm_amx_absent as gemm_amx;
