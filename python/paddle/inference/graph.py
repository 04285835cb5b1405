"""Graph: the operators of a model's block 0 with their readers and writers, for passes that replace operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_

__all__ = ["Graph", "Node"]

_DEVICE_ATTRS = {"op_device"}
_NORMS = ("batch_norm", "sync_batch_norm")


class Node:
    """An operator: its type, and the names of its inputs and outputs by slot."""

    __slots__ = ("type", "ins", "outs", "desc", "_new_attrs")

    def __init__(self, type: str, ins: dict, outs: dict, desc: Any = None, attrs: dict | None = None) -> None:  # noqa: A002
        self.type = type
        self.ins: dict[str, list[str]] = ins
        self.outs: dict[str, list[str]] = outs
        #: the OpDesc in the file; None for an operator of a pass
        self.desc = desc
        self._new_attrs: dict[str, Any] = attrs or {}

    def one(self, slot: str) -> str | None:
        """The only input of a slot; None for none, or several."""
        names = self.ins.get(slot) or ()
        return names[0] if len(names) == 1 else None

    def out(self, slot: str = "Out") -> str:
        """The only output of a slot; an empty name for none, or several."""
        names = self.outs.get(slot) or ()
        return names[0] if len(names) == 1 else ""

    def reads(self) -> Iterator[str]:
        """The names of all inputs."""
        return (name for names in self.ins.values() for name in names)

    def writes(self) -> Iterator[str]:
        """The names of all outputs, without the running statistics that a batch_norm in test leaves as they are."""
        if self.type in _NORMS and (self.attr("is_test", False) or self.attr("use_global_stats", False)):
            kept = {name for slot in ("Mean", "Variance") for name in self.ins.get(slot, ())}
            return (name for names in self.outs.values() for name in names if name not in kept)
        return (name for names in self.outs.values() for name in names)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute; `default` where the operator has none of that name."""
        if name in self._new_attrs:
            return self._new_attrs[name]
        return self.desc.attr(name) if self.desc is not None and self.desc.has_attr(name) else default

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute."""
        self._new_attrs[name] = value

    def attrs(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that the operator has."""
        values = {name: self.attr(name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def copied(self, type: str, ins: dict, outs: dict, attrs: dict) -> Node:  # noqa: A002
        """An operator with all attributes of this one, and more."""
        node = Node(type, ins, outs, None, {**self._new_attrs, **attrs})
        if self.desc is not None:
            old = {n: self.desc.attr(n) for n in self.desc.attr_names() if n not in _DEVICE_ATTRS}
            node._new_attrs = {**old, **node._new_attrs}
        return node


class Graph:
    """The operators of block 0 of a Program, and its parameters.

    Args:
        desc (ProgramDesc): the Program; `write_back` changes it.
        scope (Scope): the parameters.
        pinned (iterable of str): variables that stay: what is fed and fetched.
        bfloat16_ops (set of str): for the pass of bfloat16: the only types that it changes; all where it is empty.
    """

    def __init__(self, desc: Any, scope: Any, pinned: Iterable[str], bfloat16_ops: frozenset = frozenset()) -> None:
        self.desc = desc
        self.block = desc.block(0)
        self.scope = scope
        self.bfloat16_ops = bfloat16_ops
        self.pinned = set(pinned)
        for i in range(1, desc.num_blocks()):
            block = desc.block(i)
            for k in range(block.op_size()):
                op = block.op(k)
                self.pinned.update(op.input_arg_names())
                self.pinned.update(op.output_arg_names())
        self.nodes: list[Node] = []
        for i in range(self.block.op_size()):
            op = self.block.op(i)
            self.nodes.append(Node(op.type(), op.inputs(), op.outputs(), op))
        self._readers: dict[str, list[Node]] = {}
        self._writers: dict[str, list[Node]] = {}
        for node in self.nodes:
            self._index(node)
        self._made = 0

    def _index(self, node: Node) -> None:
        for name in node.reads():
            self._readers.setdefault(name, []).append(node)
        for name in node.writes():
            self._writers.setdefault(name, []).append(node)

    def _forget(self, node: Node) -> None:
        for name in node.reads():
            self._readers[name].remove(node)
        for name in node.writes():
            self._writers[name].remove(node)

    # ------------------------------------------------------------------ matching

    def find(self, *types: str) -> list[Node]:
        """The operators of these types, in order."""
        return [node for node in self.nodes if node.type in types]

    def readers(self, name: str) -> list[Node]:
        """The operators that read a variable."""
        return list(self._readers.get(name, ()))

    def reader(self, name: str) -> Node | None:
        """The only reader of a variable that nothing else needs: written once, neither fed, fetched nor persistable."""
        readers = self._readers.get(name, ())
        if len(readers) != 1 or name in self.pinned or len(self._writers.get(name, ())) != 1 or self.is_param(name):
            return None
        return readers[0]

    def writer(self, name: str | None) -> Node | None:
        """The only writer of a variable; None for none, or several."""
        writers = self._writers.get(name, ()) if name else ()
        return writers[0] if len(writers) == 1 else None

    def steady(self, *names: str | None) -> bool:
        """Whether the variables keep one value during a run, so that they may be read later than they are."""
        return all(n is not None and len(self._writers.get(n, ())) + self.is_param(n) <= 1 for n in names)

    def unread(self, node: Node, *slots: str) -> bool:
        """Whether the outputs of these slots are needed by nothing."""
        return not any(self._readers.get(n) or n in self.pinned for slot in slots for n in node.outs.get(slot, ()))

    # ------------------------------------------------------------------ variables

    def is_param(self, name: str | None) -> bool:
        """Whether a variable is a parameter that no operator changes."""
        if not name or self._writers.get(name):
            return False
        var = self.block.find_var(name)
        return var is not None and var.persistable() and self.scope.find_var(name) is not None

    def value(self, name: str) -> np.ndarray:
        """The value of a parameter: a copy."""
        return np.array(self.scope.find_var(name).get_tensor())

    def shape(self, name: str) -> list[int]:
        """The declared shape of a variable, -1 for unknown sizes; [] where it is not declared."""
        var = self.block.find_var(name)
        if var is None or var.type() != VarType.LOD_TENSOR:
            return []
        return list(var.shape())

    def dtype(self, name: str) -> Any:
        """The declared element type of a variable; None where it is not declared."""
        var = self.block.find_var(name)
        return None if var is None or var.type() != VarType.LOD_TENSOR else var.dtype()

    def new_param(self, like: str, array: np.ndarray) -> str:
        """A new parameter of this value; its name begins as that of `like`."""
        name = self._new_name(like)
        array = np.ascontiguousarray(array)
        self.scope.var(name).get_tensor().set(array)
        self._declare(name, list(array.shape), convert_np_dtype_to_dtype_(array.dtype), True)
        return name

    def new_var(self, like: str, shape: list[int], dtype: Any) -> str:
        """A new variable; its name begins as that of `like`."""
        name = self._new_name(like)
        self._declare(name, shape, dtype, False)
        return name

    def _new_name(self, like: str) -> str:
        while True:
            name = f"{like}.fused_{self._made}"
            self._made += 1
            if self.block.find_var(name) is None:
                return name

    def _declare(self, name: str, shape: list[int], dtype: Any, persistable: bool) -> None:
        var = self.block.var(name)
        var.set_type(VarType.LOD_TENSOR)
        var.set_dtype(dtype)
        var.set_shape(shape)
        var.set_persistable(persistable)

    # ------------------------------------------------------------------ changes

    def replace(self, old: Iterable[Node], new: Node | None, at: Node | None = None) -> None:
        """Removes operators; `new` takes the place of `at` (of the last one where it is not given)."""
        gone = list(old)
        ids = {id(node) for node in gone}
        place = next(
            i
            for i in range(len(self.nodes) - 1, -1, -1)
            if self.nodes[i] is at or (at is None and id(self.nodes[i]) in ids)
        )
        kept = [node for node in self.nodes[:place] if id(node) not in ids]
        if new is not None:
            kept.append(new)
        kept += [node for node in self.nodes[place:] if id(node) not in ids]
        self.nodes = kept
        for node in gone:
            self._forget(node)
        if new is not None:
            self._index(new)

    def insert_before(self, node: Node, new: Node) -> None:
        """Inserts an operator."""
        self.nodes.insert(next(i for i, each in enumerate(self.nodes) if each is node), new)
        self._index(new)

    def set_attr(self, node: Node, name: str, value: Any) -> None:
        """Sets an attribute, on which the operator's outputs may depend."""
        self._forget(node)
        node.set_attr(name, value)
        self._index(node)

    def add_input(self, node: Node, slot: str, *names: str) -> None:
        """Gives an operator the variables as the only inputs of a slot."""
        self._forget(node)
        node.ins = {**node.ins, slot: list(names)}
        self._index(node)

    def rename_input(self, node: Node, old: str, new: str) -> None:
        """Makes an operator read another variable."""
        self._forget(node)
        node.ins = {slot: [new if n == old else n for n in names] for slot, names in node.ins.items()}
        self._index(node)

    def counts(self) -> Counter:
        """The number of operators of each type."""
        return Counter(node.type for node in self.nodes)

    def write_back(self) -> None:
        """Makes the block's operators those of the graph, and removes variables that nothing uses."""
        size = self.block.op_size()
        for node in self.nodes:
            op = self.block.append_op()
            if node.desc is not None:
                op.copy_from(node.desc)
            else:
                op.set_type(node.type)
            for slot, names in node.ins.items():
                op.set_input(slot, names)
            for slot, names in node.outs.items():
                op.set_output(slot, names)
            for name, value in node._new_attrs.items():
                op._set_attr(name, value)
            if node.desc is None:
                op.check_attrs()
            node.desc, node._new_attrs = op, {}
        self.block._remove_op(0, size)
        used = {name for node in self.nodes for name in (*node.reads(), *node.writes())} | self.pinned
        for var in self.block.all_vars():
            if var.name() not in used:
                if var.persistable():
                    self.scope.erase([var.name()])
                self.block._remove_var(var.name())
