"""A graph of ONNX nodes under construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType

from .folding import fold

__all__ = ["ELEMENT_TYPES", "Graph", "Node", "Root"]

#: VarType -> (number of ONNX's TensorProto.DataType, numpy's name; uint16 holds the bits of bfloat16)
ELEMENT_TYPES: dict[Any, tuple[int, str]] = {
    VarType.BOOL: (9, "bool"),
    VarType.INT8: (3, "int8"),
    VarType.UINT8: (2, "uint8"),
    VarType.INT16: (5, "int16"),
    VarType.INT32: (6, "int32"),
    VarType.INT64: (7, "int64"),
    VarType.FP16: (10, "float16"),
    VarType.BF16: (16, "uint16"),
    VarType.FP32: (1, "float32"),
    VarType.FP64: (11, "float64"),
}
_NUMBERS = {name: number for number, name in ELEMENT_TYPES.values()}


def onnx_type(dtype: str) -> int:
    """ONNX's number of an element type, which numpy's name gives (uint16: bfloat16)."""
    return _NUMBERS[dtype]


@dataclass
class Node:
    """A node: what it computes, and the names of its values ("" for an absent input)."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def graphs(self) -> list[Graph]:
        """The graphs among its attributes."""
        return [value for value in self.attrs.values() if isinstance(value, Graph)]


class Root:
    """What the graphs of one model share: names, constants, the version of the operator set."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.constants: dict[str, np.ndarray] = {}
        self.taken: set[str] = set()
        self._equal: dict[tuple, str] = {}
        self._numbers: dict[str, int] = {}

    def new(self, stem: str) -> str:
        """An unused name that begins with `stem`."""
        name = stem
        while name in self.taken or not name:
            number = self._numbers[stem] = self._numbers.get(stem, -1) + 1
            name = f"{stem}.{number}"
        self.taken.add(name)
        return name

    def constant(self, array: np.ndarray, stem: str = "constant") -> str:
        """The name of a value with these elements; equal small arrays share one."""
        key = (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= 1024 else None
        if key is not None and key in self._equal:
            return self._equal[key]
        name = self.new(stem)
        self.constants[name] = array
        if key is not None:
            self._equal[key] = name
        return name


class Graph:
    """Nodes in the order of execution, with named inputs and outputs; a sub-graph reads values of outer graphs."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.nodes: list[Node] = []
        self.inputs: list[tuple[str, Any]] = []
        self.outputs: list[tuple[str, Any]] = []
        #: prefix of the names of nodes that are added
        self.scope = ""

    @property
    def opset(self) -> int:
        return self.root.opset

    def known(self, name: str) -> np.ndarray | None:
        """The elements of a constant; None for another value."""
        return self.root.constants.get(name)

    def add(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attrs: Any) -> list[str]:
        """Adds a node; returns the names of its outputs. A node of constants becomes a constant."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        if outputs == 1:
            folded = fold(kind, [self.known(name) for name in inputs], attrs)
            if folded is not None:
                return [self.root.constant(folded)]
        names = [self.root.new(f"{self.scope}{kind}") for _ in range(outputs)]
        attrs.pop("numpy", None)
        self.nodes.append(Node(kind, list(inputs), names, attrs, names[0]))
        return names

    def add_always(self, kind: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Adds a node with one output, also where its inputs are constants."""
        name = self.root.new(f"{self.scope}{kind}")
        self.nodes.append(Node(kind, list(inputs), [name], attrs, name))
        return name

    def rename(self, old: str, new: str, since: int) -> None:
        """Renames a value in the nodes from number `since` on and in their sub-graphs."""
        for node in self.nodes[since:]:
            node.inputs = [new if name == old else name for name in node.inputs]
            node.outputs = [new if name == old else name for name in node.outputs]
            for graph in node.graphs():
                graph.outputs = [(new if name == old else name, kind) for name, kind in graph.outputs]
                graph.rename(old, new, 0)

    def read(self) -> set[str]:
        """Names that its nodes and outputs read, those of sub-graphs included."""
        names = {name for name, _ in self.outputs}
        for node in self.nodes:
            names.update(node.inputs)
            for graph in node.graphs():
                names |= graph.read()
        return names

    def prune(self, wanted: Iterable[str] = ()) -> None:
        """Removes nodes whose results are neither outputs nor read."""
        needed = {name for name, _ in self.outputs} | set(wanted)
        kept = []
        for node in reversed(self.nodes):
            if not needed & set(node.outputs):
                continue
            for graph in node.graphs():
                graph.prune()
                needed |= graph.read()
            needed |= set(node.inputs)
            kept.append(node)
        self.nodes = kept[::-1]
