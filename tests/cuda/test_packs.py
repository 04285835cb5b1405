"""Kernels that load packs of 16 bytes, and rows in registers: rows of many lengths, and operands whose memory does not
begin with a pack, against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import _core

RNG = np.random.default_rng(11)
TOL = {"float32": 2e-5, "float16": 4e-3, "float64": 1e-11}


def values(*shape: int) -> np.ndarray:
    return RNG.uniform(-1.5, 1.5, shape)


def placed(array: np.ndarray, ahead: int) -> Any:
    """A Tensor on the device in memory that begins `ahead` elements after the start of a block."""
    flat = np.concatenate([np.zeros(ahead, array.dtype), array.reshape(-1)])
    parts = _core.device_parts(paddle.to_tensor(flat, place=paddle.CUDAPlace(0)), [[ahead], list(array.shape)])
    assert _core.device_address(parts[1]) % 16 == ahead * array.itemsize % 16
    return parts[1]


def norm(x: Any, scale: Any, bias: Any) -> Any:
    """layer_norm; the parameters of float16 rows are float32."""
    return _core.ops.layer_norm(x, *map(wide, (scale, bias)), begin_norm_axis=1, epsilon=1e-5)


def wide(t: Any) -> Any:
    return paddle.cast(t, "float32") if t._dtype_name == "float16" else t


def norm_gradient(x: Any, dy: Any, scale: Any) -> Any:
    """All gradients of layer_norm."""
    mean, variance = paddle.mean(wide(x), axis=1), paddle.var(wide(x), axis=1, unbiased=False)
    scale = wide(scale)
    return _core.ops.layer_norm_grad(x, mean, variance, scale, scale, dy, begin_norm_axis=1, epsilon=1e-5)


def plane_norm(x: Any, scale: Any, bias: Any) -> Any:
    return _core.ops.instance_norm(*map(wide, (x, scale, bias)), epsilon=1e-5)


def plane_norm_gradient(x: Any, dy: Any, scale: Any) -> Any:
    """All gradients of instance_norm."""
    x, dy, scale = map(wide, (x, dy, scale))
    _, mean, inverse = _core.ops.instance_norm(x, scale, scale, epsilon=1e-5)
    return _core.ops.instance_norm_grad(x, dy, scale, mean, inverse, epsilon=1e-5)


#: the call, and the shapes of its operands for rows of n elements
CALLS: dict[str, tuple[Callable, Callable[[int], list[tuple[int, ...]]]]] = {
    "relu": (paddle.nn.functional.relu, lambda n: [(3, n)]),
    "add": (lambda x, y: x + y, lambda n: [(3, n), (3, n)]),
    "add of a row": (lambda x, y: x + y, lambda n: [(3, n), (n,)]),
    "add of a column": (lambda x, y: x + y, lambda n: [(3, n), (3, 1)]),
    "multiplication by a number": (lambda x, y: x * y, lambda n: [(3, n), (1,)]),
    "division by channels": (lambda x, y: x / (y + 2.0), lambda n: [(2, 3, n), (3, 1)]),
    "softmax": (paddle.nn.functional.softmax, lambda n: [(5, n)]),
    "log_softmax": (paddle.nn.functional.log_softmax, lambda n: [(5, n)]),
    "softmax of columns": (lambda x: paddle.nn.functional.softmax(x, axis=0), lambda n: [(5, n)]),
    "softmax_grad": (lambda y, d: _core.ops.softmax_grad(y, d, axis=-1), lambda n: [(5, n), (5, n)]),
    "log_softmax_grad": (lambda y, d: _core.ops.log_softmax_grad(y, d, axis=-1), lambda n: [(5, n), (5, n)]),
    "layer_norm": (norm, lambda n: [(5, n), (n,), (n,)]),
    "layer_norm_grad": (norm_gradient, lambda n: [(70, n), (70, n), (n,)]),
    "instance_norm": (plane_norm, lambda n: [(2, 3, n), (3,), (3,)]),
    "instance_norm_grad": (plane_norm_gradient, lambda n: [(2, 3, n), (2, 3, n), (3,)]),
    "sum": (paddle.sum, lambda n: [(3, n)]),
    "max of rows": (lambda x: paddle.max(x, axis=1), lambda n: [(5, n)]),
    "mean of columns": (lambda x: paddle.mean(x, axis=0), lambda n: [(70, n)]),
    "min of columns": (lambda x: paddle.min(x, axis=1), lambda n: [(2, 70, n)]),
    "sum of channels": (lambda x: paddle.sum(x, axis=[0, 2]), lambda n: [(2, 3, n)]),
}
LENGTHS = (1, 7, 40, 300, 768, 1000, 1003, 1030, 4096)


def results(name: str, n: int, dtype: str, ahead: int | None) -> list[np.ndarray]:
    """The results on the CPU (`ahead` None), or on the device."""
    call, shapes = CALLS[name]
    rng = np.random.default_rng(n)
    arrays = [rng.uniform(-1.5, 1.5, s).astype(dtype) for s in shapes(n)]
    given = [paddle.to_tensor(a, place=paddle.CPUPlace()) if ahead is None else placed(a, ahead) for a in arrays]
    found = call(*given)
    found = found if isinstance(found, tuple | list) else (found,)
    assert all(str(f.place) == ("CPUPlace" if ahead is None else "CUDAPlace(0)") for f in found)
    return [f.numpy() for f in found]


def agree(name: str, dtype: str, n: int) -> None:
    want = results(name, n, dtype, None)
    # Rows of one element have no variance: the gradient is all rounding.
    for ahead in (0, 1) if n > 1 or not name.endswith("norm_grad") else ():
        got = results(name, n, dtype, ahead)
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype and g.shape == w.shape
            scale = TOL[dtype] * max(1.0, float(np.abs(w).max()))
            np.testing.assert_allclose(g, w, rtol=TOL[dtype], atol=scale, err_msg=f"{name} {n} {ahead}")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("error:operator .* has no CUDA kernel:RuntimeWarning")
def test_packs_agree(name, dtype, shim):
    for n in LENGTHS:
        agree(name, dtype, n)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_packs_agree_on_a_gpu(name, dtype, gpu):
    for n in (*LENGTHS, 8192, 8200, 20000):
        agree(name, dtype, n)


def test_rows_are_read_once_where_they_fit(shim):
    for n, kernel in ((64, "8, 32"), (400, "16, 32"), (768, "32, 32"), (4096, "16, 0"), (8192, "16, 0")):
        shim.forget()
        paddle.nn.functional.softmax(placed(values(2, n).astype("float32"), 0))
        assert shim.started == [f"softmax<float, false, Axis, {kernel}>"]
    shim.forget()
    paddle.nn.functional.softmax(placed(values(2, 9000).astype("float32"), 0))
    assert shim.started == ["softmax<float, false, Axis, 0, 0>"]


@pytest.mark.parametrize("rows, n, kernel", [(70, 64, "8, 32"), (70, 400, "16, 32"), (17, 4096, "16, 0")])
def test_gradients_of_layer_norm_are_one_pass(rows, n, kernel, shim):
    x, dy, scale = (placed(values(*shape).astype("float32"), 0) for shape in ((rows, n), (rows, n), (n,)))
    mean, variance = (placed(values(rows).astype("float32") ** 2, 0) for _ in range(2))
    shim.forget()
    _core.ops.layer_norm_grad(x, mean, variance, scale, scale, dy, begin_norm_axis=1, epsilon=1e-5)
    assert shim.started[0] == f"layer_norm_grad<float, float, float, COLUMNS, {kernel}>"
    assert not [k for k in shim.started if "dparams" in k or "NOTHING" in k]
