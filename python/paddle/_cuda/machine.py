"""The CUDA device as launchers use it: CuPy arrays from a stream-ordered pool, a stream of its own, and kernels
compiled by NVRTC."""

from __future__ import annotations

import collections
import ctypes
import functools
import importlib
import importlib.util
import os
from typing import Any

import numpy as np

import paddle._core as _core

from . import cudnn
from .units import Unit

#: cudaDevAttrMemoryPoolsSupported
_MEMORY_POOLS = 115
#: bytes of memory that cuBLAS works in
_WORKSPACE = 32 << 20
_UNKNOWN = object()


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


class _Entry:
    """A context for allocations and kernels on one device: its stream and its allocator. May be entered again."""

    def __init__(self, cupy: Any, device: int) -> None:
        self.device = cupy.cuda.Device(device)
        with self.device:
            # The legacy default stream cannot be captured, and waits for all others.
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.aside = cupy.cuda.Stream(non_blocking=True)
            self.pool = _stream_ordered_pool(cupy, device)
        self._using = cupy.cuda.using_allocator
        self._dnn: Any = _UNKNOWN

        self._opened: list = []
        #: cuBLAS's handle and its workspace
        self.blas: tuple[int, Any] | None = None

    def dnn(self, library: ctypes.CDLL | None) -> cudnn.Dnn | None:
        """cuDNN for the stream, None where it is not installed."""
        if self._dnn is _UNKNOWN:
            with self.device:
                self._dnn = cudnn.on(library, self.stream.ptr)
        return self._dnn

    def _allocate(self, nbytes: int) -> Any:
        """Memory of the pool; graphs of Programs give theirs back where there is no other."""
        try:
            return self.pool.malloc(nbytes)
        except (MemoryError, RuntimeError):  # CuPy's OutOfMemoryError and CUDARuntimeError
            if not _core.release_device_graphs():
                raise
            return self.pool.malloc(nbytes)

    def __enter__(self) -> _Entry:
        self.device.__enter__()
        self.stream.__enter__()
        if self.pool is not None:
            using = self._using(self._allocate)
            using.__enter__()
            self._opened.append(using)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.pool is not None:
            self._opened.pop().__exit__(*error)
        self.stream.__exit__(*error)
        self.device.__exit__(*error)


class _Aside:
    """A second stream of a device."""

    def __init__(self, cupy: Any, entry: _Entry) -> None:
        self._cupy, self._entry = cupy, entry
        self.stream = entry.aside.ptr

    def _order(self, first: Any, second: Any) -> None:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(first)
        second.wait_event(event)

    def follow(self) -> None:
        """What comes next on this stream follows what the main one holds."""
        self._order(self._entry.stream, self._entry.aside)

    def join(self) -> None:
        """What comes next on the main stream follows what this one holds."""
        self._order(self._entry.aside, self._entry.stream)


def _stream_ordered_pool(cupy: Any, device: int) -> Any:
    """CuPy's stream-ordered allocator of the current device; None (CuPy's default pool) where CUDA has none. It keeps
    freed memory when the device synchronizes: its release threshold is CUPY_GPU_MEMORY_LIMIT, by default unlimited."""
    if not cupy.cuda.runtime.deviceGetAttribute(_MEMORY_POOLS, device):
        return None
    return cupy.cuda.MemoryAsyncPool()


class CupyMachine:
    """The GPUs of this host. Operations of several threads are ordered by the device's stream, which is independent of
    the caller's current CuPy stream."""

    library = "libcuda.so.1"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        # A CuPy kernel is compiled once per device.
        self.kernel = functools.cache(self._compiled)
        self.on = functools.cache(functools.partial(_Entry, cupy))
        #: uploads whose pinned memory the device may still read
        self._staged: collections.deque = collections.deque()
        self.tf32 = False
        #: what is captured as CUDA graphs: 0 nothing, 1 long recipes, 2 static Programs as well
        self.graphs = 0 if os.environ.get("OAR_CUDA_GRAPHS") == "0" else 2

    def driver(self) -> tuple[str, int, int] | None:
        """libcuda, and the current device's context and stream; None (all launches go through Python) without the
        stream-ordered pool, or by the environment variable OAR_CUDA_RECIPES=0."""
        entry = self._entry()
        if entry.pool is None or os.environ.get("OAR_CUDA_RECIPES") == "0":
            return None
        return self.library, int(self.xp.cuda.driver.ctxGetCurrent()), entry.stream.ptr

    def pointer(self, unit: Unit, kernel: str) -> int:
        """The CUfunction of a kernel on the current device."""
        return self.kernel(unit, kernel).kernel.ptr

    def function(self, name: str) -> int:
        """The address of a function of cuBLAS or cuDNN."""
        library = self._cudnn if name.startswith("cudnn") else self._cublas
        return ctypes.cast(library[name], ctypes.c_void_p).value or 0  # type: ignore[index]

    def blas(self) -> int:
        """cuBLAS's handle of the current device and its stream, with a workspace of its own, as cuBLAS allocates none
        while a graph is captured."""
        entry = self._entry()
        if entry.blas is None:
            binding = importlib.import_module("cupy_backends.cuda.libs.cublas")
            with entry:
                handle, workspace = binding.create(), self.xp.empty(_WORKSPACE, np.uint8)
                binding.setStream(handle, entry.stream.ptr)
                found = self._cublas.cublasSetWorkspace_v2(
                    ctypes.c_void_p(handle), ctypes.c_void_p(self.address(workspace)), ctypes.c_size_t(_WORKSPACE)
                )
            if found:
                raise OSError(f"cublasSetWorkspace failed with the status {found}")
            entry.blas = handle, workspace
        return entry.blas[0]

    def dnn(self) -> cudnn.Dnn | None:
        """cuDNN on the current device and its stream; None where it is not installed."""
        return self._entry().dnn(self._cudnn)

    @functools.cached_property
    def _cudnn(self) -> ctypes.CDLL | None:
        # cuDNN calls cuBLAS, and finds the loaded one.
        return cudnn.find() if self._cublas else None

    @functools.cached_property
    def _cublas(self) -> ctypes.CDLL:
        # The binding is linked with cuBLAS, whose functions dlsym finds through it.
        return ctypes.CDLL(importlib.import_module("cupy_backends.cuda.libs.cublas").__file__)

    def adopt(self, address: int, nbytes: int, owner: Any):
        """An array over memory that `owner` keeps."""
        memory = self.xp.cuda.UnownedMemory(address, nbytes, owner)
        return self.xp.ndarray((nbytes,), np.uint8, self.xp.cuda.MemoryPointer(memory, 0))

    def device_count(self) -> int:
        return self.xp.cuda.runtime.getDeviceCount()

    def address(self, array) -> int:
        return array.data.ptr

    def view(self, handle, offset: int, dtype, shape):
        """The elements of a tensor in the memory of `handle`, from byte `offset` on."""
        return self.xp.ndarray(tuple(shape), dtype, handle.data + offset)

    def root(self, array):
        """The identity of the memory of an array."""
        return array.data.mem

    def upload(self, array, host: np.ndarray) -> None:
        """Copy the bytes of `host` into the flat `array`; `host` may be modified afterwards. Does not wait for the
        stream: the bytes are copied to pinned memory, which is released when the device has read it."""
        flat = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
        cuda = self.xp.cuda
        with self.on(array.device.id) as entry:
            memory = cuda.alloc_pinned_memory(flat.nbytes)
            pinned = np.frombuffer(memory, np.uint8, flat.nbytes)
            pinned[:] = flat
            array.set(pinned, stream=entry.stream)
            read = cuda.Event(disable_timing=True)
            read.record(entry.stream)
        self._staged.append((read, memory))
        while self._staged and self._staged[0][0].done:
            self._staged.popleft()

    def host_words(self, n: int) -> np.ndarray:
        """Zeros of int64 in page-locked host memory, which kernels reach by the same address (unified addressing)."""
        memory = self.xp.cuda.alloc_pinned_memory(8 * n)
        words = np.frombuffer(memory, np.int64, n)
        words[...] = 0
        return words

    def upload_arguments(self, array, host: np.ndarray) -> None:
        """`upload` of arguments that a launch over many tensors reads from memory: addresses, sizes, factors."""
        self.upload(array, host)

    def download(self, array) -> np.ndarray:
        with self.on(array.device.id) as entry:
            return self.xp.asnumpy(array, stream=entry.stream)

    def nccl(self):
        """CuPy's NCCL binding; RuntimeError if it has none."""
        try:
            found = importlib.import_module("cupy.cuda.nccl")
        except ImportError as e:
            found, why = None, f": {e}"
        else:
            why = ""
        if found is None or not getattr(found, "available", True):
            raise RuntimeError(f"CuPy finds no NCCL here (python -m cupyx.tools.install_library --library nccl){why}")
        return found

    def stream(self) -> int:
        """The stream of the current device's operations."""
        return self._entry().stream.ptr

    def allow_tf32(self, allowed: bool) -> None:
        """Whether cuBLAS may round the operands of float32 products to TF32 (CuPy's default: not)."""
        self.tf32 = allowed
        linalg = importlib.import_module("cupy._core._routines_linalg")
        kind = linalg.COMPUTE_TYPE_TF32 if allowed else linalg.COMPUTE_TYPE_DEFAULT
        if allowed or linalg.get_compute_type(np.dtype("float32")) == linalg.COMPUTE_TYPE_TF32:
            linalg.set_compute_type(np.dtype("float32"), kind)

    def aside(self) -> _Aside:
        """The second stream of the current device."""
        return _Aside(self.xp, self._entry())

    def wait(self) -> None:
        """Wait for all operations on the current device."""
        self._entry().stream.synchronize()

    def memory(self) -> tuple[int, int]:
        """Bytes of the current device's pool: those in use, and all that it has from the driver."""
        pool = self._pool()
        return int(pool.used_bytes()), int(pool.total_bytes())

    def peaks(self) -> tuple[int, int]:
        """The largest values of `memory` so far. RuntimeError without the stream-ordered pool, which counts them."""
        entry, runtime = self._entry(), self.xp.cuda.runtime
        if entry.pool is None:
            raise RuntimeError("the largest use of memory is counted by stream-ordered pools, which this device lacks")
        pool = runtime.deviceGetMemPool(entry.device.id)
        kinds = runtime.cudaMemPoolAttrUsedMemHigh, runtime.cudaMemPoolAttrReservedMemHigh
        used, total = (int(runtime.memPoolGetAttribute(pool, kind)) for kind in kinds)
        return used, total

    def ordered(self) -> Any:
        """CuPy's object of the stream of the current device's operations."""
        return self._entry().stream

    def properties(self, device: int) -> dict[str, Any]:
        """CUDA's facts about a device."""
        return self.xp.cuda.runtime.getDeviceProperties(device)

    def release(self) -> None:
        """Return memory of the current device's pool that is not in use to the driver."""
        entry = self._entry()
        with self.on(entry.device.id):
            self._pool().free_all_blocks(entry.stream)

    def _pool(self) -> Any:
        return self._entry().pool or self.xp.get_default_memory_pool()

    def _entry(self) -> _Entry:
        return self.on(self.xp.cuda.runtime.getDevice())

    def _compiled(self, unit: Unit, kernel: str):
        module = self.xp.RawModule(code=unit.text, options=("--std=c++14",), name_expressions=[kernel])
        return module.get_function(kernel)
