"""Passes over the Graph of a model: each replaces operators by fewer ones with equal results.

A pass is a function in a file of this package, entered by `registry.register` under Paddle's name where Paddle has the
pass. `switch_ir_optim(False)` leaves all out, `delete_pass` one.
"""

from __future__ import annotations

from . import attention as _attention  # noqa: F401 -- registers its passes, as do those below
from . import bfloat16 as _bfloat16  # noqa: F401
from . import constant_folding as _constant_folding  # noqa: F401
from . import conv_add_act as _conv_add_act  # noqa: F401
from . import conv_bn as _conv_bn  # noqa: F401
from . import fc as _fc  # noqa: F401
from . import fc_bn as _fc_bn  # noqa: F401
from . import gru_lstm as _gru_lstm  # noqa: F401
from . import is_test as _is_test  # noqa: F401
from . import simplify as _simplify  # noqa: F401
from .registry import NO_EFFECT, PASSES

__all__ = ["BFLOAT16_PASSES", "CPU_PASSES", "MKLDNN_PASSES", "known"]

#: what a Config begins with, in this order: patterns that contain others come first
CPU_PASSES = """
    is_test_pass simplify_with_basic_ops_pass constant_folding_pass attention_lstm_fuse_pass
    seqconv_eltadd_relu_fuse_pass seqpool_cvm_concat_fuse_pass mul_lstm_fuse_pass fc_gru_fuse_pass mul_gru_fuse_pass
    seq_concat_fc_fuse_pass squeeze2_matmul_fuse_pass reshape2_matmul_fuse_pass flatten2_matmul_fuse_pass
    map_matmul_to_mul_pass map_matmul_v2_to_mul_pass fc_fuse_pass fc_bn_fuse_pass multihead_matmul_fuse_pass_v2
    repeated_fc_relu_fuse_pass squared_mat_sub_fuse_pass conv_bn_fuse_pass conv_eltwiseadd_bn_fuse_pass
    conv_transpose_bn_fuse_pass conv_transpose_eltwiseadd_bn_fuse_pass conv_affine_channel_fuse_pass
    conv_eltwiseadd_affine_channel_fuse_pass conv_elementwise_add2_act_fuse_pass conv_elementwise_add_act_fuse_pass
    conv_elementwise_add_fuse_pass identity_scale_op_clean_pass runtime_context_cache_pass
""".split()

#: what `enable_mkldnn` adds, as far as it is not there
MKLDNN_PASSES = """
    mkldnn_placement_pass depthwise_conv_mkldnn_pass conv_bias_mkldnn_fuse_pass conv_transpose_bias_mkldnn_fuse_pass
    conv3d_bias_mkldnn_fuse_pass conv_elementwise_add_mkldnn_fuse_pass conv_concat_relu_mkldnn_fuse_pass
    conv_relu_mkldnn_fuse_pass conv_leaky_relu_mkldnn_fuse_pass conv_relu6_mkldnn_fuse_pass
    conv_swish_mkldnn_fuse_pass conv_hard_swish_mkldnn_fuse_pass scale_matmul_fuse_pass
    reshape_transpose_matmul_mkldnn_fuse_pass matmul_transpose_reshape_fuse_pass batch_norm_act_fuse_pass
""".split()

BFLOAT16_PASSES = ["cpu_bfloat16_placement_pass", "cpu_bfloat16_pass"]


def known(name: str) -> bool:
    """Whether a pass of this name can be in a list."""
    return name in PASSES or name in NO_EFFECT or name == "graph_viz_pass"
