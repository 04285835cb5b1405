"""The lists of operators by element type in mixed precision."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists"]

#: computed in float16, where they are faster
white_list = set(
    """
    conv2d matmul matmul_v2 mul
    """.split()
)

#: computed in float32: their sums and exponents exceed the range of float16
black_list = set(
    """
    exp square log mean sum cos_sim softmax softmax_with_cross_entropy sigmoid_cross_entropy_with_logits
    cross_entropy cross_entropy2 lookup_table lookup_table_v2
    """.split()
)

#: computed in the type of their inputs
gray_list = set(
    """
    elementwise_add elementwise_sub elementwise_mul elementwise_div elementwise_max elementwise_min
    elementwise_pow elementwise_mod elementwise_floordiv batch_norm layer_norm tanh sigmoid top_k pool2d pool3d
    dropout relu relu6 leaky_relu soft_relu flatten2 stack unstack uniform_random uniform_random_batch_size_like
    gaussian_random gaussian_random_batch_size_like slice rank scale transpose2 reshape2 gather fill_constant
    get_tensor_from_selected_rows sign cast fused_bn_add_activation
    """.split()
)

#: without a (reliable) float16 kernel in Paddle: computed in float32 even in pure float16 training
unsupported_fp16_list = set(
    """
    send send_barrier recv fetch_barrier create_py_reader create_double_buffer_reader read load increment
    less_than less_equal greater_than greater_equal equal not_equal read_from_array shrink_rnn_memory
    lod_array_length logical_and logical_or logical_xor logical_not print conditional_block while ifelse
    is_empty lstm cudnn_lstm lstmp gru gru_unit linear_chain_crf crf_decoding bpr_loss chunk_eval sequence_conv
    sequence_softmax depthwise_conv2d conv3d sequence_pool sequence_concat sequence_slice data_norm group_norm
    spectral_norm depthwise_conv2d_transpose sequence_expand conv_transposed2d conv_transposed3d
    sequence_expand_as sequence_pad sequence_unpad sequence_erase beam_search beam_search_decode lstm_unit
    reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_all reduce_any split edit_distance ctc_align
    warpctc sequence_reshape nce hierarchical_sigmoid im2sequence row_conv multiplex sample_logits one_hot
    smooth_l1_loss squeeze2 unsqueeze2 lod_reset lrn pad pad_constant_like label_smooth scatter sequence_scatter
    random_crop mean_iou selu crop affine_grid rank_loss margin_rank_loss pad2d elu pow stanh hard_sigmoid swish
    prelu brelu sequence_enumerate sequence_mask expand sampling_id maxout space_to_depth sequence_reverse
    similarity_focus hash grid_sampler log_loss teacher_student_sigmoid_loss add_position_encoding
    bilinear_tensor_product shuffle_channel temporal_shift psroi_pool huber_loss kldiv_loss tree_conv
    pixel_shuffle fsp cvm affine_channel roi_pool roi_align anchor_generator generate_proposals
    generate_proposal_labels generate_mask_labels lookup_table lookup_table_v2
    """.split()
)


class AutoMixedPrecisionLists:
    """The lists of operators by which :func:`paddle.static.amp.decorate` rewrites a Program.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/static/amp/CustomOpLists_en.html

    Args:
        custom_white_list, custom_black_list (set|list, optional): operators to compute in float16, and in float32,
            regardless of the default lists.
        custom_black_varnames (set|list, optional): operators that read or write these variables compute in float32.

    Raises:
        ValueError: for an operator in both lists.

    Examples:
        >>> import paddle
        >>> lists = paddle.static.amp.CustomOpLists(custom_white_list=["softmax"], custom_black_list=["conv2d"])
        >>> "softmax" in lists.white_list, "conv2d" in lists.black_list
        (True, True)
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
    ) -> None:
        self._custom_white_list = custom_white_list
        self._custom_black_list = custom_black_list
        white, black = set(custom_white_list or ()), set(custom_black_list or ())
        if white & black:
            raise ValueError(f"CustomOpLists: {sorted(white & black)} stand in the white list and in the black list")
        self.white_list = (white_list | white) - black
        self.black_list = (black_list - white) | black
        self.gray_list = gray_list - white - black
        self.unsupported_list = unsupported_fp16_list | black
        self.black_varnames = None if custom_black_varnames is None else set(custom_black_varnames)


CustomOpLists = AutoMixedPrecisionLists
