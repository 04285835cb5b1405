"""`x[index] = value` in dygraph mode is differentiable."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest

SHAPE = (3, 4)
INDICES = {
    "integer": 1,
    "negative": -1,
    "slice": slice(0, 2),
    "column": (slice(None), 1),
    "corner": (0, 2),
    "ellipsis": (..., 2),
    "new axis": (None, 1),
    "steps": (slice(None, None, 2), slice(3, None, -2)),
    "whole": slice(None),
    "empty": slice(2, 2),
    "list": [0, 2],
    "lists, one place twice": ([0, 0, 2], [1, 1, 3]),
    "mask": np.arange(12).reshape(SHAPE) % 3 == 0,
}


def leaf(*shape: int) -> paddle.Tensor:
    return paddle.to_tensor(np.random.RandomState(len(shape)).uniform(1, 2, shape), stop_gradient=False)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("one", [True, False])
def test_both_sides(index, one):
    x, weight = leaf(*SHAPE), np.arange(1.0, 13.0).reshape(SHAPE)
    part = np.zeros(SHAPE)[index]
    v = leaf(1) if one else leaf(*part.shape)
    if not one and part.size == 0:
        v = paddle.to_tensor(np.zeros(part.shape), stop_gradient=False)
    y, z = x * 2, v * 3
    y[index] = z
    want = x.numpy() * 2
    want[index] = v.numpy().reshape(part.shape if part.size == 1 else v.shape) * 3
    np.testing.assert_array_equal(y.numpy(), want)
    (y * paddle.to_tensor(weight)).sum().backward()
    dx = weight * 2
    dx[index] = 0
    np.testing.assert_array_equal(x.grad, dx)
    # The positions whose final value is this element of the value: only those have a gradient.
    number = np.full(SHAPE, -1)
    number[index] = np.zeros(part.shape, int) if one else np.arange(part.size).reshape(part.shape)
    dv = np.zeros(v.numpy().size)
    np.add.at(dv, number[number >= 0], 3 * weight[number >= 0])
    if part.size:
        np.testing.assert_array_equal(np.ravel(v.grad), dv)


@pytest.mark.parametrize("value", [0.0, 5, np.float32(2), np.ones(4), [1.0, 2.0, 3.0, 4.0]], ids=str)
def test_constants(value):
    x = leaf(*SHAPE)
    y = x * 2
    y[1] = value
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, [[2] * 4, [0] * 4, [2] * 4])
    np.testing.assert_array_equal(y.numpy()[1], np.broadcast_to(value, 4))


def test_into_a_constant():
    a, total = leaf(3), paddle.zeros([3], dtype="float64")
    for i in range(3):
        total[i] = a[i] * (i + 1)
    assert not total.stop_gradient
    total.sum().backward()
    np.testing.assert_array_equal(a.grad, [1, 2, 3])


def test_values_of_the_tensor_itself():
    a = leaf(3)
    y = a * 1
    y[0] = y[1]
    y[2] = y[0]
    y[:] = y
    y.sum().backward()
    np.testing.assert_array_equal(a.grad, [0, 3, 0])


def test_another_type():
    a = leaf(3)
    b = paddle.to_tensor(np.float32([4]), stop_gradient=False)
    y = a * 1
    y[1] = b * b
    y.sum().backward()
    np.testing.assert_array_equal(b.grad, [8])
    assert b.grad.dtype == np.float32


def test_second_gradients():
    a, b = leaf(3), leaf(1)
    y = a * a
    y[1] = b * b
    (g,) = paddle.grad([(y * y * y).sum()], [a], create_graph=True)
    (h,) = paddle.grad([(g * g).sum()], [a])
    want = 2 * 6 * a.numpy() ** 5 * 30 * a.numpy() ** 4
    want[1] = 0
    np.testing.assert_allclose(h.numpy(), want)


@pytest.mark.parametrize("write", ["set_value", "copy_"])
def test_gradients_of_overwritten_values(write):
    """A gradient that needs the value before set_value or copy_ is refused; parameters may be swapped, and back."""
    value = paddle.to_tensor([10.0, 20.0])
    for y in (paddle.to_tensor([1.0, 2.0], stop_gradient=False) * 3.0, paddle.to_tensor([1.0, 2.0])):
        w = paddle.to_tensor([4.0, 5.0], stop_gradient=False)
        product, total = y * w, y + w
        getattr(y, write)(value)
        total.sum().backward()  # needs no value
        np.testing.assert_array_equal(w.grad, [1.0, 1.0])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        w.clear_gradient()
        (y.detach() * w).sum().backward()
        np.testing.assert_array_equal(w.grad, [10.0, 20.0])
    layer = paddle.nn.Linear(2, 1)
    x = paddle.to_tensor([[1.0, 2.0]], stop_gradient=False)
    loss, before = layer(x).sum(), {k: v.numpy() for k, v in layer.state_dict().items()}
    layer.set_state_dict({k: v + 1.0 for k, v in before.items()})
    layer.set_state_dict(before)
    loss.backward()
    np.testing.assert_array_equal(x.grad, before["weight"].T)


def test_assignment_to_leaves_is_refused():
    """As in 2.6.2; 2.0.2 computes the gradient of the overwritten value."""
    x = leaf(3)
    with pytest.raises(ValueError, match="leaf Tensor"):
        x[0] = 1.0
    with paddle.no_grad():
        x[0] = 1.0
    assert x.numpy()[0] == 1 and not x.stop_gradient


def test_changing_tensors_saved_for_backward_is_an_error():
    x = leaf(3)
    y = x * 1
    z = y * y
    y[1] = 0.0
    with pytest.raises(RuntimeError, match="inplace"):
        z.sum().backward()


def test_in_a_program():
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            a = paddle.static.data("a", [3, 4], "float32")
            b = paddle.static.data("b", [2], "float32")
            a.stop_gradient = b.stop_gradient = False
            y, v = a * 2, b * 3
            y[1:3, 0] = paddle.reshape(v, [2, 1])
            y[0] = 7.0
            loss = paddle.sum(y * y)
            da, db = paddle.static.gradients(loss, [a, b])
            feed = {"a": np.ones(SHAPE, "float32"), "b": np.float32([1, 2])}
            da, db = paddle.static.Executor().run(main, feed=feed, fetch_list=[da, db])
    finally:
        paddle.disable_static()
    want = np.full(SHAPE, 8.0)
    want[1:, 0] = 0
    want[0] = 0
    np.testing.assert_array_equal(da, want)
    np.testing.assert_array_equal(db, [18, 36])


def test_into_a_constant_in_a_program():
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            a = paddle.static.data("a", [2], "float32")
            a.stop_gradient = False
            total = paddle.zeros([4])
            total[1:3] = a * 5
            (da,) = paddle.static.gradients(paddle.sum(total), [a])
            (da,) = paddle.static.Executor().run(main, feed={"a": np.float32([1, 2])}, fetch_list=[da])
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(da, [5, 5])


@pytest.mark.parametrize(
    "write",
    [
        lambda y: paddle.assign(paddle.ones([2]), output=y),
        lambda y: fluid.layers.sums([paddle.ones([2])], out=y),
        lambda y: fluid.layers.fill_constant([2], "float32", 7.0, out=y),
        lambda y: fluid.layers.zeros_like(y, out=y),
        lambda y: fluid.layers.ones_like(y, out=y),
    ],
    ids=["assign", "sums", "fill_constant", "zeros_like", "ones_like"],
)
def test_a_written_output_is_changed(write):
    """A gradient that needs the value before the output was written is refused."""
    y = paddle.to_tensor([1.0, 2.0], stop_gradient=False) * 2.0
    square = y * y
    write(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()
