"""The time of a CUDA operator on the host, without a GPU: the whole route with numpy in CuPy's place and kernels and
products that do nothing.

    python benches/bench_launch.py [--rounds N] [--json FILE] [--no-driver]

Known launches (recipes) go by a fake libcuda whose functions do nothing but allocate; `--no-driver`: all through
Python. Prints the least time of an operator in microseconds, over rounds that take the operators in turn, with numpy's
own time for the arrays' work (`floor`), and the least time of an optimizer's step over 200 parameters in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cuda"))

import paddle  # noqa: E402
from paddle import _core, _cuda  # noqa: E402
from shim import FakeDriver, HostMachine  # noqa: E402


class NoKernels(HostMachine):
    """Device memory is numpy's; a kernel is a function that does nothing."""

    def __init__(self, driver: bool = True) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="fakecuda")
        self.fake = FakeDriver(Path(self.folder.name))
        self.recorded = driver
        self.kernel = functools.cache(lambda unit, name: lambda grid, block, args: None)
        self._entry = contextlib.nullcontext()

    def driver(self) -> tuple[str, int, int] | None:
        return None if not self.recorded else (str(self.fake.path), self.fake.CONTEXT, self.fake.STREAM)

    def pointer(self, unit: Any, kernel: str) -> int:
        return self.fake.library.fake_function(None, 0)

    def function(self, name: str) -> int:
        return ctypes.cast(self.fake.library.fake_library, ctypes.c_void_p).value or 0

    def blas(self) -> int:
        return 1

    def device_count(self) -> int:
        return 1

    def on(self, device: int) -> Any:
        return self._entry

    def upload(self, array: Any, host: Any) -> None:
        array[:] = host.reshape(-1).view(np.uint8)

    upload_arguments = upload

    def download(self, array: Any) -> Any:
        return array.copy()


def on_device(*shape: int) -> Any:
    return paddle.to_tensor(np.ones(shape, "float32"), place=paddle.CUDAPlace(0))


def operators() -> dict[str, Callable[[], Any]]:
    """The measured calls: inputs of 64x64, states of 64."""
    functional = paddle.nn.functional
    x, y = on_device(64, 64), on_device(64, 64)
    param, grad, first, second = (on_device(64) for _ in range(4))
    rate, power1, power2 = (on_device(1) for _ in range(3))
    outs = {
        "ParamOut": param,
        "Moment1Out": first,
        "Moment2Out": second,
        "Beta1PowOut": power1,
        "Beta2PowOut": power2,
    }

    def adam() -> None:
        _core.ops.adam(param, grad, rate, first, second, power1, power2, beta1=0.9, beta2=0.99, **outs)

    one = on_device(64, 64)
    one.stop_gradient = False

    def product() -> None:
        paddle.matmul(one, y).backward()
        one.clear_gradient()

    index = paddle.to_tensor(np.arange(16), place=paddle.CUDAPlace(0))
    boxes, feature = on_device(64, 4), on_device(2, 21, 8, 8)
    sizes = paddle.to_tensor(np.full((2, 2), 64, "int32"), place=paddle.CUDAPlace(0))
    heads = {"anchors": [10, 13, 16, 30, 33, 23], "class_num": 2, "conf_thresh": 0.1, "downsample_ratio": 8}
    written = {
        "greater_than": lambda: x > y,
        "gather": lambda: paddle.gather(x, index),
        "one_hot": lambda: functional.one_hot(index, 16),
        "top_k": lambda: paddle.topk(x, 5),
        "cumsum": lambda: paddle.cumsum(x, 1),
        "binary_cross_entropy": lambda: _core.ops.bce_loss(x, y),
        "iou_similarity": lambda: _core.ops.iou_similarity(boxes, boxes),
        "yolo_box": lambda: _core.ops.yolo_box(feature, sizes, **heads),
    }
    return {
        **written,
        "add": lambda: x + y,
        "relu": lambda: functional.relu(x),
        "softmax": lambda: functional.softmax(x),
        "layer_norm": lambda: functional.layer_norm(x, [64]),
        "reshape": lambda: paddle.reshape(x, [32, 128]),
        "matmul": lambda: paddle.matmul(x, y),
        "matmul and its gradient": product,
        "sgd": lambda: _core.ops.sgd(param, rate, grad, ParamOut=param),
        "adam": adam,
    }


def floors() -> dict[str, Callable[[], Any]]:
    """numpy's own work in these calls."""
    a, b = np.ones((64, 64), "float32"), np.ones((64, 64), "float32")
    return {
        "add": lambda: np.add(a, b),
        "relu": lambda: np.empty(a.shape, a.dtype),
        "softmax": lambda: np.empty(a.shape, a.dtype),
    }


def least(calls: dict[str, Callable[[], Any]], rounds: int, repeat: int = 10) -> dict[str, float]:
    """The least time of each call in microseconds. Rounds are short, so that some are not interrupted."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeat * 1e6)
    return best


def steps(rounds: int) -> dict[str, float]:
    """The least time of optimizers' steps over 200 parameters of 16 elements, in milliseconds."""
    paddle.set_device("gpu")
    params = [paddle.create_parameter([16], "float32") for _ in range(200)]
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    optimizers = {
        "SGD": paddle.optimizer.SGD(0.1, parameters=params),
        "Adam": paddle.optimizer.Adam(1e-3, parameters=params),
        "Adam, clipped by global norm": paddle.optimizer.Adam(1e-3, parameters=params, grad_clip=clip),
    }
    best = dict.fromkeys(optimizers, float("inf"))
    for _ in range(rounds):
        for name, optimizer in optimizers.items():
            for p in params:
                p._set_grad_ivar(on_device(16))
            start = time.perf_counter()
            optimizer.step()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    paddle.set_device("cpu")
    return best


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-driver", action="store_true")
    options = parser.parse_args(argv)
    _cuda.use(NoKernels(not options.no_driver))
    try:
        routes, own = least(operators(), options.rounds), least(floors(), options.rounds)
        whole = steps(max(2, options.rounds // 30))
    finally:
        _cuda.use(None)
    print("| operator | us | floor |\n|---|---|---|")
    for name, value in routes.items():
        print(f"| {name} | {value:.1f} | {own[name]:.1f} |" if name in own else f"| {name} | {value:.1f} | |")
    print("\n| step over 200 parameters | ms |\n|---|---|")
    for name, value in whole.items():
        print(f"| {name} | {value:.1f} |")
    if options.json:
        options.json.write_text(json.dumps({"us": routes, "floor_us": own, "step_ms": whole}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
