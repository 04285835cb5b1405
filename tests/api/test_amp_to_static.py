"""Mixed precision of functions that to_static has converted: the values of eager mode."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import fluid

F = paddle.nn.functional
VarType = fluid.core.VarDesc.VarType


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 4, 3, bias_attr=False)
        self.norm = paddle.nn.BatchNorm2D(4)
        self.head = paddle.nn.Linear(4, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return F.softmax(self.head(paddle.mean(x, [2, 3])))


class Inside(Net):
    def forward(self, x):
        with paddle.amp.auto_cast(dtype="bfloat16"):
            return super().forward(x)


def step(net, x, low):
    with paddle.amp.auto_cast(enable=low, dtype="bfloat16"):
        y = net(x)
    (y[:, 0] * 3).sum().backward()
    grads = [p.grad for p in net.parameters() if not p.stop_gradient]
    net.clear_gradients()
    return [y.numpy(), *grads]


@pytest.mark.parametrize("kind", [Net, Inside])
@pytest.mark.parametrize("low", [True, False])
def test_values_and_gradients_are_those_of_eager_mode(kind, low):
    paddle.seed(2)
    net, other = kind(), kind()
    other.set_state_dict(net.state_dict())
    other = paddle.jit.to_static(other)
    x = paddle.to_tensor(np.random.default_rng(3).normal(size=(2, 3, 6, 6)).astype("float32"))
    for got, want in zip(step(other, x, low), step(net, x, low), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_program_for_each_precision():
    function = paddle.jit.to_static(lambda x: paddle.matmul(x, x))
    x = paddle.rand([2, 2])
    assert function(x).dtype == VarType.FP32
    with paddle.amp.auto_cast(dtype="bfloat16"):
        assert function(x).dtype == VarType.BF16
    assert function(x).dtype == VarType.FP32 and function.get_traced_count() == 2
