"""conv_bn_fuse_pass and its relatives: batch_norm and affine_channel after a convolution go into its filters and bias.

y = scale * (w * x + b - mean) / sqrt(variance + epsilon) + shift is the convolution of x by w * k, where
k = scale / sqrt(variance + epsilon), with the bias (b - mean) * k + shift.
"""

from __future__ import annotations

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .registry import register

__all__ = ["channel_bias", "factors"]

_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
_TRANSPOSED = ("conv2d_transpose", "depthwise_conv2d_transpose")


def factors(graph: Graph, node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """(k, c) of an operator that computes k * x + c for each channel; None where they are not constants."""
    if node.type == "affine_channel":
        slots = ["Scale", "Bias"]
    elif node.attr("is_test", False) or node.attr("use_global_stats", False):
        slots = ["Scale", "Bias", "Mean", "Variance"]
    else:
        return None
    names = [node.one(slot) for slot in slots]
    if not all(graph.is_param(name) for name in names) or node.attr("data_layout", "NCHW") not in ("NCHW", "AnyLayout"):
        return None
    if node.type != "affine_channel" and not graph.unread(node, "SavedMean", "SavedVariance", "ReserveSpace"):
        return None
    values = [graph.value(name).astype(np.float64).reshape(-1) for name in names if name is not None]
    if len(values) == 2:
        return values[0], values[1]
    scale, shift, mean, variance = values
    k = scale / np.sqrt(variance + node.attr("epsilon", 1e-5))
    return k, shift - mean * k


def channel_bias(graph: Graph, add: Node, channels: int) -> np.ndarray | None:
    """The constant that an elementwise_add adds to each of the channels (axis 1 of 4); None for another operand."""
    y = add.one("Y")
    if y is None or not graph.is_param(y):
        return None
    value, axis = graph.value(y), add.attr("axis", -1)
    shape = list(value.shape)
    if (shape == [channels] and axis == 1) or (
        shape in ([1, channels, 1, 1], [channels, 1, 1]) and axis in (-1, 4 - len(shape))
    ):
        return value.reshape(-1)
    return None


def _fuse(graph: Graph, convolutions: tuple, kind: str, with_add: bool) -> int:
    out_slot = "Y" if kind == "batch_norm" else "Out"
    kinds = ("batch_norm", "sync_batch_norm") if kind == "batch_norm" else (kind,)
    count = 0
    for conv in graph.find(*convolutions):
        w, y = conv.one("Filter"), conv.out("Output")
        if w is None or not graph.is_param(w) or conv.ins.get("Bias") or conv.ins.get("ResidualData"):
            continue
        if conv.attr("data_format", "NCHW") not in ("NCHW", "AnyLayout") or graph.dtype(w) != VarType.FP32:
            continue
        after = graph.reader(y) if y else None
        add = None
        if with_add and after is not None and after.type == "elementwise_add" and after.one("X") == y:
            add = after
            after = graph.reader(add.out())
        elif with_add:
            continue
        if after is None or after.type not in kinds or after.one("X") != (add.out() if add else y):
            continue
        found = factors(graph, after)
        if found is None:
            continue
        filters, (k, c) = graph.value(w), found
        transposed, groups = conv.type in _TRANSPOSED, conv.attr("groups", 1) or 1
        channels = filters.shape[1] * groups if transposed else filters.shape[0]
        if len(k) != channels:
            continue
        bias = np.zeros(channels)
        if add is not None:
            found_bias = channel_bias(graph, add, channels)
            if found_bias is None:
                continue
            bias = found_bias.astype(np.float64)
        if transposed:
            grouped = filters.astype(np.float64).reshape(groups, -1, *filters.shape[1:])
            folded = (grouped * k.reshape(groups, 1, -1, 1, 1)).reshape(filters.shape)
        else:
            folded = filters * k.reshape(-1, *[1] * (filters.ndim - 1))
        _replace(graph, conv, add, after, after.out(out_slot), folded, bias * k + c)
        count += 1
    return count


def _replace(graph: Graph, conv: Node, add: Node | None, norm: Node, out: str, folded, bias) -> None:
    w, y = conv.ins["Filter"][0], conv.out("Output")
    new_w = graph.new_param(w, folded.astype(np.float32))
    new_b = graph.new_param(w + ".bias", bias.astype(np.float32))
    conv_again = conv.copied(conv.type, {**conv.ins, "Filter": [new_w]}, {"Output": [y]}, {})
    graph.replace([conv], conv_again)
    new_add = Node("elementwise_add", {"X": [y], "Y": [new_b]}, {"Out": [out]}, None, {"axis": 1})
    graph.replace([norm] if add is None else [add, norm], new_add)


@register("conv_bn_fuse_pass")
def conv_bn(graph: Graph) -> int:
    """conv2d, batch_norm -> conv2d, elementwise_add."""
    return _fuse(graph, _CONVOLUTIONS, "batch_norm", False)


@register("conv_eltwiseadd_bn_fuse_pass")
def conv_add_bn(graph: Graph) -> int:
    """conv2d, elementwise_add, batch_norm -> conv2d, elementwise_add."""
    return _fuse(graph, _CONVOLUTIONS, "batch_norm", True)


@register("conv_transpose_bn_fuse_pass")
def conv_transpose_bn(graph: Graph) -> int:
    """conv2d_transpose, batch_norm -> conv2d_transpose, elementwise_add."""
    return _fuse(graph, _TRANSPOSED, "batch_norm", False)


@register("conv_transpose_eltwiseadd_bn_fuse_pass")
def conv_transpose_add_bn(graph: Graph) -> int:
    """conv2d_transpose, elementwise_add, batch_norm -> conv2d_transpose, elementwise_add."""
    return _fuse(graph, _TRANSPOSED, "batch_norm", True)


@register("conv_affine_channel_fuse_pass")
def conv_affine(graph: Graph) -> int:
    """conv2d, affine_channel -> conv2d, elementwise_add."""
    return _fuse(graph, _CONVOLUTIONS, "affine_channel", False)


@register("conv_eltwiseadd_affine_channel_fuse_pass")
def conv_add_affine(graph: Graph) -> int:
    """conv2d, elementwise_add, affine_channel -> conv2d, elementwise_add."""
    return _fuse(graph, _CONVOLUTIONS, "affine_channel", True)
