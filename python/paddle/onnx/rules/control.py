"""Branches, loops, and arrays of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics.dtypes import VarType

from ..call import Call
from ..graph import ELEMENT_TYPES, Graph
from ..proto import ValueType
from ..registry import rule


def _outside(c: Call, slot: str) -> list[str]:
    """Variables of an output slot that later operators may read, with a tensor or an array."""
    found = []
    for name in dict.fromkeys(c.desc.output(slot)):
        var = c.block._find_var_recursive(name)
        if var is not None and var.type in (VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY):
            found.append(name)
    return found


def _type(c: Call, name: str) -> ValueType:
    """The type of a value in a branch or loop: its sizes may change."""
    var = c.var(name)
    if var.type == VarType.LOD_TENSOR_ARRAY:
        if c.opset < 14:
            c.fail("arrays of tensors in branches and loops require opset 14 or later")
        return ValueType(var.dtype, None, True)
    if var.dtype not in ELEMENT_TYPES:
        c.fail(f"ONNX tensors of type {var.dtype} are not supported")
    return ValueType(var.dtype)


def _empty(c: Call, graph: Graph, name: str) -> str:
    """A value for a variable that has none yet."""
    var = c.var(name)
    if var.type == VarType.LOD_TENSOR_ARRAY:
        number = ELEMENT_TYPES[var.dtype][0]
        return graph.add("SequenceEmpty", [], dtype=number)[0]
    array = np.zeros([max(n, 1) for n in var.shape], ELEMENT_TYPES[var.dtype][1])
    return graph.root.constant(array)


def _own(graph: Graph, value: str) -> str:
    """The value as result of a node of this graph: outputs of a sub-graph must be computed in it."""
    return graph.add_always("Identity", [value])


def _condition(c: Call, value: str) -> str:
    """A scalar bool."""
    return c.reshape(value, [])


def _branch(c: Call, block: Any | None, names: list[str]) -> Graph:
    """The graph of a branch, with these variables as outputs; without a block they keep their values."""
    graph, values = c.translator.sub_graph(block, c.values)
    if block is not None:
        c.translator.run(block, graph, values)
    for name in names:
        value = values.get(name)
        if value is None:
            value = _empty(c, graph, name)
        graph.outputs.append((_own(graph, value), _type(c, name)))
    return graph


def _negation(c: Call) -> Any | None:
    """The operator after the next, if it is the branch of the opposite condition that writes the same variables."""
    if len(c.following) < 2:
        return None
    negated, other = c.following[:2]
    if negated.type != "logical_not" or negated.input("X") != c.desc.input("Cond"):
        return None
    fits = other.type == c.desc.type and other.input("Cond") == negated.output("Out")
    return other if fits and set(other.output("Out")) == set(c.desc.output("Out")) else None


@rule("conditional_block", "conditional_block_infer")
def _conditional_block(c: Call) -> None:
    if len(c.names("Cond")) != 1:
        c.fail("one condition is expected")
    names = _outside(c, "Out")
    then = _branch(c, c.desc._block_attr("sub_block"), names)
    other = _negation(c)
    if other is not None:
        opposite = c.following[0].output("Out")[0]
        c.consumed = 2
    otherwise = _branch(c, other._block_attr("sub_block") if other is not None else None, names)
    condition = _condition(c, c.x("Cond"))
    if not c.attr("is_scalar_condition"):
        condition = c.op("Greater", c.op("Size", c.x("Cond")), c.const(0))
    if other is not None:
        c.values[opposite] = c.op("Not", c.x("Cond"))
    if not names:
        return
    made = c.ops("If", condition, outputs=len(names), then_branch=then, else_branch=otherwise)
    for name, value in zip(names, made, strict=True):
        c.values[name] = value


@rule("while")
def _while(c: Call) -> None:
    block = c.desc._block_attr("sub_block")
    condition = c.names("Condition")[0]
    names = [name for name in _outside(c, "Out") if name != condition]
    # an array that the body writes has to be carried, too
    start = []
    for name in names:
        value = c.values.get(name)
        start.append(value if value is not None else _empty(c, c.graph, name))
    body, values = c.translator.sub_graph(block, c.values)
    root = c.graph.root
    number, going = root.new("loop.number"), root.new("loop.condition")
    body.inputs = [(number, ValueType(VarType.INT64, [])), (going, ValueType(VarType.BOOL, []))]
    for name in names:
        value = root.new(f"loop.{name}")
        body.inputs.append((value, _type(c, name)))
        values[name] = value
    values[condition] = body.add("Reshape", [going, root.constant(np.array([1], "int64"))])[0]
    c.translator.run(block, body, values)
    shape = root.constant(np.array([], "int64"))
    after = body.add_always("Reshape", [values.get(condition), shape])
    body.outputs = [(after, ValueType(VarType.BOOL, []))]
    for name in names:
        body.outputs.append((_own(body, values.get(name)), _type(c, name)))
    made = c.ops("Loop", "", _condition(c, c.x("Condition")), *start, outputs=len(names), body=body)
    for name, value in zip(names, made, strict=True):
        c.values[name] = value
    c.values[condition] = c.const([False], "bool")


@rule("select_input")
def _select_input(c: Call) -> None:
    values = c.xs("X")
    kind = _type(c, c.desc.output("Out")[0])
    out = values[-1]
    number = c.reshape(c.cast(c.x("Mask"), "int32"), [])
    for i, value in reversed(list(enumerate(values[:-1]))):
        branches = []
        for chosen in (value, out):
            graph = Graph(c.graph.root)
            graph.outputs = [(_own(graph, chosen), kind)]
            branches.append(graph)
        equal = c.op("Equal", number, c.const(i, "int32"))
        out = c.op("If", equal, then_branch=branches[0], else_branch=branches[1])
    c.set("Out", out)


def _index(c: Call) -> str:
    return c.reshape(c.cast(c.x("I"), "int64"), [])


def _array(c: Call, name: str) -> str:
    value = c.values.get(name)
    return value if value is not None else _empty(c, c.graph, name)


@rule("write_to_array")
def _write_to_array(c: Call) -> None:
    name = c.desc.output("Out")[0]
    before, index = _array(c, name), _index(c)
    inserted = c.op("SequenceInsert", before, c.x(), index)
    if c.values.get(name) is None:
        c.values[name] = inserted
        return
    if c.opset < 14:
        c.fail("it requires opset 14 or later")
    # an element that was there moves by one: it is removed
    graphs = []
    for moves in (True, False):
        graph = Graph(c.graph.root)
        if moves:
            after = graph.add("Add", [index, graph.root.constant(np.array(1, "int64"))])[0]
            value = graph.add("SequenceErase", [inserted, after])[0]
        else:
            value = _own(graph, inserted)
        graph.outputs = [(value, _type(c, name))]
        graphs.append(graph)
    there = c.op("Less", index, c.op("SequenceLength", before))
    c.values[name] = c.op("If", there, then_branch=graphs[0], else_branch=graphs[1])


@rule("read_from_array")
def _read_from_array(c: Call) -> None:
    c.set("Out", c.op("SequenceAt", c.x(), _index(c)))


@rule("lod_array_length")
def _array_length(c: Call) -> None:
    c.set("Out", c.reshape(c.op("SequenceLength", _array(c, c.names("X")[0])), [1]))


@rule("tensor_array_to_tensor")
def _array_to_tensor(c: Call) -> None:
    stack = int(c.attr("use_stack"))
    c.set("Out", c.op("ConcatFromSequence", c.x(), axis=c.attr("axis"), new_axis=stack))
    if stack:
        length = c.op("SequenceLength", c.x())
        c.set("OutIndex", c.op("Expand", c.const(1, "int32"), c.reshape(length, [1])))
