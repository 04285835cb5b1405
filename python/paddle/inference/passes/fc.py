"""fc_fuse_pass and the passes before it: products with constant matrices, bias and activation become fc."""

from __future__ import annotations

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []


#: attributes that transpose X and Y
_TRANSPOSES = {"matmul": ("transpose_X", "transpose_Y"), "matmul_v2": ("trans_x", "trans_y")}


def _to_mul(graph: Graph, node: Node, x: str, rows: int, gone: list[Node]) -> bool:
    """Replaces a product with a constant matrix, and `gone`, by mul of `x`, its first `rows` dimensions flattened."""
    y, out, (of_x, of_y) = node.one("Y"), node.out(), _TRANSPOSES[node.type]
    if y is None or not out or not graph.is_param(y) or node.attr("alpha", 1.0) != 1.0 or rows < 1:
        return False
    if len(graph.shape(y)) != 2 or node.attr(of_x, False) or graph.dtype(y) != VarType.FP32:
        return False
    if node.attr(of_y, False):
        y = graph.new_param(y, np.ascontiguousarray(graph.value(y).T))
    attrs = {"x_num_col_dims": rows, "y_num_col_dims": 1}
    graph.replace([*gone, node], Node("mul", {"X": [x], "Y": [y]}, {"Out": [out]}, None, attrs))
    return True


def _all_to_mul(graph: Graph, kind: str) -> int:
    named = [(node, node.one("X")) for node in graph.find(kind)]
    return sum(_to_mul(graph, node, x, len(graph.shape(x)) - 1, []) for node, x in named if x is not None)


@register("map_matmul_to_mul_pass")
def map_matmul(graph: Graph) -> int:
    """matmul with a constant matrix -> mul."""
    return _all_to_mul(graph, "matmul")


@register("map_matmul_v2_to_mul_pass")
def map_matmul_v2(graph: Graph) -> int:
    """matmul_v2 with a constant matrix -> mul."""
    return _all_to_mul(graph, "matmul_v2")


@register("flatten2_matmul_fuse_pass")
def fuse_flatten(graph: Graph) -> int:
    """flatten of all dimensions but the first, product with a constant matrix -> mul of the input of flatten."""
    count = 0
    for flat in graph.find("flatten", "flatten2", "flatten_contiguous_range", "reshape2"):
        x, y = flat.one("X"), flat.out()
        rank = len(graph.shape(x)) if x is not None else 0
        axes = [flat.attr("axis", 1), rank - 1]
        if flat.type == "flatten_contiguous_range":
            axes = [a + rank if a < 0 else a for a in (flat.attr("start_axis", 1), flat.attr("stop_axis", 1))]
        if flat.type == "reshape2" and (flat.attr("shape") != [0, -1] or list(flat.reads()) != [x]):
            continue
        product = graph.reader(y) if y else None
        if x is None or rank < 2 or axes != [1, rank - 1] or product is None or product.one("X") != y:
            continue
        if not graph.steady(x) or not graph.unread(flat, "XShape"):
            continue
        if product.type in _TRANSPOSES:
            count += _to_mul(graph, product, x, 1, [flat])
        elif product.type == "mul" and product.attr("x_num_col_dims", 1) == 1:
            graph.replace([flat], None)
            graph.rename_input(product, y, x)
            count += 1
    return count


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
