"""The registry of passes: a name to a function that rewrites a Graph and returns the number of its rewrites."""

from __future__ import annotations

from collections.abc import Callable

from paddle.inference.graph import Graph

__all__ = ["NO_EFFECT", "PASSES", "register"]

Rewrite = Callable[[Graph], int]

PASSES: dict[str, Rewrite] = {}

#: Paddle's passes that have nothing to do here: the execution plan fuses elementwise operators and reuses memory, the
#: kernels read views, and oneDNN, TensorRT and Lite are not used.
NO_EFFECT = frozenset(
    """
    attention_lstm_fuse_pass seqconv_eltadd_relu_fuse_pass seqpool_concat_fuse_pass seqpool_cvm_concat_fuse_pass
    embedding_fc_lstm_fuse_pass fc_lstm_fuse_pass seq_concat_fc_fuse_pass squared_mat_sub_fuse_pass
    repeated_fc_relu_fuse_pass squeeze2_matmul_fuse_pass reshape2_matmul_fuse_pass runtime_context_cache_pass
    mkldnn_placement_pass depthwise_conv_mkldnn_pass conv_bias_mkldnn_fuse_pass conv_transpose_bias_mkldnn_fuse_pass
    conv3d_bias_mkldnn_fuse_pass conv_elementwise_add_mkldnn_fuse_pass conv_concat_relu_mkldnn_fuse_pass
    conv_relu_mkldnn_fuse_pass conv_leaky_relu_mkldnn_fuse_pass conv_relu6_mkldnn_fuse_pass conv_swish_mkldnn_fuse_pass
    conv_hard_swish_mkldnn_fuse_pass scale_matmul_fuse_pass reshape_transpose_matmul_mkldnn_fuse_pass
    matmul_transpose_reshape_fuse_pass batch_norm_act_fuse_pass mkldnn_inplace_pass fc_mkldnn_pass
    fc_act_mkldnn_fuse_pass cpu_quantize_placement_pass cpu_quantize_pass cpu_quantize_squash_pass cudnn_placement_pass
    transpose_flatten_concat_fuse_pass tensorrt_subgraph_pass lite_subgraph_pass quant_conv2d_dequant_fuse_pass
    delete_quant_dequant_op_pass delete_quant_dequant_filter_op_pass shuffle_channel_detect_pass
    adaptive_pool2d_convert_global_pass unsqueeze2_eltwise_fuse_pass skip_layernorm_fuse_pass
    embedding_eltwise_layernorm_fuse_pass fc_elementwise_layernorm_fuse_pass multihead_matmul_fuse_pass
    multihead_matmul_fuse_pass_v3 memory_optimize_pass cpu_bfloat16_placement_pass
    """.split()
)


def register(name: str) -> Callable[[Rewrite], Rewrite]:
    """A decorator that enters a pass under `name`."""

    def enter(rewrite: Rewrite) -> Rewrite:
        PASSES[name] = rewrite
        return rewrite

    return enter
