"""cpu_bfloat16_pass: products and convolutions compute in bfloat16."""

from __future__ import annotations

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []

_OPERATORS = ("fc", "conv2d", "depthwise_conv2d", "conv2d_fusion", "multihead_matmul")


def _products_to_fc(graph: Graph) -> None:
    """mul by a constant matrix, which has no bias -> fc."""
    for mul in graph.find("mul"):
        x, w = mul.one("X"), mul.one("Y")
        if x is None or w is None or not graph.is_param(w) or len(graph.shape(w)) != 2:
            continue
        if mul.attr("y_num_col_dims", 1) == 1 and graph.dtype(w) == VarType.FP32:
            attrs = {"in_num_col_dims": mul.attr("x_num_col_dims", 1)}
            graph.replace([mul], Node("fc", {"Input": [x], "W": [w]}, {"Out": [mul.out()]}, None, attrs))


@register("cpu_bfloat16_pass")
def use_bfloat16(graph: Graph) -> int:
    """Sets mkldnn_data_type of products and convolutions: their kernels round operands to bfloat16."""
    if not graph.bfloat16_ops or graph.bfloat16_ops & {"mul", "fc", "matmul", "matmul_v2"}:
        _products_to_fc(graph)
    chosen = [n for n in graph.find(*_OPERATORS) if not graph.bfloat16_ops or n.type in graph.bfloat16_ops]
    for node in chosen:
        node.set_attr("mkldnn_data_type", "bfloat16")
    return len(chosen)
