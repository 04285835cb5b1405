"""multihead_matmul_fuse_pass_v2: the operators of multi-head attention become multihead_matmul."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__: list[str] = []

_PRODUCTS = ("matmul", "matmul_v2")


class _Projection(NamedTuple):
    """Operators that compute queries, keys or values [batch, heads, length, size] of x by w and b."""

    nodes: list[Node]
    x: str
    w: str
    b: str
    heads: int


def _transposed(node: Node, which: str) -> bool:
    short = {"X": "trans_x", "Y": "trans_y"}[which]
    return bool(node.attr("transpose_" + which, node.attr(short, False)))


def _last_use(graph: Graph, name: str | None, reader: Node) -> Node | None:
    """The writer of a variable that only `reader` reads."""
    if not name or graph.reader(name) is not reader:
        return None
    return graph.writer(name)


def _projection(graph: Graph, name: str | None, reader: Node) -> _Projection | None:
    """fc, reshape2 to heads, transpose2 before `name`, which only `reader` reads."""
    transpose = _last_use(graph, name, reader)
    if transpose is None or transpose.type not in ("transpose2", "transpose"):
        return None
    if list(transpose.attr("axis", ())) != [0, 2, 1, 3] or not graph.unread(transpose, "XShape"):
        return None
    reshape = _last_use(graph, transpose.one("X"), transpose)
    if reshape is None or reshape.type not in ("reshape2", "reshape") or not graph.unread(reshape, "XShape"):
        return None
    shape = list(reshape.attr("shape", ()))
    if (
        len(shape) != 4
        or shape[:2] != [0, 0]
        or min(shape[2:]) <= 0
        or reshape.ins.get("ShapeTensor")
        or reshape.ins.get("Shape")
    ):
        return None
    fc = _last_use(graph, reshape.one("X"), reshape)
    if fc is None or fc.type != "fc" or fc.attr("activation_type", "") or fc.attr("in_num_col_dims", 1) != 2:
        return None
    x, w, b = fc.one("Input"), fc.one("W"), fc.one("Bias")
    if x is None or w is None or b is None or not all(graph.is_param(n) for n in (w, b)) or not graph.steady(x):
        return None
    if graph.shape(w)[1] != shape[2] * shape[3] or graph.dtype(w) != VarType.FP32 or len(graph.shape(x)) != 3:
        return None
    return _Projection([transpose, reshape, fc], x, w, b, shape[2])


def _scale_before(graph: Graph, name: str | None, reader: Node) -> tuple[Node | None, float]:
    """A scale operator before `name`, and its factor."""
    scale = _last_use(graph, name, reader)
    if scale is None or scale.type != "scale" or scale.attr("bias", 0.0) != 0.0 or scale.ins.get("ScaleTensor"):
        return None, 1.0
    return scale, scale.attr("scale", 1.0)


def _fuse_one(graph: Graph, softmax: Node) -> bool:
    rank = 4
    if softmax.attr("axis", -1) not in (-1, rank - 1):
        return False
    gone = [softmax]
    scores, mask = _last_use(graph, softmax.one("X"), softmax), None
    last: Node = softmax
    if scores is not None and scores.type == "elementwise_add":
        mask, last = scores.one("Y"), scores
        if mask is None or scores.attr("axis", -1) not in (-1, 0) or len(graph.shape(mask)) != rank:
            return False
        gone.append(scores)
        scores = _last_use(graph, scores.one("X"), scores)
    alpha = 1.0
    if scores is not None and scores.type == "scale":
        found, alpha = _scale_before(graph, last.one("X"), last)
        if found is None:
            return False
        gone.append(scores)
        scores = _last_use(graph, scores.one("X"), scores)
    if scores is None or scores.type not in _PRODUCTS or _transposed(scores, "X") or not _transposed(scores, "Y"):
        return False
    gone.append(scores)
    alpha *= scores.attr("alpha", 1.0)
    q_name = scores.one("X")
    scaled, factor = _scale_before(graph, q_name, scores)
    reader = scores
    if scaled is not None:
        gone.append(scaled)
        alpha, q_name, reader = alpha * factor, scaled.one("X"), scaled
    product = graph.reader(softmax.out())
    if product is None or product.type not in _PRODUCTS or product.one("X") != softmax.out():
        return False
    if _transposed(product, "X") or _transposed(product, "Y") or product.attr("alpha", 1.0) != 1.0:
        return False
    transpose = graph.reader(product.out())
    if (
        transpose is None
        or transpose.type not in ("transpose2", "transpose")
        or list(transpose.attr("axis", ())) != [0, 2, 1, 3]
    ):
        return False
    reshape = graph.reader(transpose.out())
    if (
        reshape is None
        or reshape.type not in ("reshape2", "reshape")
        or reshape.ins.get("ShapeTensor")
        or reshape.ins.get("Shape")
    ):
        return False
    if not graph.unread(transpose, "XShape") or not graph.unread(reshape, "XShape"):
        return False
    gone += [product, transpose, reshape]
    parts = [
        _projection(graph, q_name, reader),
        _projection(graph, scores.one("Y"), scores),
        _projection(graph, product.one("Y"), product),
    ]
    q, k, v = parts
    if q is None or k is None or v is None or not q.x == k.x == v.x or not q.heads == k.heads == v.heads:
        return False
    widths = {graph.shape(p.w)[1] for p in (q, k, v)}
    if len(widths) != 1 or list(reshape.attr("shape", ())) != [0, 0, widths.copy().pop()]:
        return False
    if mask is not None and not graph.steady(mask):
        return False
    for part in (q, k, v):
        gone += part.nodes
    weights = np.stack([graph.value(p.w) for p in (q, k, v)], axis=1)
    bias = np.stack([graph.value(p.b).reshape(-1) for p in (q, k, v)])
    ins = {"Input": [q.x], "W": [graph.new_param(q.w, weights)], "Bias": [graph.new_param(q.b, bias)]}
    ins["BiasQK"] = [mask or graph.new_param(q.b, np.zeros((1, 1, 1, 1), np.float32))]
    attrs = {"alpha": float(alpha), "head_number": q.heads, "transpose_K": True}
    graph.replace(gone, Node("multihead_matmul", ins, {"Out": [reshape.out()]}, None, attrs), at=reshape)
    return True


@register("multihead_matmul_fuse_pass_v2")
def fuse_attention(graph: Graph) -> int:
    """Three fc of one input, softmax of the scaled and masked product, product, merge of heads -> multihead_matmul."""
    return sum(_fuse_one(graph, softmax) for softmax in graph.find("softmax"))
