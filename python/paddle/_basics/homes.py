"""Names that Paddle defines in a module below the package that shows them here: scripts import them from there, too."""

from __future__ import annotations

__all__ = ["homes"]

# A module below `paddle`: names that its package has.
_TABLE = """
distributed.collective: split
fluid.contrib.layers.nn: _pull_box_extended_sparse batch_fc bilateral_slice fused_bn_add_act fused_elemwise_activation
  fused_embedding_seq_pool match_matrix_tensor partial_concat partial_sum rank_attention shuffle_batch tdm_child
  tdm_sampler tree_conv var_conv_2d
fluid.dygraph.nn: BCELoss L1Loss MSELoss NCE NLLLoss
fluid.layers.control_flow: IfElse
fluid.layers.detection: collect_fpn_proposals distribute_fpn_proposals generate_mask_labels generate_proposal_labels
  generate_proposals retinanet_target_assign rpn_target_assign
fluid.layers.loss: bpr_loss center_loss edit_distance hsigmoid huber_loss kldiv_loss margin_rank_loss nce npair_loss
  rank_loss sampled_softmax_with_cross_entropy teacher_student_sigmoid_loss warpctc
fluid.layers.nn: add_position_encoding addcmul addmm affine_channel affine_grid allclose bmm chunk_eval clamp
  clip_by_norm continuous_value_model cos_sim crf_decoding crop crop_tensor cross ctc_greedy_decoder data_norm
  deformable_roi_pooling diag_embed dice_loss dist dot elementwise_equal filter_by_instag flip fsp_matrix gather_tree
  gaussian_random_batch_size_like grid_sampler hash image_resize image_resize_short index_sample index_select
  inplace_abn instance_norm interpolate label_smooth linear_chain_crf lod_append lod_reset log1p log_loss log_softmax
  logsumexp lrn maxout mean_iou meshgrid nonzero pad pad2d pad_constant_like pixel_shuffle prelu prroi_pool psroi_pool
  randint randn random_crop randperm resize_bilinear resize_linear resize_nearest resize_trilinear roi_align roi_pool
  roll sampling_id shuffle_channel similarity_focus smooth_l1 space_to_depth spectral_norm t temporal_shift
fluid.layers.rnn: beam_search beam_search_decode dynamic_gru dynamic_lstm dynamic_lstmp gru_unit lstm lstm_unit
fluid.layers.tensor: arange full full_like kron trace tril
nn.functional.common: interpolate pad upsample
nn.functional.loss: binary_cross_entropy ctc_loss hsigmoid_loss kl_div log_loss nll_loss smooth_l1_loss
nn.layer.common: Pad1D Pad2D Pad3D Upsample UpsamplingBilinear2D UpsamplingNearest2D
nn.layer.loss: CTCLoss
nn.layer.norm: InstanceNorm1D InstanceNorm2D InstanceNorm3D LocalResponseNorm SpectralNorm SyncBatchNorm
nn.layer.rnn: BiRNN GRU LSTM RNN SimpleRNN
static.nn.common: deform_conv2d
tensor.creation: to_tensor
tensor.manipulation: cast transpose
tensor.math: addmm inverse isfinite isinf isnan kron mm multiplex trace
"""


def homes() -> dict[str, dict[str, str]]:
    """Of a module the names, each with the package that has it."""
    found: dict[str, dict[str, str]] = {}
    for row in _TABLE.strip().replace("\n  ", " ").split("\n"):
        module, names = row.split(":")
        full = f"paddle.{module}"
        found[full] = dict.fromkeys(names.split(), full.rpartition(".")[0])
    return found
