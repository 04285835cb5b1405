"""Inserter: adds operators and initialized persistable variables to a graph; checks shared by the passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._basics.names import OpRole
from paddle.static.ir_graph import IrGraph

from .op_slots import _get_op_input_var_names

__all__: list[str] = []


def check_graph(graph: Any) -> None:
    """Raises AssertionError if `graph` is not an IrGraph."""
    assert isinstance(graph, IrGraph), f"a pass is applied to an IrGraph, got {type(graph)}"


def check_scope_and_place(scope: Any, place: Any) -> None:
    """Raises AssertionError if one of them is missing."""
    assert scope is not None, "the pass needs a scope: it must not be None"
    assert place is not None, "the pass needs a place: it must not be None"


def check_kinds(activation: str, weight: str, kinds: tuple[str, ...]) -> None:
    """Raises ValueError for a type of quantization that is not among `kinds`."""
    assert activation != "channel_wise_abs_max", (
        "activation_quantize_type can not be channel_wise_abs_max: activations have one scale"
    )
    for what, kind in (("activation", activation), ("weight", weight)):
        if kind not in kinds:
            raise ValueError(f"Unknown {what}_quantize_type: {kind!r}. It can only be one of {', '.join(kinds)}")


def in_order(nodes: Iterable[Any]) -> list:
    """Nodes sorted by id, so that a pass generates the same names in every run."""
    return sorted(nodes, key=lambda n: n.id())


def persistable_names(graph: IrGraph) -> set[str]:
    """The names of persistable variables."""
    return {n.name() for n in graph.all_persistable_nodes()}


def is_skipped(desc: Any, pattern: Any) -> bool:
    """Whether the name scope of an operator contains the pattern, or one of a list of patterns."""
    patterns = pattern if isinstance(pattern, list) else [pattern] if isinstance(pattern, str) else []
    return desc.has_attr("op_namescope") and any(p in desc.attr("op_namescope") for p in patterns)


def kind_of(desc: Any) -> str:
    """How an operator is quantized: the attribute that the passes set, "" if unset."""
    return desc.attr("quantization_type") if desc.has_attr("quantization_type") else ""


def reads_no_persistable(graph: IrGraph, op: Any) -> bool:
    """Whether none of an operator's main inputs is persistable."""
    return not any(graph._find_node_by_name(op.inputs, n).persistable() for n in _get_op_input_var_names(op))


def remove_unused(graph: IrGraph) -> None:
    """Removes variables without links."""
    used = {n.node for op in graph.all_op_nodes() for n in (*op.inputs, *op.outputs)}
    graph.safe_remove_nodes({n for n in graph.all_var_nodes() if n.node not in used})


def load(scope: Any, name: str) -> np.ndarray:
    """The value of a variable.

    Raises:
        AssertionError: if the scope has no such variable.
    """
    var = scope.find_var(name)
    assert var is not None, f"the scope has no variable {name}"
    return np.array(var.get_tensor())


def store(scope: Any, place: Any, name: str, value: np.ndarray) -> None:
    """Sets the value of a variable, which is created if it does not exist."""
    scope.var(name).get_tensor().set(value, place)


class Inserter:
    """Adds nodes to a graph; persistable variables are initialized in a scope.

    Args:
        graph (IrGraph), scope (Scope), place (Place): as of the passes.
    """

    def __init__(self, graph: IrGraph, scope: Any, place: Any) -> None:
        self.graph, self.scope, self.place = graph, scope, place

    def like(self, name: str, node: Any) -> Any:
        """A new variable with the attributes of another one."""
        return self.graph.create_var_node(name, node.type(), node.shape(), node.dtype())

    def persistable(self, name: str, dtype: Any, value: Any) -> Any:
        """A new persistable variable, initialized with `value`, a list of numbers."""
        array = np.asarray(value, _NUMPY.get(dtype, "float32"))
        store(self.scope, self.place, name, array)
        return self.graph.create_persistable_node(name, VarType.LOD_TENSOR, list(array.shape), dtype)

    def op(self, kind: str, attrs: dict[str, Any], inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
        """A new operator, linked to the nodes (or lists of nodes) in its slots."""
        node = self.graph.create_op_node(kind, {**attrs, "op_role": OpRole.Forward}, inputs, outputs)
        for before in _flatten(inputs):
            self.graph.link_to(before, node)
        for after in _flatten(outputs):
            self.graph.link_to(node, after)
        return node

    def following(
        self,
        kind: str,
        attrs: dict[str, Any],
        x: Any,
        slots: tuple[dict[str, Any], dict[str, Any]],
        names: tuple[str, str],
    ) -> None:
        """An operator that reads `x` and, in training, updates a moving average of its largest magnitude.

        Args:
            kind (str), attrs (dict): the operator.
            x (IrVarNode): its input.
            slots (tuple of dict): its other inputs and its outputs.
            names (tuple of str): prefixes of the names of the average's state and sum.
        """
        inputs, outputs = {"X": x, **slots[0]}, dict(slots[1])
        if not self.graph.is_test():
            for slot, name in zip(("State", "Accum"), names, strict=True):
                node = self.persistable(unique_name.generate(name), x.dtype(), [1])
                inputs[f"In{slot}"] = node
                outputs[f"Out{slot}"] = self.graph.create_var_node_from_desc(node.var())
        self.op(kind, {**attrs, "is_test": self.graph.is_test()}, inputs, outputs)


_NUMPY = {VarType.FP64: "float64", VarType.INT64: "int64"}


def _flatten(slots: dict[str, Any]) -> list:
    return [n for nodes in slots.values() for n in (nodes if isinstance(nodes, list) else [nodes])]
