"""The graph of a Program: nodes are operators and versions of variables, on a copy of its ProgramDesc.

Each write of a variable is a new node. Where a name is written again, control nodes order the writer after the
operators that wrote or read it before. Nodes hash by their number, so that sets of nodes have a deterministic order.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import paddle._core as core
from paddle._basics.dtypes import VarType
from paddle._basics.names import CONTROL_DEP_VAR_PREFIX, EMPTY_VAR_NAME

__all__ = [
    "Graph",
    "Node",
    "build_adjacency_list",
    "graph_num",
    "graph_safe_remove_nodes",
    "has_circle",
    "topology_sort",
]

_WITH_SHAPE = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)


class Node:
    """An operator or a version of a variable in a :class:`Graph`, which creates its nodes.

    ``inputs`` and ``outputs`` return copies; ``append_input`` and the like change the links.
    """

    class Type(enum.IntEnum):
        """The kind of a node."""

        Operation = 0
        Variable = 1

    def __init__(self, name: str, kind: Type, number: int, desc: Any) -> None:
        self._name, self._kind, self._number, self._desc = name, kind, number, desc
        self._inputs: list[Node] = []
        self._outputs: list[Node] = []

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<Node {self._number}: {self._kind.name} {self._name}>"

    def name(self) -> str:
        """The variable's name; of an operator, its type when the node was created."""
        return self._name

    def node_type(self) -> Type:
        """``Node.Type.Operation`` or ``Node.Type.Variable``."""
        return self._kind

    def id(self) -> int:
        """Its number; numbers grow in the order of creation."""
        return self._number

    def var(self) -> Any:
        """The VarDesc; None for an operator, a control node or an undeclared name."""
        return self._desc if self.is_var() else None

    def op(self) -> Any:
        """The OpDesc; None for a variable."""
        return self._desc if self.is_op() else None

    def is_op(self) -> bool:
        """Whether it is an operator."""
        return self._kind == Node.Type.Operation

    def is_var(self) -> bool:
        """Whether it is a variable or a control node."""
        return self._kind == Node.Type.Variable

    def is_ctrl_var(self) -> bool:
        """Whether it is a control node, which orders two operators."""
        return self.is_var() and CONTROL_DEP_VAR_PREFIX in self._name

    @property
    def inputs(self) -> list[Node]:
        return list(self._inputs)

    @property
    def outputs(self) -> list[Node]:
        return list(self._outputs)

    def clear_inputs(self) -> None:
        """Removes all inputs."""
        self._inputs.clear()

    def clear_outputs(self) -> None:
        """Removes all outputs."""
        self._outputs.clear()

    def append_input(self, node: Node) -> None:
        """Adds an input."""
        self._inputs.append(node)

    def append_output(self, node: Node) -> None:
        """Adds an output."""
        self._outputs.append(node)

    def remove_input(self, node: Node | int) -> None:
        """Removes an input, given as a node or a number."""
        self._inputs[:] = _without(self._inputs, node)

    def remove_output(self, node: Node | int) -> None:
        """Removes an output, given as a node or a number."""
        self._outputs[:] = _without(self._outputs, node)


def _without(nodes: list[Node], gone: Node | int) -> list[Node]:
    number = gone.id() if isinstance(gone, Node) else gone
    return [n for n in nodes if n.id() != number]


class Graph:
    """Block 0 of a ProgramDesc as a graph; changes do not affect the ProgramDesc.

    Args:
        program_desc (core.ProgramDesc): ``program.desc``.

    Raises:
        TypeError: for anything else.
        ValueError: when an operator writes one variable twice.
    """

    def __init__(self, program_desc: Any) -> None:
        if not isinstance(program_desc, core.ProgramDesc):
            raise TypeError(f"core.Graph: a ProgramDesc is expected (program.desc), got {type(program_desc)}")
        self._start(program_desc)
        self._resolve(self._read())

    def _start(self, program_desc: Any) -> None:
        self._desc = core.ProgramDesc(program_desc)
        self._nodes: dict[int, Node] = {}
        self._made = 0
        self._attrs: dict[str, Any] = {}

    def _read(self) -> dict[str, list[Node]]:
        """Creates the nodes of block 0; returns the versions of each name."""
        block = self._desc.block(0)
        declared = {v.name(): v for v in block.all_vars()}
        versions: dict[str, list[Node]] = {}

        def version(name: str) -> Node:
            node = self._make(name, Node.Type.Variable, declared.get(name))
            versions.setdefault(name, []).append(node)
            return node

        for number in range(block.op_size()):
            desc = block.op(number)
            op = self._make(desc.type(), Node.Type.Operation, desc)
            for name in desc.input_arg_names():
                _link(versions[name][-1] if name in versions else version(name), op)
            written = desc.output_arg_names()
            for name in written:
                if name != EMPTY_VAR_NAME and written.count(name) > 1:
                    raise ValueError(f"core.Graph: the operator {desc.type()} has the output {name} more than once")
                _link(op, version(name))
        for name in declared:
            if name not in versions and name != EMPTY_VAR_NAME:
                version(name)
        return versions

    def _make(self, name: str, kind: Node.Type, desc: Any) -> Node:
        node = Node(name, kind, self._made, desc)
        self._nodes[self._made] = node
        self._made += 1
        return node

    # ------------------------------------------------------------------ nodes

    def nodes(self) -> set[Node]:
        """All nodes."""
        return set(self._nodes.values())

    def create_var_node(self, var_desc: Any) -> Node:
        """A new node, without links, of a copy of a VarDesc."""
        desc = core.VarDesc(var_desc.name())
        _copy_var(var_desc, desc)
        return self._make(desc.name(), Node.Type.Variable, desc)

    def create_op_node(self, op_desc: Any) -> Node:
        """A new node, without links, of a copy of an OpDesc."""
        desc = core.OpDesc()
        desc.copy_from(op_desc)
        return self._make(desc.type(), Node.Type.Operation, desc)

    def create_control_dep_var(self) -> Node:
        """A new control node."""
        return self._make(f"{CONTROL_DEP_VAR_PREFIX}@{self._made}", Node.Type.Variable, None)

    def create_empty_node(self, name: str, kind: Node.Type) -> Node:
        """A node without a desc."""
        return self._make(name, kind, None)

    def retrieve_node(self, number: int) -> Node | None:
        """The node with that number, or None."""
        return self._nodes.get(number)

    def remove_node(self, node: Node) -> Node:
        """Removes a node; links to it stay (see :func:`graph_safe_remove_nodes`).

        Raises:
            ValueError: when it is not in the graph.
        """
        if self._nodes.get(node.id()) is not node:
            raise ValueError(f"core.Graph: the node to remove, {node.name()}, is not in the graph")
        return self._nodes.pop(node.id())

    def release_nodes(self) -> list[Node]:
        """Removes all nodes, and returns them."""
        released = list(self._nodes.values())
        self._nodes.clear()
        return released

    def clone(self) -> Graph:
        """A copy of nodes, links and descs, without attributes."""
        copy = Graph.__new__(Graph)
        copy._start(self._desc)
        copies: dict[Node, Node] = {}
        for node in self._nodes.values():
            if node.op() is not None:
                copies[node] = copy.create_op_node(node.op())
            elif node.var() is not None:
                copies[node] = copy.create_var_node(node.var())
            elif node.is_ctrl_var():
                copies[node] = copy.create_control_dep_var()
            else:
                copies[node] = copy.create_empty_node(node.name(), node.node_type())
        for node, copied_node in copies.items():
            copied_node._inputs = [copies[n] for n in node._inputs]
            copied_node._outputs = [copies[n] for n in node._outputs]
        return copy

    # ------------------------------------------------------------------ attributes of passes

    def has(self, name: str) -> bool:
        """Whether there is an attribute of that name."""
        return name in self._attrs

    def set(self, name: str, value: Any) -> None:
        """Sets the attribute `name`.

        Raises:
            ValueError: when the attribute exists.
        """
        if name in self._attrs:
            raise ValueError(f"core.Graph: there is an attribute {name} already")
        self._attrs[name] = value

    set_not_owned = set

    def _get(self, name: str, kind: type) -> Any:
        if name not in self._attrs:
            raise ValueError(f"core.Graph: there is no attribute {name}")
        if not isinstance(value := self._attrs[name], kind):
            raise ValueError(f"core.Graph: the attribute {name} is no {kind.__name__}, but {value!r}")
        return value

    def get_int(self, name: str) -> int:
        """The attribute `name`, an int."""
        return self._get(name, int)

    def get_float(self, name: str) -> float:
        """The attribute `name`, a float."""
        return self._get(name, float)

    get_double = get_float

    def get_string(self, name: str) -> str:
        """The attribute `name`, a str."""
        return self._get(name, str)

    def get_marked_nodes(self, name: str) -> Any:
        """The attribute `name`, a set of nodes."""
        return self._get(name, Set)

    def erase(self, name: str) -> None:
        """Removes an attribute.

        Raises:
            ValueError: when there is no such attribute.
        """
        self._get(name, object)
        del self._attrs[name]

    # ------------------------------------------------------------------ order

    def resolve_hazard(self, var_nodes: Mapping[str, list[Node]]) -> None:
        """Adds control nodes that order the writer of a version after the writer and readers of the previous version.

        Args:
            var_nodes (dict): name to its versions in order.

        Raises:
            ValueError: when no operator writes a version after the first.
        """
        self._resolve(var_nodes)

    def _resolve(self, var_nodes: Mapping[str, list[Node]]) -> None:
        for name, versions in var_nodes.items():
            if name == EMPTY_VAR_NAME:
                continue
            for old, new in zip(versions, versions[1:], strict=False):
                if not new._inputs:
                    raise ValueError(f"core.Graph: no operator writes the later version of the variable {name}")
                for before in (*old._inputs[:1], *old._outputs):
                    self._keep_order(before, new._inputs[0])

    def _keep_order(self, before: Node, after: Node) -> None:
        if before is not after and not set(before._outputs) & set(after._inputs):
            control = self.create_control_dep_var()
            _link(before, control)
            _link(control, after)

    # ------------------------------------------------------------------ back to a program

    def _to_desc(self) -> Any:
        """A ProgramDesc of the operators in topological order, with the sub-blocks of the original Program."""
        ops = [n.op() for n in topology_sort(self) if n.op() is not None]
        made = core.ProgramDesc(self._desc)
        block = made.block(0)
        block._remove_op(0, block.op_size())
        kept = {n.name(): n.var() for n in self._nodes.values() if n.var() is not None}
        for var in block.all_vars():
            if var.name() not in kept:
                block._remove_var(var.name())
        for name, desc in kept.items():
            if not block.has_var(name):
                _copy_var(desc, block.var(name))
        for op in ops:
            block.append_op().copy_from(op)
        return made


def _link(before: Node, after: Node) -> None:
    before._outputs.append(after)
    after._inputs.append(before)


def _copy_var(source: Any, target: Any) -> None:
    kind = source.type()
    target.set_type(kind)
    target.set_persistable(source.persistable())
    target.set_need_check_feed(source.need_check_feed())
    if kind in _WITH_SHAPE:
        target.set_dtype(source.dtype())
        target.set_shape(source.shape())
        if kind != VarType.SELECTED_ROWS:
            target.set_lod_level(source.lod_level())


def graph_safe_remove_nodes(graph: Graph, nodes: Iterable[Node]) -> None:
    """Removes nodes and all links to them from a graph."""
    gone = set(nodes)
    for node in gone:
        graph.remove_node(node)
    for node in graph._nodes.values():
        node._inputs[:] = [n for n in node._inputs if n not in gone]
        node._outputs[:] = [n for n in node._outputs if n not in gone]


def build_adjacency_list(graph: Graph) -> dict[Node, set[Node]]:
    """For each operator, its predecessors: the operators whose outputs or control nodes it reads."""
    ops = [n for n in graph._nodes.values() if n.is_op()]
    return {op: {before for var in op._inputs for before in var._inputs} for op in ops}


def _walk(graph: Graph) -> tuple[list[Node], bool]:
    """The operators in topological order, ties by creation; and whether there is a cycle."""
    needs = build_adjacency_list(graph)
    order: list[Node] = []
    done: dict[Node, bool] = {}
    circle = False
    for start in needs:
        stack: list[tuple[Node, Iterator[Node]]] = [(start, iter(()))] if start not in done else []
        while stack:
            node, waiting = stack[-1]
            if node not in done:
                done[node] = False
                waiting = iter(sorted(needs[node], key=Node.id))
                stack[-1] = node, waiting
            for before in waiting:
                if before not in done:
                    stack.append((before, iter(())))
                    break
                circle = circle or not done[before]
            else:
                done[node] = True
                order.append(node)
                stack.pop()
    return order, circle


def topology_sort(graph: Graph) -> list[Node]:
    """The operators in topological order, ties by creation.

    Raises:
        ValueError: when the graph has a cycle.
    """
    order, circle = _walk(graph)
    if circle:
        raise ValueError("core.topology_sort: the graph has a cycle, so its operators have no topological order")
    return order


def has_circle(graph: Graph) -> bool:
    """Whether the graph has a cycle."""
    return _walk(graph)[1]


def graph_num(graph: Graph) -> int:
    """The number of connected components."""
    left, parts = dict(graph._nodes), 0
    while left:
        parts += 1
        waiting = deque([left.popitem()[1]])
        while waiting:
            node = waiting.popleft()
            for near in (*node._inputs, *node._outputs):
                if left.pop(near.id(), None) is not None:
                    waiting.append(near)
    return parts
