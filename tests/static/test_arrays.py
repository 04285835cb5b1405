"""LoDTensorArrays, SelectedRows variables, in-place functions and feeds in static mode."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid import core
from paddle.fluid.op import Operator


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield
    paddle.disable_static()


def run(fetch, feed=None):
    return paddle.static.Executor().run(feed=feed or {}, fetch_list=fetch)


def array_of(parts):
    array = fluid.layers.create_array("float32")
    for i, part in enumerate(parts):
        part.stop_gradient = False
        fluid.layers.array_write(part, fluid.layers.fill_constant([1], "int64", i), array)
    return array


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_array_to_tensor_and_its_gradient(stack, axis):
    shapes = [(2, 3)] * 3 if stack else [(2, 3), (4, 3), (1, 3)] if axis == 0 else [(2, 1), (2, 3), (2, 2)]
    values = [np.random.default_rng(i).random(s, "float32") for i, s in enumerate(shapes)]
    parts = [paddle.static.data(f"x{i}", list(s), "float32") for i, s in enumerate(shapes)]
    array = array_of(parts)
    out = (paddle.stack if stack else paddle.concat)(array, axis=axis)
    assert out.shape[axis] == -1
    expected = (np.stack if stack else np.concatenate)(values, axis)
    w = np.random.default_rng(9).random(expected.shape, "float32")
    grads = paddle.static.gradients([out * fluid.layers.assign(w)], parts)
    feed = {f"x{i}": v for i, v in enumerate(values)}
    got, *dx = run([out, *grads], feed)
    np.testing.assert_array_equal(got, expected)
    wanted = np.split(w, 3, axis) if stack else np.split(w, np.cumsum([v.shape[axis] for v in values])[:-1], axis)
    for d, want, v in zip(dx, wanted, values, strict=True):
        np.testing.assert_array_equal(d, want.reshape(v.shape))


def test_index_of_the_parts():
    parts = [fluid.layers.ones([2, n], "float32") for n in (1, 3)]
    out, index = fluid.layers.tensor_array_to_tensor(array_of(parts), axis=1)
    joined, sizes = run([out, index])
    assert joined.shape == (2, 4) and sizes.tolist() == [1, 3] and sizes.dtype == np.int32


def test_a_single_tensor_cannot_be_stacked():
    with pytest.raises(TypeError):
        paddle.stack(paddle.rand([2]))


def test_in_place_functions_are_the_plain_ones():
    x = paddle.static.data("x", [2, 3], "float32")
    with pytest.warns(UserWarning):
        outs = [paddle.reshape_(x, [3, 2]), paddle.unsqueeze_(x, [0]), paddle.tanh_(x)]
    assert all(out.name != "x" for out in outs)
    value = np.random.rand(2, 3).astype("float32")
    reshaped, longer, tanh, same = run([*outs, x], {"x": value})
    assert reshaped.shape == (3, 2) and longer.shape == (1, 2, 3)
    np.testing.assert_allclose(tanh, np.tanh(value), rtol=1e-6)
    np.testing.assert_array_equal(same, value)


def test_tensors_among_the_axes():
    x = paddle.static.data("x", [3, 2], "float32")
    out = paddle.unsqueeze(x, [fluid.layers.fill_constant([1], "int32", 2), 0])
    assert run([out], {"x": np.zeros((3, 2), "float32")})[0].shape == (1, 3, 2, 1)


def test_fewer_sizes_fed_than_declared():
    x = fluid.data("x", [-1, 2], "float32")
    index = fluid.data("index", [-1, 1], "int32")
    out = fluid.layers.gather(x, index)
    table = np.float32([[1, 2], [3, 4]])
    assert run([out], {"x": table, "index": np.int32([1])})[0].tolist() == [[3, 4]]
    for wrong in (np.int32([[[1]]]), np.int32([[1, 1]])):
        with pytest.raises(ValueError, match="should have dimensions"):
            run([out], {"x": table, "index": wrong})


def rows_of(scope, name, rows, value, height=10):
    var = scope.var(name).get_selected_rows()
    var.set_height(height)
    var.set_rows(rows)
    var.get_tensor().set(value, core.CPUPlace())
    return var


def test_sum_of_selected_rows_has_every_row_once():
    scope = core.Scope()
    rows_of(scope, "a", [1, 4], np.ones((2, 3), "float64"))
    rows_of(scope, "b", [4, 7], np.full((2, 3), 2.0))
    out = scope.var("out").get_selected_rows()
    Operator("sum", X=["a", "b"], Out="out").run(scope, core.CPUPlace())
    assert dict(zip(out.rows(), np.array(out.get_tensor())[:, 0], strict=True)) == {1: 1.0, 4: 3.0, 7: 2.0}


def test_dense_results_in_a_variable_of_selected_rows():
    scope = core.Scope()
    out = rows_of(scope, "out", [0, 1], np.zeros((2, 3), "float32"))
    Operator("fill_constant", shape=[4, 2], value=3.5, Out="out").run(scope, core.CPUPlace())
    np.testing.assert_array_equal(np.array(out.get_tensor()), np.full((4, 2), 3.5, "float32"))


def test_sizes_of_the_values_of_selected_rows():
    rows = rows_of(core.Scope(), "r", [0, 1], np.arange(6.0).reshape(2, 3))
    tensor = rows.get_tensor()
    tensor._set_dims(tensor._get_dims())
    assert np.array(tensor).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    tensor._set_dims([4, 3])
    assert np.array(tensor).shape == (4, 3) and not np.array(tensor).any()


def test_batch():
    assert list(paddle.batch(lambda: range(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError):
        paddle.batch(lambda: range(5), 0)
