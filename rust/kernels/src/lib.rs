//! CPU kernels on slices and shapes, and the thread pool they run on. Knows nothing of operators. The groups are those
//! of rust/ops; what all of them use is in `pool`, `simd` and `types`.

pub mod pool;
pub mod simd;
pub mod types;

mod detection;
pub mod hash;
mod loss;
mod math;
mod mt64;
mod nn;
mod optim;
pub mod random;
mod rnn;
pub mod sequence;
mod shape;

// Every kernel has one path from outside, without its group.
pub use detection::overlaps;
pub use loss::softmax_loss;
#[cfg(target_arch = "x86_64")]
use math::gemm_simd_x86;
pub use math::{
    cast, complex, elementwise, formula, formula_rows, functions, fused, gemm, gemm_amx, gemm_simd, integer, order,
    reduce, scan,
};
use math::{
    elementwise_loops, erfinv, functions_more, functions_real, functions_trig, gemm_drive, gemm_kernel, gemm_pack,
    gemm_sides, gemm_sweep, gemm_tile, gemm_vec,
};
pub use nn::{
    conv, deform, grid_sample, group_norm, l2_normalize, layer_norm, norm, pooling, pooling_grad, resize, softmax,
    unfold, winograd,
};
use nn::{conv_band, conv_depthwise, conv_direct, conv_dots, conv_patch, norm_lanes, winograd_tiles};
pub use optim::{optimizer, rules};
pub use rnn::{act, batches, crf, ctc, lod_gru, lod_lstm, recurrent, recurrent_grad};
pub use shape::{copy, index, strides};
