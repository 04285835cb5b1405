"""Batch normalizations whose channels are reduced by many blocks, and 16-bit images with float32 parameters; calls are
replayed."""

from types import SimpleNamespace

import numpy as np
import paddle
import pytest
from calls import real
from paddle import _core, _cuda
from paddle._cuda.nn.channels import Channels
from shim import DriverMachine, through_python

SHAPES = {
    "images": ((8, 3, 40, 40), "NCHW"),
    "one image": ((1, 2, 120, 100), "NCHW"),
    "odd planes": ((70, 3, 7, 9), "NCHW"),
    "volume": ((3, 2, 6, 20, 24), "NCHW"),
    "last": ((5, 30, 21, 6), "NHWC"),
    "rows": ((700, 5), "NCHW"),
    "many channels": ((9, 300, 2, 2), "NCHW"),
    "many columns": ((600, 70), "NHWC"),
}  # fmt: skip


@pytest.fixture
def runs(built, monkeypatch):
    """CUDAPlace(0) has a driver; the operators that ran through Python."""
    _cuda.use(DriverMachine(built.folder))
    yield through_python(monkeypatch)
    _cuda.use(None)


def step(x, layout, dtype, device, more, op="batch_norm", z=None):
    """Results and gradients of a normalization, in float64 of numpy."""

    def tensor(a, to="float32"):
        t = paddle.cast(paddle.to_tensor(a.astype("float64"), place=paddle.CPUPlace()), to).detach()
        t = _core.copy_to_device(t, 0) if device else t
        t.stop_gradient = False
        return t

    wide = "float64" if dtype == "float64" else "float32"
    n = x.shape[-1] if layout == "NHWC" else x.shape[1]
    params = [tensor(real(n, low=a, high=b), wide) for a, b in ((0.5, 2), (-1, 1), (-1, 1), (0.5, 2))]
    given, added = tensor(x, dtype), [] if z is None else [tensor(z, dtype)]
    if op == "batch_norm":
        slots = dict(zip(("X", "Scale", "Bias", "Mean", "Variance"), (given, *params), strict=True))
        slots |= {"MeanOut": params[2], "VarianceOut": params[3]}
        results = _core.ops.batch_norm(**slots, data_layout=layout, epsilon=1e-3, momentum=0.8, **more)
    elif added:
        results = _core.ops.fused_bn_add_activation(given, *added, *params[:2], act_type="relu", epsilon=1e-3)
    else:
        results = _core.ops.fused_batch_norm_act(given, *params, act_type=more["act_type"], epsilon=1e-3)
    y = results[0]
    d = tensor(real(*y.shape, high=0.7), dtype)
    grads = _core.partial_grad([y], [given, *added, *params[:2]], [d], [], True, False, True)
    kept = [v for v in (y, *results[1:5], *params[2:], *grads) if v is not None and v.size]
    return [paddle.cast(v.cpu(), "float64").numpy() for v in kept]


def check(runs, op, *args, tol, **keywords):
    want = step(*args[:3], False, *args[3:], op=op, **keywords)
    for _ in range(2):
        got = step(*args[:3], True, *args[3:], op=op, **keywords)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol * np.abs(w).max())
    # The fused forms have an output without elements, which keeps them from being replayed.
    assert op != "batch_norm" or [name for name in runs if "norm" in name] == [op, f"{op}_grad"]


@pytest.mark.parametrize("more", [{}, {"use_global_stats": True}], ids=["batch", "global"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", SHAPES)
def test_batch_norm(name, dtype, more, runs):
    shape, layout = SHAPES[name]
    tol = {"float64": 1e-10, "float32": 5e-5, "float16": 4e-3}[dtype]
    check(runs, "batch_norm", real(*shape, high=3.0), layout, dtype, more, tol=tol)


def test_a_mean_that_is_large(runs):
    """Deviations are 1e-4 of the mean, and the first element of each channel is far off."""
    x = 1000 + real(8, 3, 40, 40, low=-0.1, high=0.1)
    x[:, :, 0, 0] = 0
    y = step(x, "NCHW", "float32", True, {})
    deviation = x.std(axis=(0, 2, 3))
    np.testing.assert_allclose(1 / y[4], np.sqrt(deviation**2 + 1e-3), rtol=1e-4)


@pytest.mark.parametrize("act", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_activations(act, dtype, runs):
    tol = {"float64": 1e-10, "float32": 5e-5, "float16": 4e-3}[dtype]
    check(runs, "fused_batch_norm_act", real(6, 9, 9, 5), "NHWC", dtype, {"act_type": act}, tol=tol)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_an_added_operand(dtype, runs):
    tol = {"float64": 1e-10, "float32": 5e-5, "float16": 4e-3}[dtype]
    x, z = real(6, 9, 9, 5), real(6, 9, 9, 5, low=-1.0)
    check(runs, "fused_bn_add_activation", x, "NHWC", dtype, {}, tol=tol, z=z)


def test_bfloat16(runs):
    x = _core.copy_to_device(paddle.cast(paddle.to_tensor(real(4, 3, 6, 6).astype("float32")), "bfloat16"), 0)
    params = [_core.copy_to_device(paddle.to_tensor(real(3).astype("float32")), 0) for _ in range(4)]
    y = _core.ops.batch_norm(x, *params, epsilon=1e-3)[0]
    found = paddle.cast(y.cpu(), "float32").numpy()
    wide = paddle.cast(x.cpu(), "float32").numpy()
    want = wide - wide.mean((0, 2, 3), keepdims=True)
    want = want / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-3)
    scale, bias = (p.numpy().reshape(1, 3, 1, 1) for p in params[:2])
    np.testing.assert_allclose(found, want * scale + bias, rtol=2e-2, atol=2e-2)


def started(shape: tuple[int, ...], last: bool) -> list[tuple]:
    """The grids that the reduction of an array's channels is started with; no kernel runs."""
    grids: list[tuple] = []
    call = SimpleNamespace(empty=lambda shape, dtype: None, launch=lambda unit, kernel, grid, *rest: grids.append(grid))
    x = np.broadcast_to(np.float32(0), shape)
    Channels(call, x, last)._parts("Moments", None, None, 0, None)
    return grids


@pytest.mark.parametrize("last", [False, True])
def test_blocks_of_very_many_channels_fit(last):
    """A grid has at most 65535 blocks along y."""
    for shape in ((2, 3_000_000), (2, 1, 3_000_000) if last else (2, 70_000, 4)):
        ((_, along),) = started(shape, last)
        assert 1 <= along <= 65535
