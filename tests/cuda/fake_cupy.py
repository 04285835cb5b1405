"""A stand-in for cupy without a GPU: numpy arrays with the interface that `CupyMachine` uses."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import numpy as np
from paddle._cuda.units import PRELUDE, Unit


class Array(np.ndarray):
    """An array with an address and a device."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=0)

    def set(self, host: np.ndarray) -> None:
        assert type(host) is np.ndarray and host.shape == self.shape and host.dtype == self.dtype
        self[...] = host


class Stream(contextlib.AbstractContextManager):
    ptr = 0

    def __exit__(self, *error: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Cupy:
    """`asked` records the kernels that were compiled and the devices that were entered."""

    def __init__(self, shim: Any) -> None:
        self._shim, self.asked = shim, []
        self.cuda = SimpleNamespace(
            Device=self._device,
            Stream=SimpleNamespace(null=Stream()),
            runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any) -> Array:
        return np.empty(shape, dtype).view(Array)

    def zeros(self, shape: Any, dtype: Any) -> Array:
        return np.zeros(shape, dtype).view(Array)

    def ascontiguousarray(self, array: Any) -> Array:
        return np.ascontiguousarray(array).view(Array)

    def asnumpy(self, array: Array) -> np.ndarray:
        return np.array(array)

    def _device(self, number: int) -> Any:
        self.asked.append(number)
        return contextlib.nullcontext()

    def RawModule(self, code: str, options: tuple[str, ...], name_expressions: list[str]) -> Any:
        (kernel,) = name_expressions
        self.asked.append(kernel)
        unit = Unit(f"cupy_{kernel.split('<')[0]}", code.removeprefix(PRELUDE), (kernel,))

        def get_function(name: str) -> Any:
            start = self._shim.kernel(unit, name)

            def run(grid: tuple, block: tuple, args: tuple) -> None:
                assert len(block) == 1 and all(isinstance(n, int) and n > 0 for n in grid)
                assert not any(type(a) is np.ndarray for a in args), "an array that is not on the device"
                start(grid, block, args)

            return run

        return SimpleNamespace(get_function=get_function)
