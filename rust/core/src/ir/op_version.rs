//! Versions of operators' definitions as of 2.0.2. They are written into saved programs, so that a newer Paddle knows
//! which defaults were meant.

use super::Program;

/// Operators whose definitions changed; all others have version 0, which is not written.
#[rustfmt::skip]
pub const OP_VERSIONS: &[(&str, i32)] = &[
    ("adam", 1), ("allclose", 2), ("arg_max", 1), ("arg_min", 1), ("clip", 1), ("coalesce_tensor", 1),
    ("collect_fpn_proposals", 1), ("conv2d", 1), ("conv2d_transpose", 1), ("conv3d", 1), ("conv3d_transpose", 1),
    ("conv_transpose", 1), ("cudnn_lstm", 1), ("cumsum", 1), ("data_norm", 1), ("depthwise_conv2d", 1),
    ("depthwise_conv2d_transpose", 1), ("distribute_fpn_proposals", 2), ("elementwise_add", 1), ("elementwise_div", 1),
    ("elementwise_floordiv", 1), ("elementwise_max", 1), ("elementwise_min", 1), ("elementwise_mod", 1),
    ("elementwise_mul", 1), ("elementwise_pow", 1), ("elementwise_sub", 1), ("equal", 1),
    ("fake_channel_wise_dequantize_max_abs", 1), ("fake_channel_wise_quantize_abs_max", 1), ("fill_constant", 2),
    ("flip", 1), ("fusion_gru", 1), ("gather", 1), ("gaussian_random", 1), ("generate_proposals", 2),
    ("generate_proposals_v2", 1), ("greater_equal", 1), ("greater_than", 1), ("grid_sampler", 1), ("hard_shrink", 1),
    ("instance_norm", 1), ("lamb", 1), ("leaky_relu", 1), ("less_equal", 1), ("less_than", 1), ("linspace", 1),
    ("lookup_table_v2", 1), ("matmul", 1), ("matrix_nms", 1), ("momentum", 1), ("not_equal", 1), ("pixel_shuffle", 1),
    ("print", 1), ("quantize", 1), ("rank_attention", 1), ("roi_align", 3), ("roi_pool", 2),
    ("softmax_with_cross_entropy", 1), ("softplus", 1), ("trace", 1), ("unique", 1),
];

/// Writes the versions of this engine's operators into a Program that is about to be saved.
pub fn save_op_versions(program: &Program) {
    program.set_op_versions(OP_VERSIONS.iter().copied());
}
