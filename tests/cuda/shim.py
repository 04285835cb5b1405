"""A machine without a GPU: device memory is numpy memory, kernels are compiled as C++ (see shim.hpp)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from paddle._cuda import cudnn, formula

HERE = Path(__file__).parent


def source_of(unit) -> str:
    """The C++ of a unit: its kernels, and a function that starts a kernel by number."""
    cases = "".join(
        f"        case {i}: return shim::start(device::{k}, grid, threads, values, n);\n"
        for i, k in enumerate(unit.kernels)
    )
    return f"""#include "shim.hpp"
namespace device {{
using namespace std;
{unit.text}
}}
using namespace device;
extern "C" int start(int kernel, const unsigned* grid, unsigned threads, void** values, int n) {{
    switch (kernel) {{
{cases}    }}
    return -2;
}}
"""


class Adopted:
    """Memory of the fake driver, as numpy sees it; `owner` keeps it."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        data = (address, False)
        self.__array_interface__ = {"data": data, "shape": (nbytes,), "typestr": "|u1", "version": 3}


class FakeDriver:
    """tests/cuda/fake_libcuda.cc, built as a library: launches run the kernels of the shim and are counted."""

    #: the handles of the context and the stream
    CONTEXT, STREAM = 11, 7

    def __init__(self, folder: Path) -> None:
        self.path = folder / "libfakecuda.so"
        if not self.path.exists():
            command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", self.path, HERE / "fake_libcuda.cc"]
            subprocess.run(command, check=True, capture_output=True)
        self.library = ctypes.CDLL(str(self.path))
        self.library.fake_function.restype = ctypes.c_void_p
        self.library.fake_function.argtypes = [ctypes.c_void_p, ctypes.c_int]

    def function(self, start: Any, number: int) -> int:
        """A CUfunction of the kernel `number` of a unit."""
        return self.library.fake_function(ctypes.cast(start, ctypes.c_void_p), number)

    @property
    def launches(self) -> int:
        return self.library.fake_launches()

    @property
    def uploads(self) -> int:
        return self.library.fake_uploads()

    @property
    def blocks(self) -> int:
        """Blocks of the pool that are not freed."""
        return self.library.fake_blocks()

    @property
    def graphs(self) -> int:
        """Executable graphs that are not destroyed."""
        return self.library.fake_graphs()

    @property
    def graph_starts(self) -> int:
        return self.library.fake_graph_starts()

    @property
    def graph_nodes(self) -> int:
        """The nodes of all graphs that were started."""
        return self.library.fake_graph_nodes()


class HostMachine:
    """A machine whose device memory is numpy's."""

    xp: Any = np

    def address(self, array) -> int:
        return array.ctypes.data

    def view(self, handle, offset: int, dtype, shape):
        """The elements of a tensor in the memory of `handle`, from byte `offset` on."""
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, handle, offset)

    def wait(self) -> None:
        """Wait for all operations: there are none."""

    def memory(self) -> tuple[int, int]:
        return 0, 0

    def release(self) -> None:
        """There is no pool."""

    tf32 = False

    def dnn(self) -> Any:
        """No cuDNN."""
        return None

    def allow_tf32(self, allowed: bool) -> None:
        self.tf32 = allowed

    def aside(self) -> Any:
        """A second stream: everything is complete at once."""
        return SimpleNamespace(stream=0, follow=lambda: None, join=lambda: None)

    def driver(self) -> tuple[str, int, int] | None:
        """No driver: launches go through Python."""
        return None

    def host_words(self, n: int) -> np.ndarray:
        return np.zeros(n, np.int64)

    def adopt(self, address: int, nbytes: int, owner: Any):
        return np.asarray(Adopted(address, nbytes, owner))

    def root(self, array):
        """The identity of the memory of an array."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return array


class ShimMachine(HostMachine):
    """A machine for `paddle._cuda.use`, on the CPU. Records the kernels it has started, and the sizes of transfers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[str] = []
        self.uploads: list[int] = []
        self.downloads: list[int] = []
        self.arguments: list[int] = []
        self.kernel = functools.cache(self._kernel)

    def device_count(self) -> int:
        return 1

    def function(self, name: str) -> int:
        """The address of a function of tests/cuda/fake_cublas.cc or fake_cudnn.cc."""
        library = self.library("cudnn" if name.startswith("cudnn") else "cublas")
        return ctypes.cast(library[name], ctypes.c_void_p).value or 0

    def blas(self) -> int:
        return 5

    def compute_type(self) -> int:
        """The compute type of cuBLAS's last product."""
        return self.library("cublas").fake_compute_type()

    def stand_in(self, name: str) -> Path:
        """tests/cuda/fake_<name>.cc, built as a library."""
        path = self.folder / f"libfake{name}.so"
        if not path.exists():
            command = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-w", "-o", path, HERE / f"fake_{name}.cc"]
            subprocess.run(command, check=True, capture_output=True)
        return path

    def cublas(self) -> Path:
        return self.stand_in("cublas")

    @functools.cache  # noqa: B019
    def library(self, name: str) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.stand_in(name)))

    def on(self, device: int):
        assert device == 0
        return contextlib.nullcontext()

    def upload(self, array, host) -> None:
        self.uploads.append(host.nbytes)
        array[:] = host.reshape(-1).view(np.uint8)

    def upload_arguments(self, array, host) -> None:
        self.arguments.append(host.nbytes)
        array[:] = host.reshape(-1).view(np.uint8)

    def download(self, array):
        self.downloads.append(array.nbytes)
        return array.copy()

    def forget(self) -> None:
        """Clears the records."""
        for record in (self.started, self.uploads, self.downloads, self.arguments):
            record.clear()

    def build(self, unit) -> ctypes.CDLL:
        """The unit as a shared library."""
        text = source_of(unit)
        name = f"{unit.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        library = self.folder / f"{name}.so"
        if not library.exists():
            source = self.folder / f"{name}.cc"
            source.write_text(text)
            command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-w", f"-I{HERE}", "-o", library, source]
            built = subprocess.run(command, capture_output=True, text=True)
            assert built.returncode == 0, f"{unit.name} does not compile as C++:\n{built.stderr}"
        return self._load(library)

    @staticmethod
    @functools.cache
    def _load(library: Path) -> ctypes.CDLL:
        return ctypes.CDLL(str(library))

    def _found(self, unit, kernel: str) -> tuple[Any, int]:
        """The function that starts kernels of a unit, and the number of a kernel."""
        if unit.name.startswith("row_"):
            unit = formula.all_rows()  # one compilation for all rows
        return self.build(unit).start, unit.kernels.index(kernel)

    def _kernel(self, unit, kernel: str):
        start, number = self._found(unit, kernel)

        def run(grid, block, args) -> None:
            self.started.append(kernel)
            across, *others = grid
            assert 0 < across < 1 << 31, f"{kernel}: {across} blocks along x"
            assert all(0 < n <= 65535 for n in others), f"{kernel}: {others} blocks along y and z, of which 65535 fit"
            assert 0 < block[0] <= 1024, f"{kernel}: {block[0]} threads"
            values = (ctypes.c_void_p * len(args))()
            held = []
            for i, a in enumerate(args):
                if isinstance(a, np.ndarray):
                    assert a.flags.c_contiguous, f"{kernel}: argument {i} is not contiguous"
                    held.append(np.array([a.ctypes.data], np.uint64))
                else:
                    assert isinstance(a, np.generic), f"{kernel}: argument {i} has no C type: {a!r}"
                    held.append(np.array([a]))
                values[i] = held[-1].ctypes.data
            sizes = (ctypes.c_uint * 3)(*(*grid, 1, 1)[:3])
            code = start(number, sizes, block[0], values, len(args))
            assert code == -1, f"{kernel} takes {code} arguments, got {len(args)}"

        return run


class DriverMachine(ShimMachine):
    """The shim with a driver: calls whose launches are known run through rust/py/src/device/recipe.rs."""

    #: what is captured as graphs: long recipes and Programs
    graphs = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fake = FakeDriver(folder)
        for library in map(self.library, ("cublas", "cudnn")):
            keeper = ctypes.c_void_p.in_dll(library, "fake_keeper")
            keeper.value = ctypes.cast(self.fake.library.fake_keep, ctypes.c_void_p).value

    @functools.cache  # noqa: B019
    def dnn(self) -> Any:
        """cuDNN of tests/cuda/fake_cudnn.cc."""
        return cudnn.on(self.library("cudnn"), self.fake.STREAM)

    def driver(self) -> tuple[str, int, int]:
        return str(self.fake.path), self.fake.CONTEXT, self.fake.STREAM

    @functools.cache  # noqa: B019
    def pointer(self, unit, kernel: str) -> int:
        return self.fake.function(*self._found(unit, kernel))


def through_python(monkeypatch: Any) -> list[str]:
    """The operators that run through Python from now on, as they run; one that is declined is an error."""
    from paddle import _cuda

    found: list[str] = []
    runtime = _cuda.runtime()
    run = runtime._run

    def spy(op: str, *args: Any, **keywords: Any) -> Any:
        result = run(op, *args, **keywords)
        found.append(op)
        assert result is not None, f"{op} was declined"
        return result

    monkeypatch.setattr(runtime, "_run", spy)
    return found


def have_compiler() -> bool:
    return shutil.which("g++") is not None


def use() -> ShimMachine:
    """Makes the stand-in CUDAPlace(0) of this process, for programs that are no test."""
    from paddle import _cuda

    machine = ShimMachine(Path(tempfile.mkdtemp(prefix="units")))
    _cuda.use(machine)
    return machine
