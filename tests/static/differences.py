"""Gradients of static Programs against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.fluid as fluid


def wrong_gradient(make: Callable, lengths: list[int] | None = None) -> str | None:
    """What differs in the gradient of the loss `make(x)` with respect to the feed `x` of shape [2, 3]; None if nothing.

    `lengths`: of the sequences in `x`, which then has their rows.
    """
    main, startup = paddle.static.Program(), paddle.static.Program()
    rows = sum(lengths) if lengths else 2
    with paddle.static.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None if lengths else 2, 3], "float64", lod_level=int(bool(lengths)))
        x.stop_gradient = False
        loss = make(x)
        forward = main.clone()
        gradient = fluid.gradients(loss, x)[0]
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)

    def run(program: Any, at: np.ndarray, fetch: Any) -> np.ndarray:
        feed = fluid.create_lod_tensor(at, [lengths], fluid.CPUPlace()) if lengths else at
        return np.array(exe.run(program, feed={"x": feed}, fetch_list=[fetch], return_numpy=False)[0])

    x = np.random.RandomState(0).rand(rows, 3) * 0.8 + 0.1
    got = np.zeros((rows, 3)) if gradient is None else run(main, x, gradient)
    wanted = np.zeros((rows, 3))
    for at in np.ndindex(rows, 3):
        step = np.zeros((rows, 3))
        step[at] = 1e-6
        wanted[at] = (run(forward, x + step, loss.name) - run(forward, x - step, loss.name)).item() / 2e-6
    if np.allclose(got, wanted, rtol=1e-4, atol=1e-5):
        return None
    return f"gradient {got.tolist()}, differences {wanted.tolist()}"
