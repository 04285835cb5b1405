"""fc_fuse_pass and the passes before it: products with constant matrices, bias and activation become fc."""

from __future__ import annotations

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []


def _to_mul(graph: Graph, kind: str, transposes: tuple[str, str]) -> int:
    count = 0
    for node in graph.find(kind):
        x, y, out = node.one("X"), node.one("Y"), node.out()
        if x is None or y is None or not out or not graph.is_param(y) or node.attr("alpha", 1.0) != 1.0:
            continue
        rank, shape = len(graph.shape(x)), graph.shape(y)
        if rank < 2 or len(shape) != 2 or node.attr(transposes[0], False) or graph.dtype(y) != VarType.FP32:
            continue
        if node.attr(transposes[1], False):
            y = graph.new_param(y, np.ascontiguousarray(graph.value(y).T))
        attrs = {"x_num_col_dims": rank - 1, "y_num_col_dims": 1}
        graph.replace([node], Node("mul", {"X": [x], "Y": [y]}, {"Out": [out]}, None, attrs))
        count += 1
    return count


@register("map_matmul_to_mul_pass")
def map_matmul(graph: Graph) -> int:
    """matmul with a constant matrix -> mul."""
    return _to_mul(graph, "matmul", ("transpose_X", "transpose_Y"))


@register("map_matmul_v2_to_mul_pass")
def map_matmul_v2(graph: Graph) -> int:
    """matmul_v2 with a constant matrix -> mul."""
    return _to_mul(graph, "matmul_v2", ("trans_x", "trans_y"))


@register("fc_fuse_pass")
def fuse_fc(graph: Graph) -> int:
    """mul, elementwise_add of a bias, relu or nothing -> fc."""
    count = 0
    for mul in graph.find("mul"):
        x, w, y = mul.one("X"), mul.one("Y"), mul.out()
        if x is None or w is None or not graph.steady(x) or not graph.is_param(w) or mul.attr("y_num_col_dims", 1) != 1:
            continue
        add, dims = graph.reader(y), mul.attr("x_num_col_dims", 1)
        if add is None or add.type != "elementwise_add" or add.one("X") != y or len(graph.shape(w)) != 2:
            continue
        bias = add.one("Y")
        columns = graph.shape(w)[1]
        if bias is None or not graph.is_param(bias) or graph.shape(bias) not in ([columns], [1, columns]):
            continue
        if graph.dtype(w) != VarType.FP32 or graph.dtype(bias) != VarType.FP32:
            continue
        if add.attr("axis", -1) not in (-1, dims + 1 - len(graph.shape(bias))):
            continue
        if len(graph.shape(bias)) == 2 and dims != 1:
            bias = graph.new_param(bias, graph.value(bias).reshape(-1))
        gone, last, attrs = [mul, add], add.out(), {"in_num_col_dims": dims}
        act = graph.reader(last)
        if act is not None and act.type == "relu":
            gone.append(act)
            last, attrs["activation_type"] = act.out(), "relu"
        ins = {"Input": [x], "W": [w], "Bias": [bias]}
        graph.replace(gone, Node("fc", ins, {"Out": [last]}, None, attrs))
        count += 1
    return count
