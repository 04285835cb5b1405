"""Behaviour that 2.0.2's own tests check and no other test here does."""

from __future__ import annotations

import sys

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle import static
from paddle.fluid.generator import Generator


@pytest.fixture
def program():
    paddle.enable_static()
    main = static.Program()
    with static.program_guard(main, static.Program()), fluid.unique_name.guard(), static.scope_guard(static.Scope()):
        yield main
    paddle.disable_static()


def test_broadcast_shape_with_unknown_sizes():
    assert paddle.broadcast_shape([-1, 1, 3], (1, 3, 1)) == [-1, 3, 3]
    assert paddle.broadcast_shape([3], [-1, 1]) == [-1, 3]
    assert paddle.broadcast_shape([2, 1], [-1]) == [2, -1]
    assert paddle.broadcast_shape([0], [4, 1]) == [4, 0]
    for shapes in (([2, 1, 3], [3, 3, 1]), ([0], [3])):
        with pytest.raises(ValueError, match="cannot be broadcast"):
            paddle.broadcast_shape(*shapes)


def test_a_parameter_is_initialized_even_if_the_program_has_a_variable_of_its_name(program):
    with static.program_guard(program, program):
        static.nn.fc(static.data("x", [1, 3]), 2, weight_attr=paddle.ParamAttr(name="shared"))
        with fluid.dygraph.guard():
            weight = paddle.nn.Linear(3, 2, weight_attr=paddle.ParamAttr(name="shared")).weight
            assert weight.numpy().any()


def test_sparse_embedding(program):
    ids = static.data("ids", [None, 1], "int64", lod_level=1)
    entry = paddle.distributed.ProbabilityEntry(0.5)
    made = static.nn.sparse_embedding(ids, [100, 10], padding_idx=-1, entry=entry)
    (op,) = [op for op in program.global_block().ops if op.type == "lookup_table"]
    assert op.attr("entry") == "probability_entry:0.5" and op.attr("padding_idx") == 99
    assert all(op.attr(name) for name in ("is_sparse", "is_distributed", "remote_prefetch")) and not op.attr("is_test")
    assert made.shape == (-1, 10) and fluid.contrib.layers.sparse_embedding is static.nn.sparse_embedding
    table = program.global_block().var(op.input("W")[0])
    assert table.type == fluid.core.VarDesc.VarType.SELECTED_ROWS
    with pytest.raises(ValueError, match="entry"):
        static.nn.sparse_embedding(ids, [100, 10], entry="probability_entry:0.5")
    with pytest.raises(TypeError):
        static.nn.sparse_embedding(ids, [100, 10], dtype="float64")


def following(state) -> int:
    generator = Generator()
    generator.set_state(state)
    return generator.random()


def test_a_separate_generator_has_the_numbers_of_the_global_one():
    own = Generator().manual_seed(2**33 + 7)
    shared = paddle.seed(2**33 + 7)
    assert own.get_state() == shared.get_state()
    for _ in range(320):
        own.random()
    state = own.get_state()
    assert own.initial_seed() == 2**33 + 7 and own.random() == following(state)
    shared.set_state(state)
    drawn = paddle.randint(0, 2**31 - 1, [4], "int64").numpy()
    own.set_state(state)
    assert own.random() != own.random()
    shared.set_state(own.get_state())
    later = paddle.randint(0, 2**31 - 1, [2], "int64").numpy()
    np.testing.assert_array_equal(drawn[2:], later)
    with pytest.raises(ValueError, match="state"):
        own.set_state((1, [1, 2], 0))


def test_scipy_is_checked_on_windows_only(monkeypatch):
    from paddle.check_import_scipy import check_import_scipy

    monkeypatch.setitem(sys.modules, "scipy.io", None)
    check_import_scipy("posix")
    check_import_scipy("nt")


def test_argument_errors(program):
    x = static.data("x", [2, 3])
    with pytest.raises(AssertionError, match="zero"):
        paddle.randn([])
    with pytest.raises(TypeError, match="axis"):
        paddle.prod(x, "bool")
    with pytest.raises(TypeError, match="median"):
        paddle.median([1, 2])


def test_the_loss_is_named_after_its_function(program):
    x = static.data("x", [2, 3])
    for reduction in ("none", "sum", "mean"):
        assert "margin_ranking_loss" in paddle.nn.functional.margin_ranking_loss(x, x, x, 0.1, reduction).name
    assert paddle.nn.functional.common.interpolate is paddle.nn.functional.interpolate


def test_a_control_flow_operator_has_no_device(program):
    i, n = (paddle.full([1], value, "int64") for value in (0, 3))
    cond = paddle.less_than(i, n)
    with pytest.warns(UserWarning, match=r"The Op\(while\) is not support to set device."), static.device_guard("cpu"):
        loop = fluid.layers.While(cond)
        with loop.block():
            fluid.layers.increment(i, in_place=True)
            fluid.layers.less_than(i, n, cond=cond)


def test_an_optimizer_in_a_branch_supports_one_place_only(program):
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [4]), 2))
    yes = fluid.layers.fill_constant([1], "bool", True)
    fluid.layers.case([(yes, lambda: fluid.optimizer.SGD(0.1).minimize(loss) and None)], lambda: None)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(static.default_startup_program())
    feed = {"x": np.ones((4, 4), "float32")}
    for count in (1, 2):
        compiled = fluid.CompiledProgram(program).with_data_parallel(loss.name, places=[fluid.CPUPlace()] * count)
        if count == 1:
            exe.run(compiled, feed=feed, fetch_list=[loss])
            continue
        with pytest.raises(NotImplementedError, match="branch"):
            exe.run(compiled, feed=feed, fetch_list=[loss])


def test_input_spec_as_a_key():
    spec = static.InputSpec
    assert hash(spec([10, 16], name="x")) == hash(spec([10, 16])) and spec([10, 16], name="x") != spec([10, 16])
    assert spec([-3, 2]).shape == (-1, 2)
    with pytest.raises(ValueError, match="an entry"):
        spec([10]).unbatch()


def test_programs_as_code_and_as_a_picture(program, tmp_path):
    x = static.data("x", [2, 3], "float32", lod_level=1)
    loss = paddle.mean(static.nn.fc(x, 2))
    static.append_backward(loss)
    code = fluid.debugger.pprint_program_codes(program)
    assert "LoDTensor x (level=1, tensor(type=float32, shape=[2, 3]))" in code
    assert "fc_0.tmp_0 = mul(X=x, Y=fc_0.w_0) [{" in code and "@GRAD" not in code
    assert "@GRAD" in fluid.debugger.pprint_block_codes(program.block(0), show_backward=True)
    path = tmp_path / "block.dot"
    fluid.debugger.draw_block_graphviz(program.block(0), highlights=["fc_0.w"], path=str(path))
    orange = [line for line in path.read_text().splitlines() if "orange" in line]
    assert orange and all('label="fc_0.w_0' in line for line in orange)
