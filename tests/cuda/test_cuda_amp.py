"""Mixed precision in dygraph mode on a CUDA device."""

import warnings

import numpy as np
import paddle
import pytest
from paddle import _core

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
        warnings.simplefilter("error", RuntimeWarning)
        with paddle.amp.auto_cast():
            product = paddle.matmul(x, net.weight)
            y = net(x)
            loss = (y * y).mean()
        assert str(product.dtype) == "VarType.FP16" and str(product.place) == PLACE
        scaler.scale(loss).backward()
        scaler.minimize(opt, loss)
    assert net.weight.dtype == paddle.float32 and str(net.weight.place) == PLACE
    assert not np.array_equal(before, net.weight.numpy()) and np.isfinite(net.weight.numpy()).all()


def scaled(where, dtype: str, found: bool) -> list:
    """The results of check_finite_and_unscale, and of update_loss_scaling after it."""

    def tensor(array, dtype):
        return paddle.to_tensor(np.asarray(array, dtype), place=where)

    grads = [tensor([[1.5, -2.0, 3.0]], dtype), tensor([0.25], dtype)]
    scale = tensor([8.0], "float64" if dtype == "float64" else "float32")
    outs, is_infinite = _core.ops.check_finite_and_unscale(grads, scale)
    flag, counts = tensor([found], "bool"), [tensor([1], "int32"), tensor([1], "int32")]
    attrs = {"incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.25}
    updated, *states = _core.ops.update_loss_scaling(outs, flag, scale, *counts, **attrs)
    return [v.numpy() for v in (*outs, is_infinite, *updated, *states)]


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.filterwarnings("error:operator:RuntimeWarning")
def test_loss_scaling(dtype, found, shim):
    got, want = (scaled(where, dtype, found) for where in (paddle.CUDAPlace(0), paddle.CPUPlace()))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.tolist() == w.tolist()
    assert {name.split("<")[0] for name in shim.started} == {"unscale", "scaling"}


@pytest.mark.filterwarnings("error:operator:RuntimeWarning")
def test_a_gradient_that_is_not_finite_is_found(shim):
    for bad in (np.inf, np.nan):
        grads = [paddle.to_tensor(np.array([1.0, bad], "float32"), place=paddle.CUDAPlace(0))]
        scale = paddle.to_tensor(np.array([2.0], "float32"), place=paddle.CUDAPlace(0))
        assert _core.ops.check_finite_and_unscale(grads, scale)[1].numpy().tolist() == [True]
