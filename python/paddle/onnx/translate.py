"""Programs as graphs of ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType

from .call import Call, where_created
from .graph import ELEMENT_TYPES, Graph, Root
from .proto import ValueType
from .registry import RULES

__all__ = ["Translator", "unsupported_operators"]

#: operators that compute nothing which a served model needs
_WITHOUT_RESULT = ("feed", "fetch", "assert", "delete_var", "moving_average_abs_max_scale")


def unsupported_operators(program: Any) -> list[str]:
    """Types of operators in a Program that have no rule."""
    types = {op.type for block in program.blocks for op in block.ops}
    return sorted(types - set(RULES) - set(_WITHOUT_RESULT))


def _needed(block: Any, feeds: set[str], fetches: Iterable[str]) -> list[Any]:
    """The operators that compute fetched variables from fed ones."""
    wanted, kept = set(fetches) - feeds, []
    for op in reversed(block.ops):
        if wanted & set(op.output_arg_names):
            wanted |= set(op.input_arg_names) - feeds
            kept.append(op)
    return kept[::-1]


class Values:
    """ONNX values by variable name: those of a block, above those of its outer blocks."""

    def __init__(self, outer: Values | None, load: Callable[[str], str | None]) -> None:
        self._outer = outer
        self._load = load
        self._own: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        values: Values | None = self
        while values is not None:
            if name in values._own:
                return values._own[name]
            values = values._outer
        return self._load(name)

    def __setitem__(self, name: str, value: str) -> None:
        self._own[name] = value


class Translator:
    """Makes the graph of a Program.

    Args:
        program (Program): an inference Program.
        parameter (callable): the elements of a persistable variable; None where it has no value.
        opset (int): version of the operator set.
    """

    def __init__(self, program: Any, parameter: Callable[[str], np.ndarray | None], opset: int) -> None:
        self.program = program
        self.root = Root(opset)
        self._parameter = parameter
        self._loaded: dict[str, str] = {}

    def _load(self, name: str) -> str | None:
        """The constant of a parameter."""
        if name not in self._loaded:
            array = self._parameter(name)
            if array is None:
                return None
            self._loaded[name] = self.root.constant(np.ascontiguousarray(array).reshape(array.shape), name)
        return self._loaded[name]

    def graph(self, feeds: Iterable[str], fetches: Iterable[str]) -> Graph:
        """The main graph, from fed variables to fetched ones.

        Raises:
            NotImplementedError: for an operator without a rule, or that a rule does not express.
        """
        block = self.program.global_block()
        graph, values, graph_inputs = Graph(self.root), Values(None, self._load), list(feeds)
        for name in graph_inputs:
            self.root.taken.add(name)
            graph.inputs.append((name, self.type_of(block.var(name), name)))
            values[name] = name
        self.run(block, graph, values, _needed(block, set(graph_inputs), fetches))
        for name in fetches:
            found = values.get(name)
            if found is None:
                raise ValueError(f"paddle.onnx.export: the output {name} is not computed by the Program")
            if found != name:
                # an output of the model is the result of a node
                found = graph.add_always("Identity", [found])
                if name not in self.root.taken:
                    self.root.taken.add(name)
                    graph.rename(found, name, len(graph.nodes) - 1)
                    found = name
            graph.outputs.append((found, self.type_of(block.var(name), name)))
        graph.prune()
        return graph

    def type_of(self, var: Any, name: str = "") -> ValueType:
        """The type of a variable as input or output; unknown sizes get names."""
        sequence = var.type == VarType.LOD_TENSOR_ARRAY
        if var.dtype not in ELEMENT_TYPES:
            raise NotImplementedError(f"paddle.onnx.export: the variable {var.name} has the type {var.dtype}")
        if sequence:
            return ValueType(var.dtype, None, True)
        shape: list[int | str] = [f"{name}_{i}" if n == -1 else n for i, n in enumerate(var.shape)]
        return ValueType(var.dtype, shape)

    def run(self, block: Any, graph: Graph, values: Values, ops: list[Any] | None = None) -> None:
        """Adds the nodes of a block's operators; of some of them, if they are given."""
        ops = list(block.ops) if ops is None else ops
        i = 0
        while i < len(ops):
            op = ops[i]
            i += 1
            if op.type in _WITHOUT_RESULT:
                continue
            function = RULES.get(op.type)
            if function is None:
                raise NotImplementedError(
                    f"paddle.onnx.export: operator {op.type} has no rule{where_created(op)}. "
                    "`python -m paddle.onnx` lists the operators that are exported"
                )
            call = Call(graph, op, block, values, self)
            call.following = ops[i:]
            function(call)
            call.finish()
            i += call.consumed

    def sub_graph(self, block: Any, outer: Values) -> tuple[Graph, Values]:
        """An empty graph for a sub-block, whose operators read the values of outer blocks."""
        return Graph(self.root), Values(outer, self._load)
