"""Weights packed at load, in the order in which the kernels read them.

The matrix of a product becomes panels for the processor's matrix unit, which multiplies three bfloat16 parts of each
float32 number, or one in a model of bfloat16: without panels every run splits the matrix again, which costs as much as
the product with 100 rows.

Of a recurrent network the input weights are transposed. The state weights become blocks of hidden units with all gates,
[hidden / units, hidden, gates, units], of which a step of one sequence reads each once, consecutively.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType
from paddle.inference.graph import Graph

__all__ = ["SLOT", "Packing", "pack_weights"]

#: operators that read panels
_PRODUCTS = ("fc", "multihead_matmul")

#: the least number of rows, and of columns: smaller matrices stay in the caches
_LEAST = 64

#: rows of the weights for each hidden unit
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

#: hidden units of a block of state weights: whole vectors
_UNITS = (64, 48, 32, 16)

#: their slot; a model that is saved is without it, as panels belong to a processor
SLOT = "Panels"


def pack_weights(graph: Graph) -> set[str]:
    """Gives operators their packed weights; returns the new variables."""
    return _pack_products(graph) | _pack_recurrent(graph)


class Packing:
    """The packed forms of parameters, each made once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._made: dict[tuple, str | None] = {}

    def form(self, parameter: str, key: Any, make: Callable[[], Any]) -> str | None:
        """The variable of a form that `key` names, of the array that `make` returns; None if that is None."""
        if (parameter, key) not in self._made:
            array = make()
            self._made[parameter, key] = None if array is None else self._graph.new_param(parameter, np.asarray(array))
        return self._made[parameter, key]

    def names(self) -> set[str]:
        """The new variables."""
        return {name for name in self._made.values() if name is not None}


def _pack_products(graph: Graph) -> set[str]:
    """Gives products the panels of their matrices, which stay for inputs of few rows."""
    packing = Packing(graph)
    for node in graph.find(*_PRODUCTS):
        w = node.one("W")
        if w is None or not graph.is_param(w):
            continue
        rows, columns = graph.shape(w)[0], int(np.prod(graph.shape(w)[1:]))
        if min(rows, columns) < _LEAST or node.attr("padding_weights", False):
            continue
        bfloat16 = node.attr("mkldnn_data_type", "float32") == "bfloat16"
        name = packing.form(w, bfloat16, partial(graph.scope.find_var(w).get_tensor()._matrix_panels, bfloat16))
        if name is not None:
            graph.add_input(node, SLOT, name)
    return packing.names()


def _pack_recurrent(graph: Graph) -> set[str]:
    """Gives recurrent networks their packed weights; the others stay, for states of several sequences."""
    packing = Packing(graph)

    def columns(name: str) -> np.ndarray:
        return graph.value(name).T

    def blocks(name: str, gates: int, hidden: int, units: int) -> np.ndarray:
        return graph.value(name).reshape(gates, hidden // units, units, hidden).transpose(1, 3, 0, 2)

    for node in graph.find("rnn"):
        gates, hidden = _GATES.get(node.attr("mode", "")), node.attr("hidden_size", 0)
        units = next((u for u in _UNITS if hidden % u == 0), 0)
        # the biases are the second half
        weights = node.ins.get("WeightList", [])
        matrices = weights[: len(weights) // 2]
        if gates is None or hidden < _LEAST or not units or not node.attr("is_test", False):
            continue
        if not all(graph.is_param(n) and graph.dtype(n) in (VarType.FP32, VarType.FP64) for n in matrices):
            continue
        if any(graph.shape(n) != [gates * hidden, hidden] for n in matrices[1::2]):
            continue
        names: list = []
        for ih, hh in zip(matrices[::2], matrices[1::2], strict=True):
            names.append(packing.form(ih, "columns", partial(columns, ih)))
            names.append(packing.form(hh, units, partial(blocks, hh, gates, hidden, units)))
        graph.add_input(node, SLOT, *names)
    return packing.names()
