"""Arrays as operands of Tensor operators, and Tensors as arguments of numpy functions."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import paddle
import pytest

A = np.arange(1, 7, dtype="float32").reshape(2, 3)
B = np.float32([[2, 1, 3], [1, 2, 2]])
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("op", OPERATORS + COMPARISONS)
@pytest.mark.parametrize("other", [B, B[0], B[:, :1], B[None]])
def test_operators(op, other):
    for left, right in ((paddle.to_tensor(A), other), (other, paddle.to_tensor(A))):
        got = op(left, right)
        assert isinstance(got, paddle.Tensor)
        np.testing.assert_allclose(got.numpy(), op(np.asarray(left), np.asarray(right)), rtol=1e-5)


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod])
def test_integer_operators(op):
    a, b = A.astype("int64"), B.astype("int64")
    np.testing.assert_array_equal(op(paddle.to_tensor(a), b).numpy(), op(a, b))


def test_products():
    np.testing.assert_allclose((paddle.to_tensor(A) @ B.T).numpy(), A @ B.T)


def test_gradients():
    x = paddle.to_tensor(A, stop_gradient=False)
    (B * x + x * B - B / x).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * B + B / A**2, rtol=1e-5)


def test_the_type_of_the_tensor_is_used():
    """As with two Tensors, and with the same warning."""
    for left, right in ((paddle.to_tensor(A), B.astype("float64")), (B.astype("float64"), paddle.to_tensor(A))):
        with pytest.warns(UserWarning, match="left dtype is float32, but right dtype is float64"):
            got = left * right
        assert got.dtype == paddle.to_tensor(A).dtype
        np.testing.assert_array_equal(got.numpy(), A * B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (np.float64(2) * paddle.to_tensor(A)).dtype == paddle.to_tensor(A).dtype
        assert (paddle.to_tensor(A) * np.array(2.0)).shape == [2, 3]


def test_in_place():
    x = paddle.to_tensor(A)
    x += B
    x *= B
    np.testing.assert_array_equal(x.numpy(), (A + B) * B)


def test_incompatible_operands():
    x = paddle.to_tensor(A)
    with pytest.raises(ValueError, match="elementwise_mul"):
        x * np.ones(5, "float32")
    for bad in (np.array([None, 1, 2]), np.array(["a", "b", "c"])):
        with pytest.raises(TypeError):
            x * bad
        with pytest.raises(TypeError):
            bad * x


def test_a_traced_layer_refuses_values_from_arrays():
    class Net(paddle.nn.Layer):
        def forward(self, x):
            return B * x + A

    x = paddle.to_tensor(A)
    with pytest.raises(RuntimeError, match="got its value from an array"):
        paddle.jit.TracedLayer.trace(Net(), [x])


FUNCTIONS = [
    np.mean,
    np.sum,
    np.max,
    np.min,
    np.std,
    np.var,
    np.prod,
    np.median,
    np.argmax,
    np.squeeze,
    np.sort,
    np.transpose,
    np.cumsum,
    np.all,
    np.any,
    np.ravel,
    np.shape,
    np.ndim,
    np.size,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_numpy(function):
    got, want = function(paddle.to_tensor(A)), function(A)
    assert type(got) is type(want)
    np.testing.assert_array_equal(got, want)


def test_functions_of_several_tensors():
    a, b = paddle.to_tensor(A), paddle.to_tensor(B)
    np.testing.assert_array_equal(np.concatenate([a, b]), np.concatenate([A, B]))
    np.testing.assert_array_equal(np.mean(a, axis=0), np.mean(A, axis=0))
    np.testing.assert_array_equal(np.where(A > 2, a, b), np.where(A > 2, A, B))
    assert np.allclose(a, A) and not np.array_equal(a, b)
    out = np.zeros(3, "float32")
    assert np.sum(a, axis=0, out=out) is out and (out == A.sum(0)).all()


def test_numpy_does_not_write_into_copies():
    x = paddle.to_tensor(A)
    for call in (
        lambda: np.copyto(x, B),
        lambda: np.put(x, 0, 1),
        lambda: np.fill_diagonal(x, 0),
        lambda: np.sum(B, axis=0, out=paddle.zeros([3])),
    ):
        with pytest.raises(TypeError):
            call()
    np.testing.assert_array_equal(x.numpy(), A)
