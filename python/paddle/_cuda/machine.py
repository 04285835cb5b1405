"""What launchers run on: arrays of CuPy, whose pool owns the memory, and kernels that NVRTC compiles for the device."""

from __future__ import annotations

import contextlib
import functools
import importlib.util

import numpy as np

from .units import Unit


def missing() -> str | None:
    """What keeps CUDA from being used, None if nothing does. Imports cupy if it is there."""
    if importlib.util.find_spec("cupy") is None:
        return "the Python package cupy is missing (pip install cupy-cuda12x, or the extra oar[cuda])"
    try:
        import cupy
    except Exception as e:  # an import that fails in a library's own way is reported, whatever it raises
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
        # A kernel of CuPy is compiled once for each device that it is started on.
        self.kernel = functools.cache(self._compiled)

    def device_count(self) -> int:
        return self.xp.cuda.runtime.getDeviceCount()

    @contextlib.contextmanager
    def on(self, device: int):
        """A context in which arrays are made and kernels run on `device`: always on its default stream, so that what
        threads hand each other is in order, whatever stream the caller of CuPy has chosen."""
        with self.xp.cuda.Device(device), self.xp.cuda.Stream.null:
            yield

    def address(self, array) -> int:
        return array.data.ptr

    def upload(self, array, host: np.ndarray) -> None:
        """Copy the bytes of `host` into the flat `array`; the host's may change afterwards."""
        with self.on(array.device.id):
            array.set(np.asarray(host).reshape(-1).view(np.uint8))
            # Where a device reads the host's memory itself, the copy may still be under way.
            self.xp.cuda.Stream.null.synchronize()

    def download(self, array) -> np.ndarray:
        with self.on(array.device.id):
            return self.xp.asnumpy(array)

    def nccl(self):
        """CuPy's binding of NCCL; RuntimeError where it has none."""
        found = getattr(self.xp.cuda, "nccl", None)
        if found is None or not getattr(found, "available", True):
            raise RuntimeError("CuPy finds no NCCL here (python -m cupyx.tools.install_library --library nccl)")
        return found

    def stream(self) -> int:
        """The stream on which everything runs."""
        return self.xp.cuda.Stream.null.ptr

    def wait(self) -> None:
        """Wait for all that has been started on the current device."""
        self.xp.cuda.Stream.null.synchronize()

    def _compiled(self, unit: Unit, kernel: str):
        module = self.xp.RawModule(code=unit.text, options=("--std=c++14",), name_expressions=[kernel])
        return module.get_function(kernel)
