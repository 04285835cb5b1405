"""run_check: a check of the installation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import paddle._core as _core
from paddle._basics import mode
from paddle._basics.mode import cpu_places, cuda_places
from paddle._basics.place import CPUPlace, CUDAPlace, cuda_device_count
from paddle._dispatch.dygraph import guard
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle._programs.scope import scope_guard
from paddle.nn import functional as F
from paddle.nn.initializer import Constant
from paddle.nn.param_attr import ParamAttr
from paddle.optimizer import SGD
from paddle.tensor import matmul, mean, to_tensor

from .compiler import CompiledProgram
from .creation import create_parameter, data
from .executor import Executor

__all__ = ["run_check"]


def _expect(found: Any, expected: Any, what: str) -> None:
    if not np.allclose(found, expected, rtol=1e-5):
        raise RuntimeError(f"run_check: {what} gave {np.asarray(found)!s:.200}, expected {expected!s:.200}")


def _eager() -> None:
    x = to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    total = matmul(x, x).sum()
    total.backward()
    _expect(total.numpy(), [54.0], "a product in dygraph mode")
    _expect(x.grad, [[7.0, 11.0], [9.0, 13.0]], "its gradient")


def _static(places: list[Any]) -> None:
    """One step of static training on one place, or data-parallel on several."""
    main, startup = Program(), Program()
    with mode._dygraph_guard(None), scope_guard(_core._Scope()), program_guard(main, startup):
        x = data("x", [None, 2], "float32")
        weight = create_parameter([2, 3], "float32", attr=ParamAttr(initializer=Constant(0.1)))
        loss = mean(F.linear(x, weight))
        SGD(0.01).minimize(loss)
        executor = Executor(places[0])
        executor.run(startup)
        program: Any = main
        if len(places) > 1:
            program = CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places)
        feed = {"x": np.tile(np.array([[1.0, 2.0], [3.0, 4.0]], "float32"), (len(places), 1))}
        (found,) = executor.run(program, feed=feed, fetch_list=[loss])
        _expect(found, 0.5, f"a Program on {len(places)} places")


def run_check() -> None:
    """Checks the installation: trains in dygraph and static mode, on one device and on several, and prints the result.

    Raises:
        RuntimeError: for a wrong result.

    Examples:
        >>> import paddle
        >>> paddle.utils.run_check()
        Running verify PaddlePaddle program ...
        PaddlePaddle works well on 1 ...
        PaddlePaddle works well on ...
        PaddlePaddle is installed successfully! Let's start deep learning with PaddlePaddle now.
    """
    print("Running verify PaddlePaddle program ... ")
    cuda = cuda_device_count() > 0
    kind = "GPU" if cuda else "CPU"
    with guard():
        _eager()
    _static([CUDAPlace(0) if cuda else CPUPlace()])
    print(f"PaddlePaddle works well on 1 {kind}.")
    places = cuda_places() if cuda else cpu_places(2)
    if len(places) > 1:
        try:
            _static(places)
        except Exception as error:  # noqa: BLE001 (one device works, which is said)
            warnings.warn(f"run_check: {len(places)} {kind}s together do not work: {error}", stacklevel=2)
            print(
                f"PaddlePaddle is installed successfully ONLY for single {kind}! "
                "Let's start deep learning with PaddlePaddle now."
            )
            return
        print(f"PaddlePaddle works well on {len(places)} {kind}s.")
    print("PaddlePaddle is installed successfully! Let's start deep learning with PaddlePaddle now.")
