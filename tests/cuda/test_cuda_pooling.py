"""Pooling of images larger than a block, of whole images, and of 16-bit types; each call is replayed."""

import numpy as np
import paddle
import pytest
from calls import real
from paddle import _core, _cuda
from shim import DriverMachine

CASES = {
    "max": ("pool2d", (2, 3, 37, 300), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
    "max around": ("pool2d", (3, 2, 20, 9), {"ksize": [2, 3], "strides": [1, 2], "paddings": [1, 0, 0, 2]}),
    "max last": ("pool2d", (2, 17, 12, 5), {"ksize": [3, 2], "strides": [2, 2], "data_format": "NHWC"}),
    "max of planes": ("pool2d", (40, 30, 6, 5), {"ksize": [2, 2], "strides": [2, 2]}),
    "max of equal elements": ("pool2d", (2, 3, 18, 71), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
    "max at every element": ("pool2d", (2, 3, 21, 68), {"ksize": [5, 3], "strides": [1, 1], "paddings": [2, 1]}),
    "max far apart": ("pool2d", (2, 3, 20, 130), {"ksize": [2, 2], "strides": [3, 4]}),
    "max of large windows": ("pool2d", (1, 2, 40, 33), {"ksize": [30, 31], "strides": [1, 1]}),
    "max of whole planes": ("pool2d", (3, 70, 7, 7), {"ksize": [1, 1], "global_pooling": True}),
    "average": (
        "pool2d",
        (2, 3, 37, 41),
        {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "pooling_type": "avg"},
    ),
    "average with padding": (
        "pool2d",
        (2, 3, 9, 8),
        {"ksize": [3, 3], "strides": [1, 1], "paddings": [1, 1], "pooling_type": "avg", "exclusive": False},
    ),
    "adaptive": ("pool2d", (2, 3, 11, 13), {"ksize": [4, 5], "adaptive": True, "pooling_type": "avg"}),
    "whole": ("pool2d", (5, 30, 7, 7), {"ksize": [1, 1], "adaptive": True, "pooling_type": "avg"}),
    "whole last": (
        "pool2d",
        (5, 7, 6, 30),
        {"ksize": [1, 1], "global_pooling": True, "pooling_type": "avg", "data_format": "NHWC"},
    ),
    "volume": ("pool3d", (2, 2, 7, 9, 8), {"ksize": [3, 2, 3], "strides": [2, 1, 2], "paddings": [1, 0, 1]}),
    "average of volumes": (
        "pool3d",
        (2, 2, 7, 9, 8),
        {"ksize": [3, 2, 3], "strides": [2, 1, 2], "paddings": [1, 0, 1], "pooling_type": "avg"},
    ),
    "index": ("max_pool2d_with_index", (2, 3, 19, 18), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}),
}
OF_TYPE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


def results(op, x, attrs, dtype, device):
    def tensor(a):
        t = paddle.cast(paddle.to_tensor(a.astype("float32"), place=paddle.CPUPlace()), dtype).detach()
        t = _core.copy_to_device(t, 0) if device else t
        t.stop_gradient = False
        return t

    x = tensor(x)
    found = getattr(_core.ops, op)(x, **{"pooling_type": "max"} | attrs if op != "max_pool2d_with_index" else attrs)
    out, *more = found if isinstance(found, tuple) else (found,)
    grads = _core.partial_grad([out], [x], [tensor(real(*out.shape, high=0.7))], [], True, False, True)
    return [paddle.cast(v.cpu(), "float64").numpy() for v in (out, *more, *grads)]


@pytest.mark.parametrize("dtype", OF_TYPE)
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name, dtype, built, monkeypatch):
    op, shape, attrs = CASES[name]
    # Few values, so that windows have several maxima.
    x = np.round(real(*shape) * 4) / 4
    if op == "max_pool2d_with_index" and dtype not in ("float64", "float32"):
        pytest.skip("the CPU kernel takes no 16-bit types")
    want = results(op, x, attrs, dtype, False)
    _cuda.use(DriverMachine(built.folder))
    try:
        runtime, runs = _cuda.runtime(), []
        run = runtime._run
        monkeypatch.setattr(runtime, "_run", lambda op, *args, **more: (runs.append(op), run(op, *args, **more))[1])
        for _ in range(2):
            got = results(op, x, attrs, dtype, True)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w, rtol=OF_TYPE[dtype], atol=OF_TYPE[dtype])
        assert [r for r in runs if "pool" in r] == [op, f"{op}_grad"]
    finally:
        _cuda.use(None)
