"""A stand-in for cupy without a GPU: numpy arrays with the interface that `CupyMachine` uses."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from paddle._cuda.units import PRELUDE, Unit
from shim import Adopted, FakeDriver


class Array(np.ndarray):
    """An array with an address and a device."""

    #: results of numpy's functions are Arrays, too
    __array_priority__ = 1.0

    @property
    def data(self) -> Any:
        return Pointer(self)

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=0)

    def set(self, host: np.ndarray, stream: Any = None) -> None:
        assert type(host) is np.ndarray and host.shape == self.shape and host.dtype == self.dtype
        assert stream is not None, "an upload on no stream"
        self[...] = host


class Pointer:
    """A place in the memory of an array."""

    def __init__(self, array: np.ndarray, offset: int = 0) -> None:
        self.array, self.offset = array, offset

    @property
    def ptr(self) -> int:
        return self.array.ctypes.data + self.offset

    @property
    def mem(self) -> Any:
        root = self.array
        while isinstance(root.base, np.ndarray):
            root = root.base
        return root

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.array, self.offset + offset)


class Device(contextlib.nullcontext):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.id = number


class Stream(contextlib.AbstractContextManager):
    ptr = 7

    def __init__(self, non_blocking: bool = False, priority: int = 0) -> None:
        assert non_blocking, "the legacy stream waits for all others"
        assert priority in (-1, 0)
        self.done = True

    def __exit__(self, *error: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        assert event.recorded is not None and event.recorded is not self, "a stream that waits for itself"


class Event:
    """An event of a device that has not reached it before it is asked twice."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.timed, self.asked, self.recorded = not disable_timing, 0, None

    def record(self, stream: Stream) -> None:
        assert isinstance(stream, Stream)
        self.recorded = stream

    def synchronize(self) -> None:
        self.asked = 2

    @property
    def done(self) -> bool:
        self.asked += 1
        return self.asked > 2


class AsyncPool:
    """A pool that has memory, half of it in use, until it is trimmed."""

    def __init__(self) -> None:
        self.total = 4096

    def malloc(self, size: int) -> None:
        raise AssertionError("the stand-in allocates by numpy")

    def used_bytes(self) -> int:
        return 2048

    def total_bytes(self) -> int:
        return self.total

    def free_all_blocks(self, stream: Stream) -> None:
        assert isinstance(stream, Stream)
        self.total = self.used_bytes()


def _arrays(result: Any) -> Any:
    """Results of numpy's functions, as Arrays."""
    if isinstance(result, (list, tuple)):
        return type(result)(_arrays(r) for r in result)
    return result.view(Array) if type(result) is np.ndarray else result


class Linalg:
    """cupy._core._routines_linalg, as far as the compute type of products goes."""

    COMPUTE_TYPE_DEFAULT, COMPUTE_TYPE_TF32 = 0, 6

    def __init__(self) -> None:
        self.kind = self.COMPUTE_TYPE_DEFAULT

    def get_compute_type(self, dtype: np.dtype) -> int:
        assert dtype == np.float32
        return self.kind

    def set_compute_type(self, dtype: np.dtype, kind: int) -> None:
        assert dtype == np.float32
        self.kind = kind


class Cupy:
    """`asked` records the kernels that were compiled and the devices that were entered."""

    def __init__(self, shim: Any) -> None:
        self._shim, self.asked = shim, []
        self.fake, self.linalg = FakeDriver(shim.folder), Linalg()
        sys.modules["cupy._core._routines_linalg"] = self.linalg  # type: ignore[assignment]
        cublas = SimpleNamespace(__file__=str(shim.cublas()), create=shim.blas, setStream=lambda handle, stream: None)
        sys.modules["cupy_backends.cuda.libs.cublas"] = cublas  # type: ignore[assignment]
        self.cuda = SimpleNamespace(
            Device=self._device,
            Stream=Stream,
            Event=Event,
            MemoryAsyncPool=AsyncPool,
            alloc_pinned_memory=bytearray,
            using_allocator=lambda allocator: contextlib.nullcontext(),
            get_elapsed_time=lambda start, end: 1.5 if start.timed and end.timed else None,
            runtime=SimpleNamespace(
                getDeviceCount=lambda: 1,
                getDevice=lambda: 0,
                deviceGetAttribute=lambda attribute, device: 1,
                deviceGetMemPool=lambda device: 40 + device,
                cudaMemPoolAttrReservedMemHigh=6,
                cudaMemPoolAttrUsedMemHigh=8,
                memPoolGetAttribute=lambda pool, attribute: 1000 * pool + attribute,
                getDeviceProperties=lambda device: {
                    "name": b"Stand-in",
                    "major": 9,
                    "minor": 0,
                    "totalGlobalMem": 1 << 36,
                    "multiProcessorCount": 132,
                },
            ),
            driver=SimpleNamespace(ctxGetCurrent=lambda: FakeDriver.CONTEXT),
            UnownedMemory=Adopted,
            MemoryPointer=lambda memory, offset: Pointer(np.asarray(memory), offset),
        )

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, (type, np.ufunc)) or not callable(found):
            return found
        return lambda *args, **keywords: _arrays(found(*args, **keywords))

    def ndarray(self, shape: tuple, dtype: Any, memptr: Pointer) -> Array:
        assert isinstance(shape, tuple)
        if 0 in shape:
            return np.empty(shape, dtype).view(Array)
        return np.ndarray(shape, dtype, memptr.array, memptr.offset).view(Array)

    def empty(self, shape: Any, dtype: Any) -> Array:
        return np.empty(shape, dtype).view(Array)

    def zeros(self, shape: Any, dtype: Any) -> Array:
        return np.zeros(shape, dtype).view(Array)

    def ascontiguousarray(self, array: Any) -> Array:
        return np.ascontiguousarray(array).view(Array)

    def asnumpy(self, array: Array, stream: Any = None) -> np.ndarray:
        assert isinstance(stream, Stream)
        return np.array(array)

    def _device(self, number: int) -> Any:
        self.asked.append(number)
        return Device(number)

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

            run.kernel = SimpleNamespace(ptr=self.fake.function(*self._shim._found(unit, name)))
            return run

        return SimpleNamespace(get_function=get_function)
