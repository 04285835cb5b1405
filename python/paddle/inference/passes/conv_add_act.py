"""conv_elementwise_add(2)_act_fuse_pass: bias, residual and activation after a convolution become conv2d_fusion."""

from __future__ import annotations

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph, Node

from .conv_bn import channel_bias
from .registry import register

__all__: list[str] = []

_ATTRS = ("strides", "paddings", "padding_algorithm", "groups", "dilations", "data_format", "mkldnn_data_type")


def _activation(node: Node | None, x: str) -> str | None:
    """The name by which conv2d_fusion computes an operator; None for others."""
    if node is None or node.one("X") != x:
        return None
    if node.type == "relu" or (node.type == "relu6" and node.attr("threshold", 6.0) == 6.0):
        return node.type
    return None


def _residual(graph: Graph, node: Node | None, x: str) -> str | None:
    """The other operand, of the same shape, of an elementwise_add of `x`."""
    if node is None or node.type != "elementwise_add" or node.attr("axis", -1) not in (-1, 0):
        return None
    names = [node.one("X"), node.one("Y")]
    if x not in names or names[0] == names[1]:
        return None
    other = names[1] if names[0] == x else names[0]
    shape = graph.shape(x)
    if other is None or len(shape) != 4 or graph.shape(other) != shape or not graph.steady(other):
        return None
    return None if graph.dtype(other) != VarType.FP32 else other


def _fuse(graph: Graph, with_residual: bool, with_activation: bool) -> int:
    count = 0
    for conv in graph.find("conv2d", "depthwise_conv2d"):
        x, w, y = conv.one("Input"), conv.one("Filter"), conv.out("Output")
        if x is None or w is None or not graph.steady(x) or not graph.is_param(w) or graph.dtype(w) != VarType.FP32:
            continue
        if conv.attr("data_format", "NCHW") not in ("NCHW", "AnyLayout") or conv.attr("fuse_relu", False):
            continue
        if conv.ins.get("Bias") or conv.ins.get("ResidualData"):
            continue
        channels, gone, last = graph.shape(w)[0], [conv], y
        after = graph.reader(y)
        bias = None
        if after is not None and after.type == "elementwise_add" and after.one("X") == y:
            bias = channel_bias(graph, after, channels)
        if after is not None and bias is not None:
            gone.append(after)
            last = after.out()
            after = graph.reader(last)
        residual = _residual(graph, after, last) if with_residual else None
        if after is not None and residual is not None:
            gone.append(after)
            last = after.out()
            after = graph.reader(last)
        activation = _activation(after, last) if with_activation else None
        if after is not None and activation is not None:
            gone.append(after)
            last = after.out()
        if (with_residual and residual is None) or (with_activation and activation is None) or len(gone) == 1:
            continue
        if bias is None:
            bias = np.zeros(channels, np.float32)
        ins = {"Input": [x], "Filter": [w], "Bias": [graph.new_param(w + ".bias", bias.astype(np.float32))]}
        if residual is not None:
            ins["ResidualData"] = [residual]
        attrs = {**conv.attrs(*_ATTRS), "activation": activation or "identity", "data_format": "NCHW"}
        graph.replace(gone, Node("conv2d_fusion", ins, {"Output": [last]}, None, attrs))
        count += 1
    return count


@register("conv_elementwise_add2_act_fuse_pass")
def conv_bias_residual_act(graph: Graph) -> int:
    """conv2d, elementwise_add of a bias and of a residual, relu -> conv2d_fusion."""
    return _fuse(graph, True, True)


@register("conv_elementwise_add_act_fuse_pass")
def conv_bias_act(graph: Graph) -> int:
    """conv2d, elementwise_add of a bias, relu -> conv2d_fusion."""
    return _fuse(graph, False, True)


@register("conv_elementwise_add_fuse_pass")
def conv_bias(graph: Graph) -> int:
    """conv2d, elementwise_add of a bias -> conv2d_fusion."""
    return _fuse(graph, False, False)
