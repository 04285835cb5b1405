"""fluid.framework.IrGraph and its nodes: the faces of a core.Graph that passes in Python are written with."""

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
    """A node of an :class:`IrGraph`; every question makes new objects, which share the core.Node in `node`.

    Args:
        node (core.Node): what it shows.
    """

    def __init__(self, node: Node) -> None:
        assert isinstance(node, Node), f"IrNode: a core.Node is expected, got {type(node)}"
        self.node = node

    # sets of nodes are walked through in the order of numbers, so that passes name variables alike in every run
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
        """The VarDesc, None where there is none."""
        return self.node.var()

    def op(self) -> Any:
        """The OpDesc, None where there is none."""
        return self.node.op()

    def id(self) -> int:
        """The node's number."""
        return self.node.id()

    def is_op(self) -> bool:
        """Whether it is an operator."""
        return self.node.is_op()

    def is_var(self) -> bool:
        """Whether it is a variable."""
        return self.node.is_var()

    def is_ctrl_var(self) -> bool:
        """Whether it only keeps operators in order."""
        return self.node.is_ctrl_var()

    def clear_inputs(self) -> None:
        """Forgets all inputs."""
        self.node.clear_inputs()

    def clear_outputs(self) -> None:
        """Forgets all outputs."""
        self.node.clear_outputs()

    def remove_input_by_id(self, node_id: int) -> None:
        """Forgets the input of that number."""
        self.node.remove_input(node_id)

    def remove_output_by_id(self, node_id: int) -> None:
        """Forgets the output of that number."""
        self.node.remove_output(node_id)

    def remove_input(self, node: IrNode) -> None:
        """Forgets an input."""
        self.node.remove_input(node.node)

    def remove_output(self, node: IrNode) -> None:
        """Forgets an output."""
        self.node.remove_output(node.node)

    def append_input(self, node: IrNode) -> None:
        """One more input."""
        self.node.append_input(node.node)

    def append_output(self, node: IrNode) -> None:
        """One more output."""
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
        """Gives the variable another shape."""
        self._desc.set_shape(shape)

    def persistable(self) -> bool:
        """Whether the variable outlives a run."""
        return self._desc.persistable()

    def type(self) -> Any:
        """The variable's kind, a ``core.VarDesc.VarType``."""
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
        """Reads another variable in the place of one; the links stay."""
        self._desc._rename_input(old_input_name, new_input_name)

    def rename_output(self, old_output_name: str, new_output_name: str) -> None:
        """Writes another variable in the place of one; the links stay."""
        self._desc._rename_output(old_output_name, new_output_name)

    def input(self, name: str) -> list[str]:
        """The variables in an input slot."""
        return self._desc.input(name)

    def output(self, name: str) -> list[str]:
        """The variables in an output slot."""
        return self._desc.output(name)

    def set_type(self, new_type: str) -> None:
        """Makes another operator of it; `name` still says what it was."""
        self._desc.set_type(new_type)

    def set_attr(self, name: str, val: Any) -> None:
        """Sets an attribute: a number, a str, a list of them, a Block or a list of Blocks."""
        self._update_desc_attr(name, val)

    def _update_desc_attr(self, name: str, val: Any) -> None:
        _set_attr(self._desc, name, val)

    def input_arg_names(self) -> list[str]:
        """All variables that it reads."""
        return self._desc.input_arg_names()

    def output_arg_names(self) -> list[str]:
        """All variables that it writes."""
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
    """A Program as a graph whose nodes are operators and variables, for passes that rewrite it in Python.

    Args:
        graph (core.Graph): ``core.Graph(program.desc)``.
        for_test (bool): whether passes are to treat it as a graph for testing.

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
        """A copy of nodes and links."""
        return IrGraph(self.graph.clone(), self._for_test)

    def is_test(self) -> bool:
        """Whether it is for testing."""
        return self._for_test

    # ------------------------------------------------------------------ nodes

    def all_nodes(self) -> set[IrNode]:
        """All nodes."""
        return {IrNode(n) for n in self.graph.nodes()}

    def all_var_nodes(self) -> set[IrVarNode]:
        """The variables, control nodes among them."""
        return {IrVarNode(n) for n in self.graph.nodes() if n.is_var()}

    def all_persistable_nodes(self) -> set[IrVarNode]:
        """The variables that outlive a run."""
        return {n for n in self.all_var_nodes() if n.var() is not None and n.var().persistable()}

    def all_op_nodes(self) -> set[IrOpNode]:
        """The operators."""
        return {IrOpNode(n) for n in self.graph.nodes() if n.is_op()}

    def create_persistable_node(self, name, var_type, shape, var_dtype) -> IrVarNode:
        """A new node of a variable that outlives runs."""
        return self._create(name, var_type, shape, var_dtype, True)

    def create_var_node(self, name, var_type, shape, var_dtype) -> IrVarNode:
        """A new node of a variable of one run."""
        return self._create(name, var_type, shape, var_dtype, False)

    def _create(self, name: str, kind: Any, shape: Any, dtype: Any, persistable: bool) -> IrVarNode:
        desc = core.VarDesc(name)
        desc.set_type(kind)
        desc.set_shape(shape)
        desc.set_dtype(dtype)
        desc.set_persistable(persistable)
        return self.create_var_node_from_desc(desc)

    def create_control_dep_var(self) -> IrVarNode:
        """A new node that keeps operators in order."""
        return IrVarNode(self.graph.create_control_dep_var())

    def create_var_node_from_desc(self, var_desc) -> IrVarNode:
        """A new node of a copy of a VarDesc."""
        return IrVarNode(self.graph.create_var_node(var_desc))

    def create_op_node(self, op_type, attrs, inputs, outputs) -> IrOpNode:
        """A new node of an operator, which is to be linked with `link_to`.

        Args:
            op_type (str): the operator.
            attrs (dict): its attributes.
            inputs (dict), outputs (dict): of each slot a node or a list of nodes.
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
        """A new node of a copy of an OpDesc."""
        return IrOpNode(self.graph.create_op_node(op_desc))

    def _update_desc_attr(self, desc, name, val) -> None:
        _set_attr(desc, name, val)

    def _find_node_by_name(self, nodes: Any, node_name: str) -> Any:
        """The last of `nodes` by that name."""
        found = [n for n in nodes if n.name() == node_name]
        assert found, f"IrGraph: none of the nodes given has the name {node_name}"
        return found[-1]

    # ------------------------------------------------------------------ links

    def _check_are_mine(self, *nodes: IrNode) -> None:
        for node in nodes:
            assert self.graph.retrieve_node(node.id()) is node.node, f"IrGraph: {node} is not a node of this graph"

    def update_input_link(self, old_input_node, new_input_node, op_node) -> None:
        """Lets an operator read `new_input_node` in the place of `old_input_node`."""
        self._check_are_mine(old_input_node, new_input_node, op_node)
        old_input_node.remove_output(op_node)
        op_node.remove_input(old_input_node)
        new_input_node.append_output(op_node)
        op_node.append_input(new_input_node)
        op_node.rename_input(old_input_node.name(), new_input_node.name())

    def update_output_link(self, old_output_node, new_output_node, op_node) -> None:
        """Lets an operator write `new_output_node` in the place of `old_output_node`."""
        self._check_are_mine(old_output_node, new_output_node, op_node)
        old_output_node.remove_input(op_node)
        op_node.remove_output(old_output_node)
        new_output_node.append_input(op_node)
        op_node.append_output(new_output_node)
        op_node.rename_output(old_output_node.name(), new_output_node.name())

    def link_to(self, node_in, node_out) -> None:
        """Makes `node_out` an output of `node_in`."""
        self._check_are_mine(node_in, node_out)
        node_in.append_output(node_out)
        node_out.append_input(node_in)

    def safe_remove_nodes(self, remove_nodes) -> None:
        """Takes nodes (a node, or any number of them) out, and all links to them."""
        _graph.graph_safe_remove_nodes(self.graph, {n.node for n in _set_of(remove_nodes)})

    def resolve_hazard(self) -> None:
        """Adds the control nodes that are needed where variables are written more than once."""
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

    # ------------------------------------------------------------------ the whole

    def has_circle(self) -> bool:
        """Whether operators wait for each other."""
        return _graph.has_circle(self.graph)

    def graph_num(self) -> int:
        """How many parts have no link between them."""
        return _graph.graph_num(self.graph)

    def topology_sort(self) -> list[IrNode]:
        """The operators in an order in which they can run: that of the Program as far as it can be kept.

        Raises:
            ValueError: when there is a circle.
        """
        return [IrNode(n) for n in _graph.topology_sort(self.graph)]

    def build_adjacency_list(self) -> dict[IrNode, set[IrNode]]:
        """Of each operator those that it waits for."""
        needs = _graph.build_adjacency_list(self.graph)
        return {IrNode(op): {IrNode(n) for n in before} for op, before in needs.items()}

    def draw(self, save_path, name, marked_nodes=None, remove_ctr_var=True) -> None:
        """Writes the graph to `save_path`/`name`.dot, and makes a PDF of it where Graphviz is installed.

        Args:
            save_path (str): a folder; it is made where it is missing.
            name (str): the file, without ending.
            marked_nodes (set of IrNode, optional): nodes in another colour.
            remove_ctr_var (bool): first take the control nodes out of the graph.
        """
        if remove_ctr_var:
            self.safe_remove_nodes({n for n in self.all_var_nodes() if n.is_ctrl_var()})
        print(f"Total ops num = {len(self.all_op_nodes())}.")
        os.makedirs(save_path, exist_ok=True)
        path = os.path.join(save_path, name) + ".dot"
        draw_nodes(self.graph.nodes(), {n.node for n in _set_of(marked_nodes or ())}, path)
        if render(path) is None:
            print(f"The command dot is not there or failed: no PDF is made of {path}.")

    def to_program(self) -> Program:
        """A Program of the operators, in their order; sub-blocks are those of the Program that the graph is of.

        What only Python knew of that Program (which variables are Parameters) is not in a graph.

        Raises:
            ValueError: when the graph has a circle.
        """
        return Program._construct_from_desc(self.graph._to_desc())
