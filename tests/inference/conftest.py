"""Models that the tests of predictors save and serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle
import pytest


@pytest.fixture(autouse=True)
def _static_mode() -> Iterator[None]:
    paddle.enable_static()
    yield
    paddle.disable_static()


@pytest.fixture
def export(tmp_path) -> Callable[..., str]:
    """Saves the Program of a function of static variables; returns the prefix of its files."""

    def save(build: Callable, *specs: tuple[list, str], seed: int = 5) -> str:
        main, startup = paddle.static.Program(), paddle.static.Program()
        main.random_seed = startup.random_seed = seed
        with paddle.static.program_guard(main, startup), paddle.fluid.unique_name.guard():
            inputs = [paddle.static.data(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(specs)]
            outs = build(*inputs)
            outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
            executor = paddle.static.Executor(paddle.CPUPlace())
            scope = paddle.static.Scope() if hasattr(paddle.static, "Scope") else paddle.fluid.core.Scope()
            with paddle.static.scope_guard(scope):
                executor.run(startup)
                _randomise(main, scope)
                prefix = str(tmp_path / "model")
                paddle.static.save_inference_model(prefix, inputs, outs, executor, program=main.clone(for_test=True))
        return prefix

    return save


def _randomise(program: Any, scope: Any) -> None:
    """Running statistics and biases that are not the initial 0 and 1."""
    r = np.random.RandomState(3)
    for var in program.list_vars():
        if var.persistable and var.shape and len(var.shape) == 1 and scope.find_var(var.name) is not None:
            scope.find_var(var.name).get_tensor().set(r.uniform(0.5, 1.5, var.shape).astype("float32"))
