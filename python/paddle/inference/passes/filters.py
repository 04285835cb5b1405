"""Filters packed at load: those of a convolution as panels for the processor's matrix unit.

The unit computes convolutions with packed filters only. The filters themselves stay: for numbers that the unit cannot
multiply, and for sizes that it does not make faster.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph

from .panels import SLOT, Packing

__all__ = ["pack_filters"]

#: operators that read panels
_CONVOLUTIONS = ("conv2d", "conv2d_fusion")

#: the least number of elements
_LEAST = 512


def pack_filters(graph: Graph) -> set[str]:
    """Gives convolutions the panels of their filters; returns the new variables."""
    packing = Packing(graph)
    for node in graph.find(*_CONVOLUTIONS):
        w, pair = node.one("Filter"), [1, 1]
        if w is None or not graph.is_param(w) or graph.dtype(w) != VarType.FP32 or node.attr("groups", 1) != 1:
            continue
        strides, dilations = (tuple(node.attr(name, pair)) for name in ("strides", "dilations"))
        shape = graph.shape(w)
        if len(shape) != 4 or int(np.prod(shape)) < _LEAST or (len(strides), len(dilations)) != (2, 2):
            continue
        if node.attr("data_format", "NCHW") not in ("NCHW", "AnyLayout") or min(*strides, *dilations) < 1:
            continue
        key = strides, dilations, node.attr("mkldnn_data_type", "float32") == "bfloat16"
        name = packing.form(w, key, partial(graph.scope.find_var(w).get_tensor()._filter_panels, *key))
        if name is not None:
            graph.add_input(node, SLOT, name)
    return packing.names()
