"""Operators without a launcher whose operands may lie on a device: those that only pass memory on, and those that run
on the host, with the reason of each."""

from __future__ import annotations

_ARRAY = "passes elements of a tensor array on; their memory stays on its device"
_LOD = "its result is made of LoD, which is host memory"
_RANKS = "reads a table of sequence lengths, which is host memory"
_METRIC = "a metric over variable-length lists, 2.0.2 has a CPU kernel only"
_TARGETS = "assigns targets of variable count by sequential sampling, 2.0.2 has a CPU kernel only"
_SERVER = "splits or merges ids for parameter servers, which are addressed from the host"

HOST_BY_NATURE: dict[str, str] = {
    "write_to_array": _ARRAY,
    "read_from_array": _ARRAY,
    "lod_array_length": "its result is a count held by the host",
    "lod_tensor_to_array": _RANKS,
    "array_to_lod_tensor": _RANKS,
    "split_lod_tensor": _RANKS,
    "merge_lod_tensor": _RANKS,
    "merge_lod_tensor_infer": _RANKS,
    "lod_rank_table": _LOD,
    "max_sequence_len": _LOD,
    "reorder_lod_tensor_by_rank": _RANKS,
    "reorder_lod_tensor_by_rank_grad": _RANKS,
    "shrink_rnn_memory": _RANKS,
    "shrink_rnn_memory_grad": _RANKS,
    "select_input": "the branch is chosen by the host, which passes a variable on",
    "select_output": "the branch is chosen by the host, which passes a variable on",
    "shape": "its result is a shape, which the host knows; 2.0.2 keeps it on the CPU",
    "memcpy": "a copy between places",
    "chunk_eval": _METRIC,
    "detection_map": _METRIC,
    "precision_recall": _METRIC,
    "positive_negative_pair": _METRIC,
    "rpn_target_assign": _TARGETS,
    "retinanet_target_assign": _TARGETS,
    "generate_proposal_labels": _TARGETS,
    "generate_mask_labels": "rasterises polygons of variable count, 2.0.2 has a CPU kernel only",
    "beam_search_decode": "walks LoD of tensor arrays, which is host memory",
    "split_ids": _SERVER,
    "merge_ids": _SERVER,
    "split_selected_rows": _SERVER,
    "ref_by_trainer_id": _SERVER,
    "lookup_sparse_table_merge": _SERVER,
    "fake_init": "declares a tensor that a parameter server holds",
    "filter_by_instag": "selects LoD sequences by tag sets, 2.0.2 has a CPU kernel only",
    "pyramid_hash": "hashes n-grams of LoD sequences against filters in host memory, 2.0.2 has a CPU kernel only",
}

#: operators that run on handles, in Rust: they read no elements; their results share the memory of an operand, or are
#: those of operators that they call
PASSED_ON = frozenset(
    """assign c_sync_calc_stream c_sync_comm_stream flatten flatten2 flatten2_grad flatten_contiguous_range
    flatten_contiguous_range_grad flatten_grad lod_reset reshape reshape2 reshape2_grad reshape2_grad_grad reshape_grad
    squeeze squeeze2 squeeze2_grad squeeze_grad tensor_array_to_tensor tensor_array_to_tensor_grad unsqueeze unsqueeze2
    unsqueeze2_grad unsqueeze_grad""".split()
)

_INTERPOLATIONS = """bicubic_interp bicubic_interp_v2 bilinear_interp bilinear_interp_v2 linear_interp_v2 nearest_interp
nearest_interp_v2 trilinear_interp trilinear_interp_v2"""
#: data types of an operator's row that its launcher declines: such operands run on the CPU
DECLINED_TYPES: dict[str, frozenset[str]] = {
    op: frozenset(types.split())
    for types, ops in {
        "int32 int64": "abs_grad abs_grad_grad fill_constant prroi_pool sequence_scatter",
        "uint8": f"arg_min {_INTERPOLATIONS}",
        "int32": "edit_distance roi_pool",
        "bool": "reduce_sum sum",
        "bool int8 int16 int32 int64 uint8": "lookup_table reduce_sum_grad",
        "int32 int64 uint8": "scatter_nd_add",
        "int8 int16 int32 uint8": "unique",
    }.items()
    for op in ops.split()
}
