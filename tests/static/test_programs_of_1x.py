"""Programs of 1.x: order and text of operators, and layers that 2.0 has removed."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest


@pytest.fixture(autouse=True)
def programs():
    """A new main and a new startup Program."""
    paddle.enable_static()
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield fluid.default_main_program(), fluid.default_startup_program()
    paddle.disable_static()


def run(feed, fetch):
    executor = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        executor.run(fluid.default_startup_program())
    return [np.array(value) for value in executor.run(feed=feed, fetch_list=fetch, return_numpy=False)]


def test_initial_values_are_set_first(programs):
    x = fluid.data("x", [None, 2])
    fluid.layers.fc(fluid.layers.fc(x, 3), 4)
    names = [op.output("Out")[0] for op in programs[1].global_block().ops]
    assert names == ["fc_1.b_0", "fc_1.w_0", "fc_0.b_0", "fc_0.w_0"]


def test_text_of_a_gradient_block(programs):
    i = fluid.layers.fill_constant([1], "int64", 0)
    x = fluid.data("x", [2])
    x.stop_gradient = False
    total = fluid.layers.assign(x)
    loop = fluid.layers.While(fluid.layers.less_than(i, fluid.layers.fill_constant([1], "int64", 3)))
    with loop.block():
        fluid.layers.assign(total * 2.0, total)
        fluid.layers.increment(i)
        fluid.layers.less_than(i, fluid.layers.fill_constant([1], "int64", 3), cond=loop.cond_var)
    fluid.backward.append_backward(fluid.layers.mean(total))
    text = programs[0].to_string(True)
    assert [line.strip() for line in text.splitlines() if "forward_block_idx" in line] == ["forward_block_idx: 1"]
    again = fluid.Program.parse_from_string(programs[0].desc.serialize_to_string())
    assert again.block(2).forward_block_idx == 1


def test_text_has_set_fields_and_errors_name_missing_ones(programs):
    block = programs[0].global_block()
    block.create_var(name="a")
    block.create_var(name="b", dtype="float32", lod_level=0)
    whole = programs[0].to_string(True)
    assert "tensor_array" not in whole and whole.count("lod_tensor {") == 1 and whole.count("lod_level: 0") == 1
    shaped = block.create_var(name="c", shape=[1])
    levelled = block.create_var(name="d", lod_level=1)
    assert "data_type: BOOL" not in programs[0].to_string(False) + block.to_string(False)
    gap = r"\['{}type.lod_tensor.tensor.data_type'{}\] are not initialized"
    with pytest.raises(ValueError, match=gap.format(r"blocks\[0\].vars\[2\].", ".*")):
        programs[0].to_string(True)
    with pytest.raises(ValueError, match=gap.format(r"vars\[2\].", ".*")):
        block.to_string(True)
    with pytest.raises(ValueError, match=gap.format("", "")):
        shaped.to_string(True, with_details=True)
    with pytest.raises(ValueError, match="'type.lod_tensor.tensor'"):
        levelled.to_string(True)


def test_sequence_conv_as_a_layer():
    x = fluid.data("x", [None, 2], lod_level=1)
    attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    layer = fluid.dygraph.nn.SequenceConv("conv", 3, param_attr=attr, bias_attr=attr, act="relu")
    function = fluid.layers.sequence_conv(x, 3, param_attr=attr, bias_attr=attr, act="relu")
    value = fluid.create_lod_tensor(np.arange(6, dtype="float32").reshape(3, 2), [[2, 1]], fluid.CPUPlace())
    one, other = run({"x": value}, [layer(x), function])
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[:, 0], [3.5, 3.5, 5.0])
    paddle.disable_static()
    with pytest.raises(AssertionError, match="SequenceConv is not supported by dynamic graph"):
        fluid.dygraph.nn.SequenceConv("conv", 3)


def test_row_conv_as_a_layer():
    x = fluid.data("x", [None, 2], lod_level=1)
    attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
    layer = fluid.dygraph.nn.RowConv("conv", 1, param_attr=attr, act="relu")
    function = fluid.layers.row_conv(x, 1, param_attr=attr, act="relu")
    value = fluid.create_lod_tensor(np.arange(6, dtype="float32").reshape(3, 2), [[2, 1]], fluid.CPUPlace())
    one, other = run({"x": value}, [layer(x), function])
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, [[1, 2], [1, 1.5], [2, 2.5]])


def test_states_of_basic_gru_with_their_batch():
    x, state = fluid.data("x", [None, None, 3]), fluid.data("state", [None, 4])
    _, last = fluid.contrib.layers.basic_gru(x, state, 4, num_layers=2, bidirectional=True)
    feed = {"x": np.ones((2, 5, 3), "float32"), "state": np.zeros((8, 4), "float32")}
    assert run(feed, [last])[0].shape == (4, 2, 4)


def test_a_layer_takes_one_name():
    x, label = fluid.data("x", [None, 12], lod_level=1), fluid.data("label", [None, 1], "int64", lod_level=1)
    for _ in range(2):
        fluid.layers.dynamic_lstm(x, 12)
        fluid.layers.dynamic_gru(x, 4)
        fluid.layers.hsigmoid(x, label, 6)
        fluid.layers.nce(x, label, 6)
        fluid.layers.linear_chain_crf(x, label)
    names = {p.name for p in fluid.default_main_program().all_parameters()}
    layers = ("lstm", "gru", "hierarchical_sigmoid", "nce")
    expected = {f"{layer}_{i}.{part}_0" for layer in layers for i in (0, 1) for part in "wb"}
    assert names == expected | {"linear_chain_crf_0.w_0", "linear_chain_crf_1.w_0"}


def test_warpctc_with_a_batch_in_front():
    scores = fluid.layers.data("scores", [4, 4, 8])
    label = fluid.layers.data("label", [12, 1], dtype="int32")
    lengths = [fluid.layers.data(name, [n], dtype="int64") for name, n in (("steps", 11), ("labels", 12))]
    assert fluid.layers.warpctc(scores, label, 0, False, *lengths).shape == (-1, 1)
    feed = {"scores": np.ones((1, 4, 4, 8), "float32"), "label": np.ones((1, 12, 1), "int32")}
    feed |= {"steps": np.ones((1, 11), "int64"), "labels": np.ones((1, 12), "int64")}
    with pytest.raises(ValueError, match="three dimensions"):
        run(feed, [fluid.default_main_program().global_block().ops[-1].output("Loss")[0]])


def test_nce_takes_the_first_sample_weights():
    x = fluid.layers.assign(np.ones((1, 4), "float32"))
    label = fluid.layers.assign(np.ones((1, 1), "int64"))
    costs = [
        fluid.layers.nce(x, label, 20, num_neg_samples=2, seed=1, param_attr="w", bias_attr="b", sample_weight=weight)
        for weight in (None, fluid.layers.assign(np.float32([[3], [0], [0]])))
    ]
    one, other = run({}, costs)
    np.testing.assert_allclose(3 * one, other, rtol=1e-6)


def test_an_offset_of_the_wrong_width_is_refused_when_it_runs():
    x, offset = fluid.data("x", [1, 3, 4, 4]), fluid.data("offset", [1, 4, 4, 4])
    mask = fluid.data("mask", [1, 1, 4, 4])
    for modulated in (True, False):
        out = fluid.layers.deformable_conv(x, offset, mask if modulated else None, 4, 1, modulated=modulated)
        assert out.shape == (1, 4, 4, 4)
        feed = {v.name: np.zeros(v.shape, "float32") for v in (x, offset, mask)}
        with pytest.raises(ValueError, match=r"Offset must have shape \[1, 2, 4, 4\]"):
            run(feed, [out])
