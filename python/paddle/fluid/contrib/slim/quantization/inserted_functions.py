"""User-defined functions inserted between a variable and the operator that reads it, with their training."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.names import grad_var_name
from paddle._programs.graph import Graph
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle.fluid.data import data
from paddle.fluid.layers.nn.math import mean
from paddle.static import scope_guard
from paddle.static.ir_graph import IrGraph, IrOpNode, IrVarNode

__all__: list[str] = []


def insert_function(graph: Any, function: Any, var: Any, op: Any, optimizer: Any, scope: Any, executor: Any) -> Any:
    """Lets `op` read ``function(var)`` instead of `var`.

    In training the gradient passes through the function; a separate optimizer updates the function's parameters.

    Args:
        graph (IrGraph): is rewritten.
        function (callable): from a Variable to one of the same shape.
        var (IrVarNode), op (IrOpNode): the variable, and the operator that reads it.
        optimizer (callable): returns the optimizer; for training only.
        scope (Scope), executor (Executor): for the initialization of the function's parameters.

    Returns:
        IrVarNode: the new input of `op`.
    """
    training = not graph.is_test()
    assert not training or optimizer, "optimizer_func must be given for a graph that is trained"
    assert executor is not None, "executor must be given with functions of your own: it starts their parameters"
    program, startup = Program(), Program()
    with program_guard(program, startup), unique_name.guard(f"{var.name()}_"):
        given = data(f"{var.name()}_tmp_input", shape=var.shape(), dtype="float32")
        made = function(given)
        loss = mean(made)
        if training:
            given.stop_gradient = False
            optimizer().minimize(loss)
    graph.out_node_mapping_table[made.name] = var.name()
    with scope_guard(scope):
        executor.run(startup)
    copied = _copy(graph, IrGraph(Graph(program.desc), graph.is_test()))
    source, target, end = (_last(copied, v.name) for v in (given, made, loss))
    for reader in source.outputs:
        graph.update_input_link(source, var, reader)
    graph.update_input_link(var, target, op)
    unneeded = {end, *end.inputs, source}
    if training:
        unneeded |= _route_gradient(graph, var, op, target, copied, source.name())
    graph.safe_remove_nodes(unneeded)
    return target


def _copy(graph: Any, other: Any) -> dict[str, list]:
    """Copies the nodes of another graph with their links; returns the copies of its variables by name."""
    copies: dict[Any, Any] = {}
    copied: dict[str, list] = {}
    for node in sorted(other.graph.nodes(), key=lambda n: n.id()):
        if node.is_op():
            copies[node] = graph.create_op_node_from_desc(node.op())
        elif not node.inputs and not node.outputs:
            continue
        elif node.var() is not None:
            copies[node] = graph.create_var_node_from_desc(node.var())
        elif node.is_ctrl_var():
            copies[node] = graph.create_control_dep_var()
        else:
            copies[node] = IrVarNode(graph.graph.create_empty_node(node.name(), node.node_type()))
        if node.is_var():
            copied.setdefault(node.name(), []).append(copies[node])
    for node, copied_node in copies.items():
        for after in node.outputs:
            graph.link_to(copied_node, copies[after])
    return copied


def _last(copied: dict[str, list], name: str) -> Any:
    return copied[name][-1]


def _route_gradient(graph: Any, var: Any, op: Any, target: Any, copied: dict[str, list], source: str) -> set:
    """Routes the gradient of `op` through the function to `var`; returns the nodes that became unused."""
    gradient_of = grad_var_name
    coming = graph._find_node_by_name(graph.all_var_nodes(), gradient_of(op.outputs[0].name())).outputs
    backward = next(n for n in coming if n.name() == f"{op.name()}_grad")
    inner, outer = _last(copied, gradient_of(target.name())), _last(copied, gradient_of(source))
    (mean,) = (n for n in inner.inputs if n.name() == "mean_grad")
    seed = next(n for n in mean.inputs if n.inputs and n.inputs[0].name() == "fill_constant")
    unneeded = {mean, seed, *seed.inputs}
    graph.update_input_link(var, target, backward)
    going = [n for n in backward.outputs if gradient_of(var.name()) in n.name()]
    if going:
        graph.update_output_link(going[-1], inner, backward)
        for last in outer.inputs:
            graph.update_output_link(outer, going[-1], last)
        return {*unneeded, outer}
    # `var` needs no gradient, but the function's parameters do
    slot = next(s for s in backward.op().input_names() if target.name() in backward.input(s))
    backward.op().set_output(gradient_of(slot), [inner.name()])
    graph.link_to(IrOpNode(backward.node), inner)
    return unneeded
