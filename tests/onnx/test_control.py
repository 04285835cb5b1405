"""Static Programs with branches, loops and arrays: onnxruntime gives the Executor's values."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid
from running import model_of, onnx, run, session

layers = fluid.layers
OPSETS = [pytest.param(n, id=f"opset{n}") for n in (14, 17, 21)]


def check(static, fetches, feeds, opset=17):
    """Runs the default Program on each feed, here and by onnxruntime."""
    program = static.default_main_program()
    exe = static.Executor()
    exe.run(static.default_startup_program())
    names = [v.name for v in fetches]
    model = model_of(program, list(feeds[0]), names, opset)
    for feed in feeds:
        want = exe.run(program, feed=feed, fetch_list=names)
        for name, got, right in zip(names, run(model, feed), want, strict=True):
            assert got.dtype == right.dtype and got.shape == right.shape, name
            np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6, err_msg=name)
    return model


def kinds(model):
    """Node types of a model, those of sub-graphs included."""

    def of(graph):
        for node in graph.node:
            yield node.op_type
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield from of(attribute.g)

    return list(of(model.graph))


@pytest.mark.parametrize("opset", [11, *OPSETS])
def test_cond(static, opset):
    x = static.data("x", [None, 2])
    total = paddle.sum(x)
    y = static.nn.cond(total > 0, lambda: (x * 2, total), lambda: (x - 1, total * 3))
    model = check(static, [*y, x + y[0]], [{"x": np.float32([[1, 2]])}, {"x": np.float32([[-1, -2], [0, 1]])}], opset)
    assert kinds(model).count("If") == 1


def test_nested_cond_and_parameters(static):
    x = static.data("x", [None, 3])
    positive = paddle.sum(x) > 0
    large = paddle.max(x) > 5
    y = static.nn.cond(
        positive,
        lambda: static.nn.cond(large, lambda: static.nn.fc(x, 2), lambda: static.nn.fc(x, 2, activation="relu")),
        lambda: paddle.mean(x, 1, keepdim=True) + paddle.zeros([1, 2]),
    )
    feeds = [{"x": np.full((2, 3), value, "float32")} for value in (9, 1, -1)]
    check(static, [y], feeds)


@pytest.mark.parametrize("opset", [11, *OPSETS])
def test_while_loop(static, opset):
    n, x = static.data("n", [1], "int64"), static.data("x", [None, 2])
    i = paddle.zeros([1], "int64")

    def body(i, x):
        return [i + 1, paddle.tanh(x) + paddle.cast(i, "float32")]

    i, y = static.nn.while_loop(lambda i, x: i < n, body, [i, x * 1.0])
    feeds = [{"n": np.int64([k]), "x": np.ones((2, 2), "float32")} for k in (0, 1, 5)]
    assert "Loop" in kinds(check(static, [y, i], feeds, opset))


def test_a_branch_in_a_loop(static):
    x = static.data("x", [1])
    i, limit = paddle.zeros([1], "int64"), paddle.full([1], 6, "int64")

    def body(i, x):
        even = paddle.equal(i - i // 2 * 2, paddle.zeros([1], "int64"))
        return [i + 1, static.nn.cond(even, lambda: x * 2, lambda: x - 3)]

    _, y = static.nn.while_loop(lambda i, x: i < limit, body, [i, x + 0.0])
    check(static, [y], [{"x": np.float32([v])} for v in (-1, 2)])


def test_switch_case(static):
    x, index = static.data("x", [2]), static.data("index", [1], "int32")
    y = static.nn.switch_case(index, {0: lambda: x + 1, 2: lambda: x * 5}, default=lambda: -x)
    check(static, [y], [{"x": np.float32([1, 2]), "index": np.int32([k])} for k in (0, 1, 2)])


@pytest.mark.parametrize("opset", OPSETS)
def test_arrays(static, opset):
    x = static.data("x", [None, 3])
    i, n = paddle.zeros([1], "int64"), paddle.full([1], 4, "int64")
    array = layers.array_write(x, paddle.zeros([1], "int64"))

    def body(i, y):
        layers.array_write(y, i, array=array)
        return [i + 1, y * 2 + 1]

    _, last = static.nn.while_loop(lambda i, y: i < n, body, [i, x + 1])
    stacked, _ = layers.tensor_array_to_tensor(array, axis=0, use_stack=True)
    length, first = layers.array_length(array), layers.array_read(array, paddle.zeros([1], "int64"))
    check(static, [stacked, length, first, last], [{"x": np.ones((2, 3), "float32")}], opset)


def test_select_input(static):
    x, mask = static.data("x", [2]), static.data("mask", [1], "int32")
    block = static.default_main_program().current_block()
    out = block.create_var(name="chosen", dtype="float32", shape=[2])
    block.append_op(type="select_input", inputs={"X": [x * 2, x * 3], "Mask": [mask]}, outputs={"Out": [out]})
    model = model_of(static.default_main_program(), ["x", "mask"], ["chosen"], 17)
    for k, factor in ((0, 2), (1, 3)):
        (got,) = run(model, {"x": np.float32([1, 2]), "mask": np.int32([k])})
        assert got.tolist() == [factor, 2 * factor]


def test_variables_written_twice(static):
    """`assign` to a variable and `increment` in place: later operators read the new value."""
    x = static.data("x", [1])
    a = x + 1
    b = a * 2
    paddle.assign(x, a)
    c = a * 10
    counter = layers.increment(layers.fill_constant([1], "int64", 3), 4)
    check(static, [b, c, counter], [{"x": np.float32([5])}])


def test_print_and_assert(static):
    x = static.data("x", [2])
    layers.Assert(paddle.sum(x) > 0)
    y = layers.Print(x * 2)
    check(static, [y + 1], [{"x": np.float32([1, 2])}])


def test_a_program_and_its_interface(static, tmp_path):
    """Inputs and outputs of a Program: fed Variables by default, or Variables and names that are given."""
    x, other = static.data("x", [None, 4]), static.data("other", [None, 4])
    hidden = static.nn.fc(x, 3, activation="relu")
    y = static.nn.fc(hidden, 2) + paddle.sum(other) * 0
    exe, program = static.Executor(), static.default_main_program()
    exe.run(static.default_startup_program())
    path, value = str(tmp_path / "model"), np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
    paddle.onnx.export(program, path, output_spec=[y], opset_version=17)
    model = onnx.load(path + ".onnx")
    assert [i.name for i in model.graph.input] == ["x", "other"]
    assert model.producer_name == "oar" and model.opset_import[0].version == 17
    paddle.onnx.export(program, path, input_spec=[x], output_spec=[hidden.name], opset_version=17)
    made = session(onnx.load(path + ".onnx"))
    (want,) = exe.run(program, feed={"x": value, "other": value}, fetch_list=[hidden])
    np.testing.assert_allclose(made.run(None, {"x": value})[0], want, rtol=1e-5)
    with pytest.raises(ValueError, match="requires output_spec"):
        paddle.onnx.export(program, path, opset_version=17)
    with pytest.raises(ValueError, match="names 'nowhere'"):
        paddle.onnx.export(program, path, input_spec=["nowhere"], output_spec=[y], opset_version=17)


def test_a_loaded_inference_model(static, tmp_path):
    x = static.data("x", [None, 4])
    y = paddle.nn.functional.softmax(static.nn.fc(x, 3))
    exe = static.Executor()
    exe.run(static.default_startup_program())
    static.save_inference_model(str(tmp_path / "served"), [x], [y], exe)
    program, feeds, fetches = static.load_inference_model(str(tmp_path / "served"), exe)
    paddle.onnx.export(program, str(tmp_path / "model"), opset_version=15)
    made = session(onnx.load(str(tmp_path / "model.onnx")))
    value = np.eye(2, 4, dtype="float32")
    (want,) = exe.run(program, feed={feeds[0]: value}, fetch_list=fetches)
    np.testing.assert_allclose(made.run(None, {feeds[0]: value})[0], want, rtol=1e-5)


def test_training_operators_are_left_out(static):
    x, y = static.data("x", [None, 4]), static.data("y", [None, 1])
    hidden = paddle.nn.functional.dropout(static.nn.batch_norm(static.nn.fc(x, 8)), 0.5)
    out = static.nn.fc(hidden, 1)
    paddle.optimizer.Adam(0.01).minimize(paddle.mean(paddle.nn.functional.square_error_cost(out, y)))
    exe, program = static.Executor(), static.default_main_program()
    exe.run(static.default_startup_program())
    test = program.clone(for_test=True)
    r = np.random.default_rng(2)
    value = r.normal(size=(5, 4)).astype("float32")
    exe.run(program, feed={"x": value, "y": value[:, :1]}, fetch_list=[])
    model = model_of(program, ["x"], [out.name], 17)
    (want,) = exe.run(test, feed={"x": value, "y": value[:, :1]}, fetch_list=[out])
    np.testing.assert_allclose(run(model, {"x": value})[0], want, rtol=1e-5, atol=1e-6)


def test_errors_name_operator_scope_and_line(static):
    x = static.data("x", [4])
    with static.name_scope("head"):
        y = paddle.histogram(x, 3)  # where it is made
    with pytest.raises(NotImplementedError) as raised:
        model_of(static.default_main_program(), ["x"], [y.name], 17)
    text = str(raised.value)
    assert "operator histogram has no rule" in text and "in the layer head" in text
    assert "test_control.py" in text and "where it is made" in text
