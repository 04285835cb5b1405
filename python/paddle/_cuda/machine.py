"""The CUDA device as launchers use it: CuPy arrays from its memory pool, and kernels compiled by NVRTC."""

from __future__ import annotations

import contextlib
import functools
import importlib.util

import numpy as np

from .units import Unit


def missing() -> str | None:
    """The reason why CUDA cannot be used, None if it can. Imports cupy if it is installed."""
    if importlib.util.find_spec("cupy") is None:
        return "the Python package cupy is missing (pip install cupy-cuda12x, or the extra oar-paddle[cuda])"
    try:
        import cupy
    except Exception as e:  # report any exception of a failing import
        return f"the package cupy cannot be imported: {e}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as e:
        return f"no NVIDIA GPU, or no driver for it, was found: {e}"
    return None if count else "no NVIDIA GPU was found"


class CupyMachine:
    """The GPUs of this host."""

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        # A CuPy kernel is compiled once per device.
        self.kernel = functools.cache(self._compiled)

    def device_count(self) -> int:
        return self.xp.cuda.runtime.getDeviceCount()

    @contextlib.contextmanager
    def on(self, device: int):
        """A context for allocations and kernels on `device`, always on its default stream: operations of several
        threads are ordered, independent of the caller's current CuPy stream."""
        with self.xp.cuda.Device(device), self.xp.cuda.Stream.null:
            yield

    def address(self, array) -> int:
        return array.data.ptr

    def upload(self, array, host: np.ndarray) -> None:
        """Copy the bytes of `host` into the flat `array`; `host` may be modified afterwards."""
        with self.on(array.device.id):
            array.set(np.asarray(host).reshape(-1).view(np.uint8))
            # A device that reads host memory directly may still be copying.
            self.xp.cuda.Stream.null.synchronize()

    def download(self, array) -> np.ndarray:
        with self.on(array.device.id):
            return self.xp.asnumpy(array)

    def nccl(self):
        """CuPy's NCCL binding; RuntimeError if it has none."""
        found = getattr(self.xp.cuda, "nccl", None)
        if found is None or not getattr(found, "available", True):
            raise RuntimeError("CuPy finds no NCCL here (python -m cupyx.tools.install_library --library nccl)")
        return found

    def stream(self) -> int:
        """The stream of all operations."""
        return self.xp.cuda.Stream.null.ptr

    def wait(self) -> None:
        """Wait for all operations on the current device."""
        self.xp.cuda.Stream.null.synchronize()

    def _compiled(self, unit: Unit, kernel: str):
        module = self.xp.RawModule(code=unit.text, options=("--std=c++14",), name_expressions=[kernel])
        return module.get_function(kernel)
