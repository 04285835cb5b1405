"""An operator of a Program as rules see it: inputs, attributes, and the graph that its nodes go to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

import paddle._core as _core
from paddle._basics.dtypes import VarType
from paddle._programs.operator import created_at

from .graph import ELEMENT_TYPES, Graph, onnx_type

__all__ = ["Call", "where_created"]


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    return {op["type"]: {a["name"]: a["default"] for a in op["attrs"]} for op in _core.op_table()}


def where_created(op: Any) -> str:
    """The name scope and the user's line of an operator, as text for errors."""
    text = ""
    if op.has_attr("op_namescope") and op.attr("op_namescope").strip("/"):
        text += f", in the layer {op.attr('op_namescope').strip('/')}"
    return text + created_at(op)


class Call:
    """One operator: names of its ONNX inputs, its attributes; `set` gives its outputs.

    Args:
        graph (Graph): nodes are added to it.
        op (Operator): the operator.
        block (Block): its block, for variables.
        values (dict): variable name -> ONNX value; outputs are added.
        translator: makes graphs of sub-blocks.
    """

    def __init__(self, graph: Graph, op: Any, block: Any, values: Any, translator: Any) -> None:
        self.graph = graph
        self.desc = op
        self.block = block
        self.values = values
        self.translator = translator
        self.opset = graph.opset
        self.first = len(graph.nodes)
        #: the operators after this one, and how many of them this rule has translated too
        self._given: list[tuple[str, str]] = []
        #: the input that constants have the element type of
        self.main = "X" if self.has("X") else next((n for n in op.input_names if op.input(n)), "")
        self.following: list[Any] = []
        self.consumed = 0

    def fail(self, reason: str) -> NoReturn:
        """Raises NotImplementedError with the operator, the layer and the user's line."""
        raise NotImplementedError(f"paddle.onnx.export: operator {self.desc.type}: {reason}{where_created(self.desc)}")

    # ------------------------------------------------------------------ inputs

    def names(self, slot: str) -> list[str]:
        """The variables in an input slot."""
        return self.desc.input(slot) if slot in self.desc.input_names else []

    def has(self, slot: str) -> bool:
        return bool(self.names(slot))

    def xs(self, slot: str) -> list[str]:
        """The ONNX values of an input slot."""
        return [self.value(name) for name in self.names(slot)]

    def x(self, slot: str = "X") -> str:
        """The ONNX value of an input slot; "" where it is absent."""
        values = self.xs(slot)
        return values[0] if values else ""

    def value(self, variable: str) -> str:
        found = self.values.get(variable)
        if found is None:
            self.fail(f"it reads the variable {variable}, which is neither fed, nor a parameter, nor computed before")
        return found

    def var(self, name: str) -> Any:
        return self.block._var_recursive(name)

    def shape(self, slot: str = "X", i: int = 0) -> list[int]:
        """Sizes of an input or output; -1 where unknown."""
        return list(self.var(self._variable(slot, i)).shape)

    def out_shape(self, slot: str) -> list[int]:
        """Declared sizes of an output."""
        return list(self.var(self.desc.output(slot)[0]).shape)

    def rank(self, slot: str = "X", i: int = 0) -> int:
        return len(self.shape(slot, i))

    def dtype(self, slot: str = "X", i: int = 0) -> str:
        """numpy's name of the element type of an input or output."""
        kind = self.var(self._variable(slot, i)).dtype
        if kind not in ELEMENT_TYPES:
            self.fail(f"ONNX tensors of type {kind} are not supported")
        return ELEMENT_TYPES[kind][1]

    def is_float(self, slot: str = "X") -> bool:
        return self.dtype(slot).startswith("float") or self.dtype(slot) == "uint16"

    def _variable(self, slot: str, i: int) -> str:
        return (self.names(slot) or self.desc.output(slot))[i]

    def attr(self, name: str) -> Any:
        """An attribute, or its default."""
        if self.desc.has_attr(name):
            return self.desc.attr(name)
        return _defaults()[self.desc.type][name]

    def element_type(self, attr: str = "dtype") -> str:
        """numpy's name of the element type in an attribute (uint16: bfloat16)."""
        kind = VarType(self.attr(attr))
        if kind not in ELEMENT_TYPES:
            self.fail(f"ONNX tensors of type {kind} are not supported")
        return ELEMENT_TYPES[kind][1]

    def known(self, value: str) -> np.ndarray | None:
        """The elements of a constant; None for another value."""
        return self.graph.known(value)

    def ints(self, attr: str, tensor: str = "", tensors: str = "") -> list[int] | str:
        """Integers from an attribute, a tensor or a list of tensors: a list where known, else an int64 value [n]."""
        if tensors and self.has(tensors):
            items = [self.flat(self.cast(v, "int64")) for v in self.xs(tensors)]
            value = self.op("Concat", *items, axis=0) if len(items) > 1 else items[0]
        elif tensor and self.has(tensor):
            value = self.flat(self.cast(self.x(tensor), "int64"))
        else:
            given = self.attr(attr)
            return [int(n) for n in given] if isinstance(given, (list, tuple)) else [int(given)]
        array = self.known(value)
        return value if array is None else [int(n) for n in array]

    def flat_ints(self, slot: str) -> list[int] | str:
        """The integers of an input: a list where known, else an int64 value [n]."""
        value = self.flat(self.cast(self.x(slot), "int64"))
        array = self.known(value)
        return value if array is None else [int(n) for n in array]

    def constant_ints(self, what: str, value: list[int] | str) -> list[int]:
        """The integers, which have to be known during export."""
        if isinstance(value, str):
            self.fail(f"{what} has to be constant, but is computed")
        return value

    # ------------------------------------------------------------------ outputs

    def set(self, slot: str, value: str, i: int = 0) -> None:
        """Gives an output; ignored where the operator has no such output."""
        names = self.desc.output(slot) if slot in self.desc.output_names else []
        if i >= len(names):
            return
        self.values[names[i]] = value
        self._given.append((names[i], value))

    def finish(self) -> None:
        """Values that the rule's nodes made get the names of the Program's variables."""
        for name, value in self._given:
            made = any(value in node.outputs for node in self.graph.nodes[self.first :])
            if made and name not in self.graph.root.taken:
                self.graph.root.taken.add(name)
                self.graph.rename(value, name, self.first)
                self.values[name] = name

    def set_all(self, slot: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            self.set(slot, value, i)

    # ------------------------------------------------------------------ nodes

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Adds a node with one output; returns its name."""
        return self.graph.add(kind, inputs, **attrs)[0]

    def ops(self, kind: str, *inputs: str, outputs: int, **attrs: Any) -> list[str]:
        """Adds a node with several outputs."""
        return self.graph.add(kind, inputs, outputs, **attrs)

    def const(self, value: Any, dtype: str = "int64") -> str:
        """A constant."""
        array = np.asarray(value)
        with np.errstate(invalid="ignore"):  # what an integer type does not hold wraps, as in C
            return self.graph.root.constant(array.astype(dtype))

    def like(self, value: float, slot: str = "") -> str:
        """A scalar of the element type of an input; the operator's first one by default."""
        slot = slot or self.main
        if self.dtype(slot) == "uint16":
            return self.op(
                "CastLike" if self.opset >= 15 else self._no_bfloat16(), self.const(value, "float32"), self.x(slot)
            )
        return self.const(value, self.dtype(slot))

    def _no_bfloat16(self) -> NoReturn:
        self.fail("bfloat16 requires opset 15 or later")

    def cast(self, value: str, dtype: str) -> str:
        """The value with another element type."""
        array = self.known(value)
        if array is not None and array.dtype == dtype:
            return value
        # numpy has no bfloat16: such a cast is not computed during export
        return self.op("Cast", value, to=onnx_type(dtype), numpy=None if dtype == "uint16" else dtype)

    def flat(self, value: str) -> str:
        """The value with one dimension."""
        return self.reshape(value, [-1])

    def reshape(self, value: str, shape: Sequence[int] | str) -> str:
        """Reshape; 0 keeps a size."""
        return self.op("Reshape", value, shape if isinstance(shape, str) else self.const(list(shape)))

    def transpose(self, value: str, perm: Sequence[int]) -> str:
        perm = list(perm)
        return value if perm == sorted(perm) else self.op("Transpose", value, perm=perm)

    def unsqueeze(self, value: str, axes: Sequence[int]) -> str:
        """New dimensions of size 1 at these places of the result."""
        if not axes:
            return value
        if self.opset >= 13:
            return self.op("Unsqueeze", value, self.const(list(axes)))
        return self.op("Unsqueeze", value, axes=list(axes))

    def squeeze(self, value: str, axes: Sequence[int]) -> str:
        """Without these dimensions of size 1."""
        if not axes:
            return value
        if self.opset >= 13:
            return self.op("Squeeze", value, self.const(list(axes)))
        return self.op("Squeeze", value, axes=list(axes))

    def slice(self, value: str, axes: Sequence[int], starts: Any, ends: Any, steps: Any = None) -> str:
        """Part of a value; starts and ends are lists, or int64 values."""
        given = [x if isinstance(x, str) else self.const(list(x)) for x in (starts, ends, list(axes))]
        if steps is not None:
            given.append(steps if isinstance(steps, str) else self.const(list(steps)))
        return self.op("Slice", value, *given)

    def split(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """The value in parts of these sizes."""
        if len(sizes) == 1:
            return [value]
        if self.opset >= 13:
            return self.ops("Split", value, self.const(list(sizes)), outputs=len(sizes), axis=axis)
        return self.ops("Split", value, outputs=len(sizes), axis=axis, split=list(sizes))

    def reduce(self, kind: str, value: str, axes: Sequence[int] | None, keep: bool) -> str:
        """ReduceSum and its like; all dimensions where axes is None."""
        if axes is None:
            return self.op(f"Reduce{kind}", value, keepdims=int(keep))
        if self.opset >= (13 if kind == "Sum" else 18):
            return self.op(f"Reduce{kind}", value, self.const(list(axes)), keepdims=int(keep))
        return self.op(f"Reduce{kind}", value, axes=list(axes), keepdims=int(keep))

    def sizes(self, slot: str = "X", i: int = 0) -> str:
        """The shape of an input, an int64 value."""
        shape = self.shape(slot, i)
        if -1 not in shape:
            return self.const(shape)
        return self.op("Shape", self.xs(slot)[i])

    def size(self, axis: int, slot: str = "X", i: int = 0) -> str:
        """One size of an input, an int64 value of shape [1]."""
        size = self.shape(slot, i)[axis]
        if size != -1:
            return self.const([size])
        return self.op("Gather", self.sizes(slot, i), self.const([axis % self.rank(slot, i)]), axis=0)

    def full(self, shape: Sequence[int] | str, value: float, dtype: str) -> str:
        """A tensor of equal elements."""
        if not isinstance(shape, str):
            shape = self.const(list(shape))
        sizes = self.known(shape)
        if sizes is not None and np.prod(sizes) <= 4096:
            return self.const(np.full(tuple(sizes), value), dtype)
        return self.op("Expand", self.const(value, dtype), shape)
