"""IrGraph and its nodes: the Python interface of core.Graph for passes (fluid.framework.IrGraph)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import paddle._core as core
from paddle._programs import graph as _graph
from paddle._programs.block import Block
from paddle._programs.graph import Graph, Node
from paddle._programs.program import Program
from paddle.static.picture import draw_nodes, render

__all__ = ["IrGraph", "IrNode", "IrOpNode", "IrVarNode"]


class IrNode:
    """A node of an :class:`IrGraph`; every query creates new objects, which share the core.Node in `node`.

    Args:
        node (core.Node): the wrapped node.
    """

    def __init__(self, node: Node) -> None:
        assert isinstance(node, Node), f"IrNode: a core.Node is expected, got {type(node)}"
        self.node = node

    # Sets of nodes are iterated in the order of ids, so that passes generate the same names in every run.
    def __hash__(self) -> int:
        return hash(self.node)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return repr(self.node)

    def name(self) -> str:
        """The variable's name, or the operator's type."""
        return self.node.name()

    def node_type(self) -> Node.Type:
        """``core.Node.Type.Operation`` or ``core.Node.Type.Variable``."""
        return self.node.node_type()

    def var(self) -> Any:
        """The VarDesc, or None."""
        return self.node.var()

    def op(self) -> Any:
        """The OpDesc, or None."""
        return self.node.op()

    def id(self) -> int:
        """The node's id."""
        return self.node.id()

    def is_op(self) -> bool:
        """Whether it is an operator."""
        return self.node.is_op()

    def is_var(self) -> bool:
        """Whether it is a variable."""
        return self.node.is_var()

    def is_ctrl_var(self) -> bool:
        """Whether it is a control dependency, which only orders operators."""
        return self.node.is_ctrl_var()

    def clear_inputs(self) -> None:
        """Removes all inputs."""
        self.node.clear_inputs()

    def clear_outputs(self) -> None:
        """Removes all outputs."""
        self.node.clear_outputs()

    def remove_input_by_id(self, node_id: int) -> None:
        """Removes the input with that id."""
        self.node.remove_input(node_id)

    def remove_output_by_id(self, node_id: int) -> None:
        """Removes the output with that id."""
        self.node.remove_output(node_id)

    def remove_input(self, node: IrNode) -> None:
        """Removes an input."""
        self.node.remove_input(node.node)

    def remove_output(self, node: IrNode) -> None:
        """Removes an output."""
        self.node.remove_output(node.node)

    def append_input(self, node: IrNode) -> None:
        """Appends an input."""
        self.node.append_input(node.node)

    def append_output(self, node: IrNode) -> None:
        """Appends an output."""
        self.node.append_output(node.node)

    def _neighbour(self, node: Node) -> Any:
        return IrNode(node)

    @property
    def inputs(self) -> list:
        return [self._neighbour(n) for n in self.node.inputs]

    @property
    def outputs(self) -> list:
        return [self._neighbour(n) for n in self.node.outputs]


class IrVarNode(IrNode):
    """A version of a variable in an :class:`IrGraph`.

    Args:
        node (core.Node): a variable.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        assert node.is_var(), f"IrVarNode: the node must be a variable, got the operator {node.name()}"

    def _neighbour(self, node: Node) -> IrOpNode:
        return IrOpNode(node)

    @property
    def _desc(self) -> Any:
        assert self.node.var() is not None, f"the node {self.name()} has no VarDesc"
        return self.node.var()

    def set_shape(self, shape) -> None:
        """Sets the variable's shape."""
        self._desc.set_shape(shape)

    def persistable(self) -> bool:
        """Whether the variable persists between runs."""
        return self._desc.persistable()

    def type(self) -> Any:
        """The variable's type, a ``core.VarDesc.VarType``."""
        return self._desc.type()

    def dtype(self) -> Any:
        """The variable's data type, a ``core.VarDesc.VarType``."""
        return self._desc.dtype()

    def shape(self) -> list[int]:
        """The variable's shape."""
        return self._desc.shape()


class IrOpNode(IrNode):
    """An operator in an :class:`IrGraph`.

    Args:
        node (core.Node): an operator.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        assert node.is_op(), f"IrOpNode: the node must be an operator, got the variable {node.name()}"

    def _neighbour(self, node: Node) -> IrVarNode:
        return IrVarNode(node)

    @property
    def _desc(self) -> Any:
        assert self.node.op() is not None, f"the node {self.name()} has no OpDesc"
        return self.node.op()

    def rename_input(self, old_input_name: str, new_input_name: str) -> None:
        """Replaces the name of an input variable; links are unchanged."""
        self._desc._rename_input(old_input_name, new_input_name)

    def rename_output(self, old_output_name: str, new_output_name: str) -> None:
        """Replaces the name of an output variable; links are unchanged."""
        self._desc._rename_output(old_output_name, new_output_name)

    def input(self, name: str) -> list[str]:
        """The variables in an input slot."""
        return self._desc.input(name)

    def output(self, name: str) -> list[str]:
        """The variables in an output slot."""
        return self._desc.output(name)

    def set_type(self, new_type: str) -> None:
        """Changes the operator's type; `name` returns the original one."""
        self._desc.set_type(new_type)

    def set_attr(self, name: str, val: Any) -> None:
        """Sets an attribute: a number, a str, a list of them, a Block or a list of Blocks."""
        self._update_desc_attr(name, val)

    def _update_desc_attr(self, name: str, val: Any) -> None:
        _set_attr(self._desc, name, val)

    def input_arg_names(self) -> list[str]:
        """The names of all input variables."""
        return self._desc.input_arg_names()

    def output_arg_names(self) -> list[str]:
        """The names of all output variables."""
        return self._desc.output_arg_names()


def _set_attr(desc: Any, name: str, value: Any) -> None:
    if isinstance(value, Block):
        desc.set_block_attr(name, value.desc)
    elif isinstance(value, list) and value and all(isinstance(v, Block) for v in value):
        desc.set_blocks_attr(name, [v.desc for v in value])
    elif isinstance(value, (core.BlockDesc, core.ProgramDesc)):
        desc.set_serialized_attr(name, value.serialize_to_string())
    else:
        desc._set_attr(name, value)


def _set_of(given: Any) -> set:
    return given if isinstance(given, set) else set(given) if isinstance(given, Iterable) else {given}


class IrGraph:
    """A Program as a graph of operators and variables, for passes written in Python.

    Args:
        graph (core.Graph): ``core.Graph(program.desc)``.
        for_test (bool): whether passes treat it as an inference graph.

    Examples:
        >>> import paddle
        >>> import paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> program = fluid.Program()
        >>> with fluid.program_guard(program, fluid.Program()):
        ...     x = fluid.data("x", [2, 3])
        ...     y = fluid.layers.relu(fluid.layers.scale(x, 2.0))
        >>> graph = fluid.framework.IrGraph(fluid.core.Graph(program.desc), for_test=True)
        >>> [op.name() for op in graph.topology_sort()]
        ['scale', 'relu']
        >>> [op.type for op in graph.to_program().global_block().ops]
        ['scale', 'relu']
    """

    def __init__(self, graph: Graph, for_test=False) -> None:
        assert isinstance(graph, Graph), f"IrGraph: a core.Graph is expected, got {type(graph)}"
        self.graph = graph
        self._for_test = for_test

    def clone(self) -> IrGraph:
        """A copy of the nodes and links."""
        return IrGraph(self.graph.clone(), self._for_test)

    def is_test(self) -> bool:
        """Whether it is an inference graph."""
        return self._for_test

    # ------------------------------------------------------------------ nodes

    def all_nodes(self) -> set[IrNode]:
        """All nodes."""
        return {IrNode(n) for n in self.graph.nodes()}

    def all_var_nodes(self) -> set[IrVarNode]:
        """The variables, including control dependencies."""
        return {IrVarNode(n) for n in self.graph.nodes() if n.is_var()}

    def all_persistable_nodes(self) -> set[IrVarNode]:
        """The variables that persist between runs."""
        return {n for n in self.all_var_nodes() if n.var() is not None and n.var().persistable()}

    def all_op_nodes(self) -> set[IrOpNode]:
        """The operators."""
        return {IrOpNode(n) for n in self.graph.nodes() if n.is_op()}

    def create_persistable_node(self, name, var_type, shape, var_dtype) -> IrVarNode:
        """Creates a variable that persists between runs."""
        return self._create(name, var_type, shape, var_dtype, True)

    def create_var_node(self, name, var_type, shape, var_dtype) -> IrVarNode:
        """Creates a temporary variable."""
        return self._create(name, var_type, shape, var_dtype, False)

    def _create(self, name: str, kind: Any, shape: Any, dtype: Any, persistable: bool) -> IrVarNode:
        desc = core.VarDesc(name)
        desc.set_type(kind)
        desc.set_shape(shape)
        desc.set_dtype(dtype)
        desc.set_persistable(persistable)
        return self.create_var_node_from_desc(desc)

    def create_control_dep_var(self) -> IrVarNode:
        """Creates a control dependency."""
        return IrVarNode(self.graph.create_control_dep_var())

    def create_var_node_from_desc(self, var_desc) -> IrVarNode:
        """Creates a variable from a copy of a VarDesc."""
        return IrVarNode(self.graph.create_var_node(var_desc))

    def create_op_node(self, op_type, attrs, inputs, outputs) -> IrOpNode:
        """Creates an operator; link it with `link_to`.

        Args:
            op_type (str): the operator.
            attrs (dict): its attributes.
            inputs (dict), outputs (dict): name of a slot -> a node or a list of nodes.
        """
        desc = core.OpDesc()
        desc.set_type(op_type)
        for name, value in attrs.items():
            self._update_desc_attr(desc, name, value)
        for slots, fill in ((inputs, desc.set_input), (outputs, desc.set_output)):
            for slot, nodes in slots.items():
                fill(slot, [n.name() for n in (nodes if isinstance(nodes, list) else [nodes])])
        return self.create_op_node_from_desc(desc)

    def create_op_node_from_desc(self, op_desc) -> IrOpNode:
        """Creates an operator from a copy of an OpDesc."""
        return IrOpNode(self.graph.create_op_node(op_desc))

    def _update_desc_attr(self, desc, name, val) -> None:
        _set_attr(desc, name, val)

    def _find_node_by_name(self, nodes: Any, node_name: str) -> Any:
        """The last of `nodes` with that name."""
        found = [n for n in nodes if n.name() == node_name]
        assert found, f"IrGraph: none of the given nodes has the name {node_name}"
        return found[-1]

    # ------------------------------------------------------------------ links

    def _check_are_mine(self, *nodes: IrNode) -> None:
        for node in nodes:
            assert self.graph.retrieve_node(node.id()) is node.node, f"IrGraph: {node} is not a node of this graph"

    def update_input_link(self, old_input_node, new_input_node, op_node) -> None:
        """Replaces the input `old_input_node` of an operator by `new_input_node`."""
        self._check_are_mine(old_input_node, new_input_node, op_node)
        old_input_node.remove_output(op_node)
        op_node.remove_input(old_input_node)
        new_input_node.append_output(op_node)
        op_node.append_input(new_input_node)
        op_node.rename_input(old_input_node.name(), new_input_node.name())

    def update_output_link(self, old_output_node, new_output_node, op_node) -> None:
        """Replaces the output `old_output_node` of an operator by `new_output_node`."""
        self._check_are_mine(old_output_node, new_output_node, op_node)
        old_output_node.remove_input(op_node)
        op_node.remove_output(old_output_node)
        new_output_node.append_input(op_node)
        op_node.append_output(new_output_node)
        op_node.rename_output(old_output_node.name(), new_output_node.name())

    def link_to(self, node_in, node_out) -> None:
        """Links `node_in` to `node_out`."""
        self._check_are_mine(node_in, node_out)
        node_in.append_output(node_out)
        node_out.append_input(node_in)

    def safe_remove_nodes(self, remove_nodes) -> None:
        """Removes a node, or several nodes, with their links."""
        _graph.graph_safe_remove_nodes(self.graph, {n.node for n in _set_of(remove_nodes)})

    def resolve_hazard(self) -> None:
        """Adds the control dependencies that variables with several writes need."""
        versions: dict[str, list[Node]] = {}
        for node in _graph.topology_sort(self.graph):
            if node.op() is None:
                continue
            for name in node.op().input_arg_names():
                if name not in versions:
                    versions[name] = [self._find_node_by_name(node.inputs, name)]
            for name in node.op().output_arg_names():
                versions.setdefault(name, []).append(self._find_node_by_name(node.outputs, name))
        self.graph.resolve_hazard(versions)

    # ------------------------------------------------------------------ graph

    def has_circle(self) -> bool:
        """Whether the graph has a cycle."""
        return _graph.has_circle(self.graph)

    def graph_num(self) -> int:
        """The number of connected components."""
        return _graph.graph_num(self.graph)

    def topology_sort(self) -> list[IrNode]:
        """The operators in topological order, as close as possible to the Program's order.

        Raises:
            ValueError: if the graph has a cycle.
        """
        return [IrNode(n) for n in _graph.topology_sort(self.graph)]

    def build_adjacency_list(self) -> dict[IrNode, set[IrNode]]:
        """For each operator, the operators that it depends on."""
        needs = _graph.build_adjacency_list(self.graph)
        return {IrNode(op): {IrNode(n) for n in before} for op, before in needs.items()}

    def draw(self, save_path, name, marked_nodes=None, remove_ctr_var=True) -> None:
        """Writes the graph to `save_path`/`name`.dot, and renders a PDF if Graphviz is installed.

        Args:
            save_path (str): a folder; it is created if it does not exist.
            name (str): the file name without extension.
            marked_nodes (set of IrNode, optional): nodes in another colour.
            remove_ctr_var (bool): remove control dependencies from the graph first.
        """
        if remove_ctr_var:
            self.safe_remove_nodes({n for n in self.all_var_nodes() if n.is_ctrl_var()})
        print(f"Total ops num = {len(self.all_op_nodes())}.")
        os.makedirs(save_path, exist_ok=True)
        path = os.path.join(save_path, name) + ".dot"
        draw_nodes(self.graph.nodes(), {n.node for n in _set_of(marked_nodes or ())}, path)
        if render(path) is None:
            print(f"The command dot is missing or failed: {path} was not rendered to PDF.")

    def to_program(self) -> Program:
        """A Program of the operators in topological order; sub-blocks are those of the original Program.

        Attributes that exist in Python only (which variables are Parameters) are lost.

        Raises:
            ValueError: if the graph has a cycle.
        """
        return Program._construct_from_desc(self.graph._to_desc())
