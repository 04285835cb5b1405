"""ProgramStats, seeds of dropouts, and tests for feed and fetch operators."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.backward import ProgramStats, serialize_op_decs
from paddle.fluid.executor import has_feed_operators, has_fetch_operators


@pytest.fixture(autouse=True)
def _dygraph_again():
    yield
    paddle.disable_static()


@pytest.fixture(autouse=True)
def program():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield fluid.default_main_program()


def test_stats(program):
    x = fluid.data("x", [2, 3])
    a = fluid.layers.fc(x, 3)
    b = fluid.layers.tanh(a)
    out = fluid.layers.elementwise_add(a, b)
    block = program.global_block()
    stats = ProgramStats(block, list(block.ops))
    stats.build_stats()
    # mul, elementwise_add, tanh, elementwise_add
    assert stats.get_input_nodes() == ["x"] and stats.get_reserved_vars() == []
    assert stats.op_deps[1] == {"in_ops": [0], "out_ops": [2, 3]} and stats.op_deps[3]["in_ops"] == [1, 2]
    assert stats.var_op_deps[a.name] == {"var_as_input_ops": [2, 3], "var_as_output_ops": [1]}
    assert stats.is_subgraph(["x"], [b.name]) == (True, 0, 2)
    assert stats.is_subgraph([b.name], [a.name]) == (False, 3, 1)
    assert stats.is_subgraph(["none"], [a.name]) == (False, 4, -1)
    assert stats.get_out_of_subgraph_vars(2, 3) == [b.name, a.name]
    assert stats.sort_checkpoints([out.name, "none", a.name, "x"]) == ["x", a.name, out.name]
    assert 'type: "tanh"' in serialize_op_decs(b.op.desc)


def test_dropouts_get_seeds(program):
    x = fluid.data("x", [200])
    out = fluid.layers.dropout(fluid.layers.dropout(x, 0.5), 0.5, seed=7)
    block = program.global_block()
    stats = ProgramStats(block, list(block.ops))
    stats.modify_forward_desc_for_recompute()
    assert [op.type for op in block.ops] == ["seed", "dropout"] * 2 == [op.type for op in stats.ops]
    assert [op.attr("seed") for op in block.ops[::2]] == [0, 7]
    names = [op.desc.output("Out")[0] for op in block.ops[::2]]
    assert [op.desc.input("Seed")[0] for op in block.ops[1::2]] == names == stats.get_reserved_vars()
    exe = fluid.Executor(fluid.CPUPlace())
    values = exe.run(program, feed={"x": np.ones(200, "float32")}, fetch_list=[out, names[1]])
    assert values[1] == [7] and 0 < (values[0] == 0).sum() < 200


def test_feed_and_fetch_operators(tmp_path):
    x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 3])
    out = fluid.layers.elementwise_add(x, y)
    exe = fluid.Executor(fluid.CPUPlace())
    block = out.block
    assert not has_feed_operators(block, {"x": 0}, "feed") and not has_fetch_operators(block, [x], "fetch")
    fluid.io.save_inference_model(str(tmp_path), ["x", "y"], [out], exe)
    block = fluid.Program.parse_from_string((tmp_path / "__model__").read_bytes()).global_block()
    (fetched,) = (block.var(op.input("X")[0]) for op in block.ops if op.type == "fetch")
    assert has_feed_operators(block, {"x": 0, "y": 0}, "feed") and has_fetch_operators(block, [fetched], "fetch")
    for wrong, says in [
        (({"x": 0}, "feed"), "does not have y"),
        (({"x": 0, "y": 0, "z": 0}, "feed"), "2 feed operators"),
        (({"x": 0, "y": 0}, "other"), "holder is 'feed', expected 'other'"),
    ]:
        with pytest.raises(ValueError, match=says):
            has_feed_operators(block, *wrong)
    for wrong, says in [(([x], "fetch"), "does not have"), (([x, fetched], "fetch"), "1 fetch operators")]:
        with pytest.raises(ValueError, match=says):
            has_fetch_operators(block, *wrong)
    with pytest.raises(ValueError, match="column"):
        block.ops[-1]._set_attr("col", 3)
        has_fetch_operators(block, [fetched], "fetch")


def test_names_of_control_variables():
    name = fluid.framework.generate_control_dev_var_name()
    assert name.startswith("__control_var@0.") and name != fluid.framework.generate_control_dev_var_name()
