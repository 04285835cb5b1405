"""Program, Block, Operator, Variable: building, cloning, pruning, printing."""

from __future__ import annotations

import paddle
import paddle.fluid as fluid
import pytest
from paddle._basics.names import OpRole
from paddle._programs.variable import Parameter

layers = fluid.layers


def build():
    x = layers.data("x", [13])
    h = layers.dropout(layers.fc(x, 4, act="relu"), 0.5)
    return x, layers.mean(h)


def types(program):
    return [op.type for op in program.global_block().ops]


def test_text_has_all_parts(static):
    build()
    text = str(static.default_main_program())
    for part in (
        "var x : paddle.VarType.LOD_TENSOR.shape(-1, 13)",
        "persist trainable param fc_0.w_0",
        "= mul(inputs=",
    ):
        assert part in text
    proto = static.default_main_program().to_string(True)
    assert proto.startswith("blocks {\n  idx: 0\n  parent_idx: -1\n") and 'name: "fc_0.w_0"' in proto
    assert "stop_gradient: True" in static.default_main_program().to_string(True, with_details=True)


def test_bytes_round_trip(static):
    build()
    program = static.default_main_program()
    again = static.Program.parse_from_string(program.desc.serialize_to_string())
    assert types(again) == types(program)
    assert again.desc.serialize_to_string() == program.desc.serialize_to_string()
    with pytest.raises(Exception):  # noqa: B017
        static.Program.parse_from_string(b"not a program")


def test_clone_keeps_parameters_and_data(static):
    build()
    copy = static.default_main_program().clone()
    assert sorted(p.name for p in copy.all_parameters()) == ["fc_0.b_0", "fc_0.w_0"]
    assert isinstance(copy.all_parameters()[0], Parameter)
    assert copy.global_block().var("x").is_data and copy.global_block().var("x").stop_gradient
    copy.global_block().append_op(type="relu", inputs={"X": ["x"]}, outputs={"Out": ["x"]})
    assert types(copy) != types(static.default_main_program())


def test_clone_for_test_is_the_forward_pass(static):
    _, loss = build()
    before = types(static.default_main_program())
    static.append_backward(loss)
    test = static.default_main_program().clone(for_test=True)
    assert types(test) == before
    dropout = next(op for op in test.global_block().ops if op.type == "dropout")
    assert dropout.attr("is_test") is True
    assert not any("@GRAD" in name for name in test.global_block().vars)


def test_prune_keeps_what_a_target_needs(static):
    x, loss = build()
    layers.relu(x)
    pruned = static.default_main_program()._prune_with_input(["x"], [loss])
    assert types(pruned) == types(static.default_main_program())[:-1]
    inner = static.default_main_program().global_block().ops[0].output("Out")[0]
    assert types(static.default_main_program()._prune_with_input([inner], [loss]))[0] != "mul"
    with pytest.raises(ValueError):
        static.default_main_program()._prune_with_input(["x"], [1])
    with pytest.raises(ValueError):
        static.default_main_program()._prune_with_input([1], [loss])
    with pytest.raises(ValueError):
        static.default_main_program()._prune(["nothing makes this"])


def test_program_guard_and_scopes_of_names(static):
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.name_scope("outer"), static.name_scope("inner"):
        out = layers.relu(layers.data("x", [2]))
    assert static.default_main_program() is not main
    assert main.global_block().ops[0].attr("op_namescope") == "/outer/inner/"
    assert out.block.program is main
    with pytest.raises(TypeError):
        with static.program_guard("main"):
            pass


def test_device_guard(static):
    with static.device_guard("gpu:1"):
        out = layers.relu(layers.data("x", [2]))
    assert out.op.attr("op_device") == "gpu:1"
    for bad in ("cpu:1", "tpu"):
        with pytest.raises(ValueError):
            with static.device_guard(bad):
                pass


def test_roles_of_operators(static):
    program = static.default_main_program()
    x = layers.data("x", [2])
    with program._optimized_guard([x, "g"]):
        out = layers.relu(x)
    assert out.op.attr("op_role") == int(OpRole.Optimize) and out.op.attr("op_role_var") == ["x", "g"]
    with program._lr_schedule_guard(True):
        out = layers.relu(x)
    assert out.op.attr("op_role") == int(OpRole.LRSched) | int(OpRole.Optimize)
    assert layers.relu(x).op.attr("op_role") == 0


def test_operators_have_a_callstack(static):
    out = layers.relu(layers.data("x", [2]))
    lines = out.op.attr("op_callstack")
    assert any("test_program.py" in line for line in lines)


def test_invalid_operators_are_removed(static):
    block = static.default_main_program().global_block()
    x = layers.data("x", [2])
    for error, kwargs in (
        (ValueError, {"type": "no such operator"}),
        (ValueError, {"type": None}),
        (AssertionError, {"type": "relu", "inputs": {}, "outputs": {"Out": x}}),
        (ValueError, {"type": "relu", "inputs": {"X": x}, "outputs": {}}),
        (ValueError, {"type": "relu", "inputs": {"X": [x, x]}, "outputs": {"Out": x}}),
        (TypeError, {"type": "relu", "inputs": {"X": 1}, "outputs": {"Out": x}}),
    ):
        with pytest.raises(error):
            block.append_op(**kwargs)
    assert block.desc.op_size() == 0 and block.ops == []


def test_variables_do_not_change_their_kind(static):
    block = static.default_main_program().global_block()
    block.create_var(name="v", shape=[2], dtype="float32", persistable=True)
    block.create_var(name="v", shape=[2], dtype="float32")
    for wrong in ({"shape": [3]}, {"dtype": "int32"}, {"persistable": False}, {"lod_level": 1}):
        with pytest.raises(ValueError):
            block.create_var(name="v", **wrong)
    with pytest.raises(ValueError):
        block.create_parameter([-1, 2], "float32")
    with pytest.raises(TypeError):
        iter(block.var("v"))
    with pytest.raises(AssertionError):
        block.var("v").numpy()


@pytest.mark.parametrize(
    "key", [0, -1, slice(1, 3), slice(None, None, 2), (Ellipsis, 0), (slice(None), slice(-2, None))]
)
def test_index_of_a_variable(static, key):
    import numpy as np

    x = static.data("x", [4, 3])
    array = np.arange(12, dtype="float32").reshape(4, 3)
    (out,) = static.Executor().run(feed={"x": array}, fetch_list=[x[key]])
    np.testing.assert_array_equal(out, array[key].reshape(out.shape))


def test_index_out_of_range(static):
    x = static.data("x", [4, 3])
    for bad in ((0, 0, 0), 4, (Ellipsis, Ellipsis)):
        with pytest.raises(IndexError):
            x[bad]
    with pytest.raises(TypeError):
        x["a"]
    with pytest.raises(ValueError):
        x[::0]


def test_default_mode_is_restored(static):
    assert not paddle.in_dynamic_mode()
