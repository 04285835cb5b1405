"""Gradients of outputs that backward does not reach: 2.0.2's gradient operators read zeros and store them."""

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402


def leaf(*shape, dtype="float32"):
    return paddle.to_tensor(np.ones(shape, dtype), stop_gradient=False)


def test_split():
    x = leaf(2, 4)
    hidden = x * 2
    a, b = paddle.split(hidden, 2, axis=1)
    assert a.grad is None and b.gradient() is None
    a.sum().backward()
    np.testing.assert_array_equal(a.grad, np.ones([2, 2]))
    np.testing.assert_array_equal(b.gradient(), np.zeros([2, 2]))
    assert b._grad_ivar().name == b.name + "@GRAD" and b.grad.dtype == np.float32
    np.testing.assert_array_equal(x.grad, [[2, 2, 0, 0]] * 2)


def test_from_the_output_itself():
    x = leaf(2, 4, dtype="float64")
    a, b = paddle.split(x, 2, axis=1)
    b.backward()
    assert (b.grad == 1).all() and (a.grad == 0).all() and a.grad.dtype == np.float64


def test_not_read_by_the_gradient_operator():
    """The indices of topk never have a gradient."""
    values, indices = paddle.topk(leaf(2, 4), k=2)
    values.sum().backward()
    assert indices.grad is None and values.grad is not None


def test_operator_that_did_not_run():
    """Two branches from one variable: variables of the other branch stay without a gradient."""
    x = leaf(3)
    one, other = x * 2, x * 3
    parts = paddle.split(other, 3)
    one.sum().backward()
    assert other.grad is None and all(part.grad is None for part in parts)
    stopped = one.detach()
    assert stopped.grad is None


def test_grad_leaves_nothing():
    """paddle.grad does not store gradients in variables."""
    x = leaf(2, 4)
    a, b = paddle.split(x, 2, axis=1)
    (dx,) = paddle.grad([a], [x])
    assert a.grad is None and b.grad is None
    np.testing.assert_array_equal(dx.numpy(), [[1, 1, 0, 0]] * 2)


def test_second_pass_reaches_it():
    x = leaf(2, 4)
    a, b = paddle.split(x, 2, axis=1)
    a.sum().backward(retain_graph=True)
    assert (b.grad == 0).all()
    (b * 3).sum().backward()
    assert (b.grad == 3).all()


def test_stopped_afterwards():
    """Setting stop_gradient on an existing output does not affect the operator that computed it."""
    x = leaf(2, 4)
    a, b = paddle.split(x, 2, axis=1)
    b.stop_gradient = True
    a.sum().backward()
    assert (b.gradient() == 0).all()
    # Here it prevents the previous operator from running in backward.
    first = x * 2
    first.stop_gradient = True
    (first + x).sum().backward()
    assert first.grad is None
