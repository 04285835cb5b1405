"""Weights packed at load: the constant matrix of a product as panels for the processor's matrix unit.

The unit multiplies three bfloat16 parts of each float32 number. Without panels every run splits the matrix again, which
costs as much as the product with 100 rows.
"""

from __future__ import annotations

import numpy as np

from paddle.inference.graph import Graph

__all__ = ["SLOT", "pack_weights"]

#: operators that read panels
_PRODUCTS = ("fc", "multihead_matmul")

#: the least number of rows, and of columns: smaller matrices stay in the caches
_LEAST = 64


#: their slot; a model that is saved is without it, as panels belong to a processor
SLOT = "Panels"


def pack_weights(graph: Graph) -> set[str]:
    """Gives products the panels of their matrices, which stay for inputs of few rows; returns the new variables."""
    panels: dict[str, str | None] = {}
    for node in graph.find(*_PRODUCTS):
        w = node.one("W")
        if w is None or not graph.is_param(w) or node.attr("mkldnn_data_type", "float32") == "bfloat16":
            continue
        rows, columns = graph.shape(w)[0], int(np.prod(graph.shape(w)[1:]))
        if min(rows, columns) < _LEAST or node.attr("padding_weights", False):
            continue
        if w not in panels:
            packed = graph.scope.find_var(w).get_tensor()._matrix_panels()
            panels[w] = None if packed is None else graph.new_param(w, np.asarray(packed))
        name = panels[w]
        if name is not None:
            graph.add_input(node, SLOT, name)
    return {name for name in panels.values() if name is not None}
