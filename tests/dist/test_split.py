"""`paddle.distributed.split`: results and gradients equal those of the unsplit layer."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
import pytest

N = 3
X = np.random.RandomState(0).uniform(-1, 1, [5, 6]).astype("float32")
W = np.random.RandomState(1).uniform(-1, 1, [6, 9]).astype("float32")
B = np.random.RandomState(2).uniform(-1, 1, [9]).astype("float32")
C = np.random.RandomState(3).uniform(-1, 1, [5, 9]).astype("float32")
IDS = np.random.RandomState(4).randint(0, 10, [5, 4]).astype("int64")
TABLE = np.random.RandomState(5).uniform(-1, 1, [10, 3]).astype("float32")


def given(value):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(value))


def linear(axis: int, gather: bool):
    me = dist.get_rank()
    x = paddle.to_tensor(X, stop_gradient=False)
    cut = slice(me * 2, me * 2 + 2) if axis == 0 else slice(me * 3, me * 3 + 3)
    weight = W[cut] if axis == 0 else W[:, cut]
    bias = given(B if axis == 0 else B[cut])
    inside = x * 1.0  # not a leaf, as in a network
    part = inside[:, me * 2 : me * 2 + 2] if axis == 0 else inside
    out = dist.split(part, (6, 9), "linear", axis, N, gather, given(weight), bias)
    if gather:
        (out * paddle.to_tensor(C)).sum().backward()
    return out.numpy(), None if x.grad is None else np.asarray(x.grad)


@pytest.mark.parametrize("axis", [0, 1])
def test_linear(three, axis):
    x = paddle.to_tensor(X, stop_gradient=False)
    want = paddle.matmul(x, paddle.to_tensor(W)) + paddle.to_tensor(B)
    (want * paddle.to_tensor(C)).sum().backward()
    gradient = np.asarray(x.grad)
    found = three.run(linear, axis, True)
    for rank, (out, grad) in enumerate(found):
        np.testing.assert_allclose(out, want.numpy(), rtol=1e-5, atol=1e-6)
        assert out.tobytes() == found[0][0].tobytes()
        mine = np.zeros_like(gradient) if axis == 0 else gradient
        if axis == 0:  # each rank has the gradient of the columns it used
            mine[:, rank * 2 : rank * 2 + 2] = gradient[:, rank * 2 : rank * 2 + 2]
        np.testing.assert_allclose(grad, mine, rtol=1e-5, atol=1e-6)
    parts = [out for out, _ in three.run(linear, axis, False)]
    whole = sum(parts) if axis == 0 else np.concatenate(parts, 1)
    np.testing.assert_allclose(whole, want.numpy(), rtol=1e-5, atol=1e-6)


def embedding():
    me = dist.get_rank()
    rows = TABLE[me * 4 : me * 4 + 4]
    table = np.concatenate([rows, np.zeros([1, 3], "float32")])
    both = [dist.split(paddle.to_tensor(i), (10, 3), "embedding", 0, N, weight_attr=given(table)) for i in (IDS,)]
    return both[0].numpy()


def test_embedding(three):
    for found in three.run(embedding):
        np.testing.assert_array_equal(found, TABLE[IDS])


class Net(paddle.nn.Layer):
    """Two partitioned layers: columns, then rows, as in a transformer's feed-forward block."""

    def __init__(self, parts: int):
        super().__init__()
        me = dist.get_rank() if parts > 1 else 0
        draw = np.random.RandomState(7).uniform(-0.5, 0.5, [2, 6, 6]).astype("float32")
        width = 6 // parts
        mine = slice(me * width, me * width + width)
        self.first = self.create_parameter([6, width], attr=given(draw[0][:, mine]))
        self.second = self.create_parameter([width, 6], attr=given(draw[1][mine]))
        self.parts = parts

    def forward(self, x):
        from paddle.distributed import model_parallel as m

        if self.parts == 1:
            return paddle.matmul(paddle.tanh(paddle.matmul(x, self.first)), self.second)
        hidden = paddle.tanh(paddle.matmul(m._shared(x, 0), self.first))
        return m._sum(paddle.matmul(hidden, self.second), 0)


def fit(parts: int):
    model = Net(parts)
    sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    target = paddle.to_tensor(np.tile(X[:, :1], [1, 6]))
    losses = []
    for _ in range(10):
        loss = F.mse_loss(model(paddle.to_tensor(X)), target)
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        losses.append(float(loss))
    return losses


def test_training_in_parts_is_that_of_the_whole(three):
    whole = fit(1)
    assert whole[-1] < whole[0]
    for losses in three.run(fit, N):
        np.testing.assert_allclose(losses, whole, rtol=1e-5)


def test_wrong_arguments():
    x = paddle.ones([2, 8])
    for args in (((8, 6, 1), "linear"), ((8, 6), "conv"), ((8, 6), "linear", 2), ((8, 6), "linear", 0, 2)):
        with pytest.raises(ValueError):
            dist.split(x, *args)
    with pytest.raises(ValueError, match="last size of x"):
        dist.split(x, (4, 6), "linear")
    with pytest.raises(ValueError, match="axis"):
        dist.split(paddle.zeros([2, 3], "int64"), (4, 6), "embedding", 1)
