"""`paddle.autograd.PyLayer`: gradients from Python."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import paddle
import pytest
from paddle.autograd import PyLayer


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, x, y, factor=2.0):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensor()
        return first * y * ctx.factor + second, first * x * ctx.factor + second


def leaf(*values):
    return paddle.to_tensor(list(values), stop_gradient=False)


def test_gradients_of_two_outputs():
    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
    product, total = Scaled.apply(x, y, factor=10.0)
    assert not product.stop_gradient and not product.is_leaf
    (product.sum() + 3 * total.sum()).backward()
    assert x.grad.tolist() == [53.0, 73.0] and y.grad.tolist() == [23.0, 33.0]


def test_an_output_without_gradient_counts_as_zeros():
    x, y = leaf(2.0), leaf(5.0)
    Scaled.apply(x, y)[1].backward()
    assert x.grad.tolist() == [1.0] and y.grad.tolist() == [1.0]


def test_within_a_network():
    linear = paddle.nn.Linear(2, 2)
    x = paddle.ones([1, 2])
    out = Scaled.apply(linear(x), linear(x * 2), factor=0.5)[0]
    out.sum().backward()
    want = paddle.nn.Linear(2, 2)
    want.set_state_dict(linear.state_dict())
    (want(x) * want(x * 2) * 0.5).sum().backward()
    np.testing.assert_allclose(linear.weight.grad, want.weight.grad, rtol=1e-6)


def test_context():
    seen = []

    class Two(PyLayer):
        @staticmethod
        def forward(ctx, x, none, number):
            assert paddle.is_grad_enabled() is False and none is None and number == 3
            ctx.set_materialize_grads(False)
            index = paddle.argmax(x)
            fixed = x * 2
            ctx.mark_non_differentiable(fixed)
            return x * 3, index, fixed, "text", x * 5

        @staticmethod
        def backward(ctx, *grads):
            seen.extend(None if g is None else g.tolist() for g in grads)
            return grads[0] * 3

    x = leaf(1.0, 4.0)
    out, index, fixed, text, _ = Two.apply(x, None, 3)
    assert index.stop_gradient and fixed.stop_gradient and text == "text"
    out.sum().backward()
    assert seen == [[1.0, 1.0], None, None, None] and x.grad.tolist() == [3.0, 3.0]


def test_an_input_that_is_returned():
    class Same(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = leaf(1.0)
    y = Same.apply(x)
    assert y is not x
    y.backward()
    assert x.grad.tolist() == [7.0]


def test_constant_inputs():
    x, y = paddle.to_tensor([2.0]), leaf(5.0)
    assert Scaled.apply(x, x)[0].stop_gradient
    Scaled.apply(x, y)[0].backward()
    assert y.grad.tolist() == [4.0]
    with paddle.no_grad():
        assert Scaled.apply(x, y)[0].stop_gradient


def test_none_is_zeros():
    class Nothing(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x = leaf(1.0)
    Nothing.apply(x).backward()
    assert x.grad.tolist() == [0.0]


def test_nothing_is_kept():
    class Saved(PyLayer):
        @staticmethod
        def forward(ctx, x):
            out = paddle.exp(x)
            ctx.save_for_backward(out)
            ctx.mark = Mark()
            marks.append(weakref.ref(ctx.mark))
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensor()[0]

    class Mark:
        pass

    marks: list = []
    x = leaf(0.0)
    y = Saved.apply(x)
    y.backward()
    assert x.grad.tolist() == [1.0]
    del y
    z = Saved.apply(x)
    del z  # a graph without backward
    gc.collect()
    assert [mark() for mark in marks] == [None, None]


def test_partial_gradients():
    x, y = leaf(2.0), leaf(5.0)
    assert paddle.grad(Scaled.apply(x, y)[0], [y])[0].tolist() == [4.0]
    with pytest.raises(NotImplementedError, match="no second gradient"):
        paddle.grad(Scaled.apply(x, y)[0], [y], create_graph=True)


def test_errors():
    class Wrong(PyLayer):
        result = None

        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            if isinstance(Wrong.result, Exception):
                raise Wrong.result
            return Wrong.result

    x, y = leaf(1.0), leaf(2.0)
    for result, kind, text in (
        (paddle.ones([1]), ValueError, "must return a gradient for each of the 2 Tensor arguments"),
        ((1.0, None), TypeError, "gradient 0 of Wrong.backward must be a Tensor or None, got float"),
        ((paddle.ones([2]), None), ValueError, r"must have the shape \[1\] of the input, got \[2\]"),
        (KeyError("mine"), KeyError, "mine"),
    ):
        Wrong.result = result
        with pytest.raises(kind, match=text):
            Wrong.apply(x, y).backward()

    class Text(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return "text"

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(TypeError, match="Text.forward must return a Tensor"):
        Text.apply(x)
    with pytest.raises(NotImplementedError, match="must define the static method"):
        PyLayer.apply(x)


def test_in_static_mode():
    @paddle.jit.to_static
    def f(x):
        return Scaled.apply(x, x)[0]

    with pytest.raises(NotImplementedError, match="Scaled.apply runs in dygraph mode only"):
        f(leaf(1.0))


def test_backward_of_several():
    x = leaf(2.0)
    paddle.autograd.backward([x * x, x * 3], [paddle.to_tensor([10.0]), None])
    assert x.grad.tolist() == [43.0]
