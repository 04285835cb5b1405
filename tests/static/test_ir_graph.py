"""fluid.framework.IrGraph over fluid.core.Graph: conversion of a Program to nodes, and back."""

from __future__ import annotations

import shutil
import stat

import numpy as np
import paddle
import pytest
from paddle import fluid
from paddle.fluid import core
from paddle.fluid.framework import IrGraph, IrNode, IrOpNode, IrVarNode


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def trained():
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup):
        x, label = fluid.data("x", [None, 4]), fluid.data("label", [None, 1], "int64")
        out = fluid.layers.fc(fluid.layers.fc(x, 5, act="relu"), 3, act="softmax")
        loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
        fluid.optimizer.Adam(0.1).minimize(loss)
    return main, startup, loss


FEED = {"x": np.arange(24, dtype="float32").reshape(6, 4) / 10, "label": np.arange(6).reshape(6, 1) % 3}


def losses(startup, program, loss):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        return [float(exe.run(program, feed=FEED, fetch_list=[loss.name])[0].reshape(())) for _ in range(4)]


def test_a_program_round_trips():
    main, startup, loss = trained()
    before = main.desc.serialize_to_string()
    graph = IrGraph(core.Graph(main.desc))
    back = graph.to_program()
    assert [op.type for op in back.global_block().ops] == [op.type for op in main.global_block().ops]
    assert [op.id() for op in graph.topology_sort()] == sorted(op.id() for op in graph.all_op_nodes())
    assert set(back.global_block().vars) == set(main.global_block().vars)
    assert losses(startup, back, loss) == losses(startup, main, loss)
    assert main.desc.serialize_to_string() == before


@pytest.mark.parametrize("places", [1, 2])
def test_a_compiled_graph(places, monkeypatch):
    monkeypatch.setenv("CPU_NUM", str(places))
    main, startup, loss = trained()

    def compiled(what):
        return fluid.CompiledProgram(what).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * places)

    def run(program):
        exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            return [exe.run(program, feed=FEED, fetch_list=[loss.name])[0] for _ in range(3)]

    np.testing.assert_array_equal(run(compiled(core.Graph(main.desc))), run(compiled(main)))


def test_nodes():
    main, _, loss = trained()
    graph = IrGraph(core.Graph(main.desc), for_test=True)
    assert graph.is_test() and not graph.has_circle() and graph.graph_num() == 1
    mul = next(op for op in graph.topology_sort() if op.name() == "mul")
    assert mul.is_op() and not mul.is_var() and mul.node_type() == core.Node.Type.Operation and mul.var() is None
    (op,) = (n for n in graph.all_op_nodes() if n.node is mul.node)
    assert isinstance(op, IrOpNode) and op.input("X") == ["x"] and op.input_arg_names()[0] == "x"
    x = graph._find_node_by_name(op.inputs, "x")
    assert isinstance(x, IrVarNode) and (x.shape(), x.persistable()) == ([-1, 4], False)
    assert (x.type(), x.dtype()) == (core.VarDesc.VarType.LOD_TENSOR, core.VarDesc.VarType.FP32)
    # two wrappers of one node are two keys, the node itself is one
    assert len({IrNode(x.node), IrNode(x.node)}) == 2 and len({x.node, x.node}) == 1
    assert {p.name() for p in graph.all_persistable_nodes()} >= {"fc_0.w_0", "fc_0.b_0", "learning_rate_0"}
    needs = {op.id(): {n.id() for n in before} for op, before in graph.build_adjacency_list().items()}
    assert needs[op.id()] == set() and len(needs) == len(graph.all_op_nodes())


def test_a_second_write_waits_for_readers():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [1])
        read = fluid.layers.scale(x, 2.0)
        fluid.layers.increment(x)
        again = fluid.layers.scale(x, 3.0)
    graph = IrGraph(core.Graph(program.desc))
    assert sum(n.name() == "x" for n in graph.all_var_nodes()) == 2
    order = [op.name() for op in graph.topology_sort()]
    assert order == ["scale", "increment", "scale"]
    count = len(graph.all_nodes())
    graph.resolve_hazard()
    assert len(graph.all_nodes()) == count
    exe = fluid.Executor()
    got = exe.run(graph.to_program(), feed={"x": np.ones(1, "float32")}, fetch_list=[read.name, again.name])
    np.testing.assert_array_equal(got, [[2], [6]])


def test_an_operator_is_inserted():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [2])
        fluid.layers.relu(fluid.layers.scale(x, 2.0))
    graph = IrGraph(core.Graph(program.desc), for_test=True)
    scale, relu = (IrOpNode(n.node) for n in graph.topology_sort())
    (old,) = relu.inputs
    new = graph.create_var_node("between", old.type(), old.shape(), old.dtype())
    attrs = {"scale": -1.0, "bias": 7.0}
    op = graph.create_op_node("scale", attrs, {"X": old}, {"Out": [new]})
    graph.link_to(old, op)
    graph.link_to(op, new)
    graph.update_input_link(old, new, relu)
    weight = graph.create_persistable_node("kept", old.type(), [3], core.VarDesc.VarType.INT8)
    graph.resolve_hazard()
    copy = graph.clone()
    for g in (graph, copy):
        made = g.to_program()
        assert [(o.type, o.input_arg_names) for o in made.global_block().ops][2] == ("relu", ["between"])
        kept = made.global_block().var("kept")
        assert kept.persistable and kept.shape == (3,) and kept.dtype == core.VarDesc.VarType.INT8
        out = made.global_block().ops[-1].output_arg_names
        (got,) = fluid.Executor().run(made, feed={"x": np.array([1, 9], "float32")}, fetch_list=out)
        np.testing.assert_array_equal(got, [5, 0])
    graph.safe_remove_nodes(weight)
    graph.safe_remove_nodes([op])
    assert not new.inputs and op.node not in graph.graph.nodes() and op.node not in {n.node for n in old.outputs}
    with pytest.raises(AssertionError, match="not a node of this graph"):
        graph.link_to(op, new)


def test_sub_blocks_are_kept():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        i, n = (fluid.layers.fill_constant([1], "int64", v) for v in (0, 5))
        total = fluid.layers.fill_constant([1], "int64", 0)
        condition = fluid.layers.less_than(i, n)
        loop = fluid.layers.While(condition)
        with loop.block():
            fluid.layers.assign(total + i, total)
            fluid.layers.increment(i)
            fluid.layers.less_than(i, n, cond=condition)
    program = IrGraph(core.Graph(main.desc), for_test=True).clone().to_program()
    assert program.num_blocks == 2
    assert fluid.Executor().run(program, fetch_list=[total.name])[0] == 10


def test_cycles_and_components():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        for name in "ab":
            fluid.layers.relu(fluid.data(name, [2]))
    graph = IrGraph(core.Graph(program.desc))
    assert graph.graph_num() == 2
    op = next(iter(graph.all_op_nodes()))
    graph.link_to(op.outputs[0], op)
    assert graph.has_circle()
    with pytest.raises(ValueError, match="cycle"):
        graph.topology_sort()
    with pytest.raises(ValueError, match="cycle"):
        graph.to_program()
    with pytest.raises(TypeError, match="ProgramDesc"):
        core.Graph(program)
    with pytest.raises(ValueError, match="not in the graph"):
        core.graph_safe_remove_nodes(core.Graph(program.desc), {op.node})


def test_a_chain_of_many_operators():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [1])
        for _ in range(3000):
            x = fluid.layers.scale(x, 1.0)
    graph = core.Graph(program.desc)
    assert len(core.topology_sort(graph)) == 3000 and core.graph_num(graph) == 1


def test_persistable_nodes_are_saved(tmp_path):
    main, startup, _ = trained()
    exe = fluid.Executor()
    exe.run(startup)
    graph = IrGraph(core.Graph(main.desc))
    weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
    before = np.array(weight)
    fluid.io._save_persistable_nodes(exe, str(tmp_path), graph)
    weight.set(np.zeros_like(before), fluid.CPUPlace())
    fluid.io._load_persistable_nodes(exe, str(tmp_path), graph)
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var("fc_0.w_0").get_tensor()), before)


def test_drawing(tmp_path, monkeypatch, capsys):
    main, _, _ = trained()
    graph = IrGraph(core.Graph(main.desc))
    # a `dot` that writes its arguments to a file, one a line
    dot = tmp_path / "bin" / "dot"
    dot.parent.mkdir()
    dot.write_text('#!/bin/sh\nfor a in "$@"; do echo "$a"; done > "$4"\n')
    dot.chmod(dot.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(dot.parent))
    folder = tmp_path / "a; touch b"
    marked = {op for op in graph.all_op_nodes() if op.name() == "mul"}
    graph.draw(str(folder), "net", marked)
    text = (folder / "net.dot").read_text()
    assert text.count('label="mul", style=filled, fillcolor=orange, shape=box') == 2 and "__control_var" not in text
    assert (folder / "net.pdf").read_text().split("\n")[:2] == ["-Tpdf", str(folder / "net.dot")]
    monkeypatch.setenv("PATH", str(folder))
    assert shutil.which("dot") is None
    graph.draw(str(folder), "more")
    assert "not rendered to PDF" in capsys.readouterr().out


def test_attributes():
    graph = core.Graph(trained()[0].desc)
    for name, value in (("int", 1), ("float", 0.5), ("string", "text")):
        graph.set(name, value)
        assert graph.has(name) and getattr(graph, f"get_{name}")(name) == value
    for wrong in (
        lambda: graph.set("int", 2),
        lambda: graph.get_string("int"),
        lambda: graph.get_int("no"),
        lambda: graph.erase("no"),
    ):
        with pytest.raises(ValueError, match="attribute"):
            wrong()
    graph.erase("int")
    assert not graph.has("int")
