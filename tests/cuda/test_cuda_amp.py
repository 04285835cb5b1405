"""Mixed precision in dygraph mode on a CUDA device."""

import warnings

import numpy as np
import paddle
import pytest

PLACE = "CUDAPlace(0)"


@pytest.fixture
def current(shim):
    """All operators run on the device."""
    paddle.set_device("gpu")
    yield shim
    paddle.set_device("cpu")


def test_mixed_precision(current):
    net, x = paddle.nn.Linear(3, 4), paddle.rand([2, 3])
    opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
    before = net.weight.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with paddle.amp.auto_cast():
            product = paddle.matmul(x, net.weight)
            y = net(x)
            loss = (y * y).mean()
        assert str(product.dtype) == "VarType.FP16" and str(product.place) == PLACE
        scaler.scale(loss).backward()
        scaler.minimize(opt, loss)
    assert net.weight.dtype == paddle.float32 and str(net.weight.place) == PLACE
    assert not np.array_equal(before, net.weight.numpy()) and np.isfinite(net.weight.numpy()).all()
