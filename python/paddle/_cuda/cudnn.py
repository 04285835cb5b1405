"""Convolutions by cuDNN 9, where it is installed: descriptors, the choice of algorithms, and calls of its functions.

The library is the loader's libcudnn.so.9, or that of the packages nvidia-cudnn-cu12 and nvidia-cudnn-cu13.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import warnings
from collections.abc import Mapping
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .call import Call

NAME = "libcudnn.so.9"
# cudnnDataType_t by numpy's names (uint16: the bits of bfloat16).
TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint16": 9}
# cudnnMathType_t: float32 by TF32 is allowed by the default, and excluded by FMA.
_DEFAULT, _TENSOR_OP, _FMA = 0, 1, 3
_CROSS_CORRELATION = 1
# The most elements of a tensor, which cuDNN counts in 32 bits.
MOST = 2**31 - 1
_ONE = {"float64": ctypes.c_double(1)}
_ZERO = {"float64": ctypes.c_double(0)}
_ONE_F, _ZERO_F = c_float(1), c_float(0)

#: whether convolutions of float32 may round their operands to TF32
tf32 = True
#: flags of the process; `paddle._basics.place` replaces them by all that set_flags sets
settings: Mapping[str, Any] = {
    "FLAGS_cudnn_deterministic": False,
    "FLAGS_cudnn_exhaustive_search": False,
    "FLAGS_conv_workspace_size_limit": 512,
}


@dataclass(frozen=True)
class Function:
    """One of the three functions of a convolution: its name, that of its queries, its operands and its result, of the
    image x, the filter w and the output y."""

    name: str
    query: str
    operands: str
    result: str


FORWARD = Function("cudnnConvolutionForward", "ConvolutionForward", "xw", "y")
DATA = Function("cudnnConvolutionBackwardData", "ConvolutionBackwardData", "wy", "x")
FILTER = Function("cudnnConvolutionBackwardFilter", "ConvolutionBackwardFilter", "xy", "w")


@dataclass(frozen=True)
class Geometry:
    """A convolution. `x` is [batch, channels, ..], `w` [out channels, channels / groups, ..], `y` [batch, out channels,
    ..], whatever their order in memory; `last`: channels are last there, in the filter, too."""

    dtype: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    last: bool


class Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and the same of the two other functions."""

    _fields_ = [
        ("algorithm", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("deterministic", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    ]


class _Algorithm:
    """An algorithm with its descriptor of the convolution, whose kind of arithmetic is the algorithm's."""

    def __init__(self, number: int, convolution: int, nbytes: int) -> None:
        self.number, self.convolution, self.nbytes = number, convolution, nbytes


class _Choice:
    """The algorithms of a function for a geometry that have not failed, best first."""

    def __init__(self, descriptors: dict[str, int], algorithms: list[_Algorithm]) -> None:
        self.descriptors, self.algorithms = descriptors, algorithms


class Dnn:
    """cuDNN on one device and stream."""

    def __init__(self, library: ctypes.CDLL, stream: int) -> None:
        self.library, self._stream = library, stream
        #: the handle of recorded calls, and one for queries, which other threads' calls do not disturb
        self.handle, self._queries = self._handle(), self._handle()
        self._choices: dict[Any, _Choice] = {}

    def _check(self, name: str, *args: Any) -> None:
        status = getattr(self.library, name)(*args)
        if status:
            raise OSError(f"{name} failed with the status {status}")

    @functools.cached_property
    def version(self) -> int:
        self.library.cudnnGetVersion.restype = c_size_t
        return self.library.cudnnGetVersion()

    def _handle(self) -> int:
        found = c_void_p()
        self._check("cudnnCreate", byref(found))
        self._check("cudnnSetStream", found, c_void_p(self._stream))
        return found.value or 0

    def _created(self, kind: str) -> c_void_p:
        found = c_void_p()
        self._check(f"cudnnCreate{kind}Descriptor", byref(found))
        return found

    # Descriptors live as long as the process, for recipes hold their addresses.

    @functools.cache  # noqa: B019
    def _tensor(self, dtype: str, dims: tuple[int, ...], last: bool) -> int:
        found = self._created("Tensor")
        order = [0, *range(2, len(dims)), 1] if last else list(range(len(dims)))
        strides, step = [0] * len(dims), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= dims[axis]
        self._check("cudnnSetTensorNdDescriptor", found, TYPES[dtype], len(dims), _ints(dims), _ints(strides))
        return found.value or 0

    @functools.cache  # noqa: B019
    def _filter(self, dtype: str, dims: tuple[int, ...], last: bool) -> int:
        found = self._created("Filter")
        self._check("cudnnSetFilterNdDescriptor", found, TYPES[dtype], int(last), len(dims), _ints(dims))
        return found.value or 0

    def _convolution(self, g: Geometry, math: int) -> int:
        found, compute = self._created("Convolution"), TYPES["float64" if g.dtype == "float64" else "float32"]
        sizes = (_ints(g.pad), _ints(g.stride), _ints(g.dilation))
        self._check("cudnnSetConvolutionNdDescriptor", found, len(g.pad), *sizes, _CROSS_CORRELATION, compute)
        self._check("cudnnSetConvolutionGroupCount", found, g.groups)
        self._check("cudnnSetConvolutionMathType", found, math)
        return found.value or 0

    def _found(self, function: Function, g: Geometry, search: bool, fixed: bool, most: int) -> _Choice:
        """The algorithms of at most `most` bytes of workspace: by cuDNN's heuristics, or (`search`) by their measured
        times; those whose results are the same in every run first, or (`fixed`) only those."""
        descriptors = {
            "x": self._tensor(g.dtype, g.x, g.last),
            "w": self._filter(g.dtype, g.w, g.last),
            "y": self._tensor(g.dtype, g.y, g.last),
        }
        single = _DEFAULT if tf32 else _FMA
        math = {"float32": single, "float64": _DEFAULT}.get(g.dtype, _TENSOR_OP)
        operands = [c_void_p(descriptors[k]) for k in function.operands]
        result, handle = c_void_p(descriptors[function.result]), c_void_p(self._queries)
        found, count = (Performance * 16)(), c_int()
        query = f"cudnnFind{function.query}Algorithm" if search else f"cudnnGet{function.query}Algorithm_v7"
        asked = c_void_p(self._convolution(g, math))
        self._check(query, handle, *operands, asked, result, 10, byref(count), found)
        able = [p for p in found[: count.value] if p.status == 0 and p.memory <= most]
        able = [p for p in able if p.deterministic] + [p for p in able if not p.deterministic and not fixed]
        algorithms = []
        for p in able:
            convolution, nbytes = self._convolution(g, p.math), c_size_t()
            size, of = getattr(self.library, f"cudnnGet{function.query}WorkspaceSize"), c_void_p(convolution)
            if size(handle, *operands, of, result, p.algorithm, byref(nbytes)) == 0 and nbytes.value <= most:
                algorithms.append(_Algorithm(p.algorithm, convolution, nbytes.value))
        return _Choice(descriptors, algorithms)

    def run(self, call: Call, function: Function, g: Geometry, given: dict[str, Any]) -> bool:
        """Compute a function of the arrays x, w and y in `given` (one is the result); False if cuDNN cannot."""
        if any(_count(dims) > MOST for dims in (g.x, g.w, g.y)):
            return False
        a = call.attrs
        search = bool(a.get("exhaustive_search")) or settings["FLAGS_cudnn_exhaustive_search"]
        most = max(int(a.get("workspace_size_MB", 0)), settings["FLAGS_conv_workspace_size_limit"]) << 20
        key = (function.name, g, search, settings["FLAGS_cudnn_deterministic"], most, tf32)
        if key not in self._choices:
            try:
                self._choices[key] = self._found(function, g, *key[2:5])
            except OSError:  # cuDNN has no such convolution
                self._choices[key] = _Choice({}, [])
        choice, algorithms = self._choices[key], self._choices[key].algorithms
        while algorithms:
            if self._ran(call, function, g.dtype, choice, algorithms[0], given):
                return True
            del algorithms[0]
        return False

    def _ran(self, call: Call, function: Function, dtype: str, of: _Choice, by: _Algorithm, given: dict) -> bool:
        space: Any = call.empty((by.nbytes,), "uint8") if by.nbytes else 0
        operands = [v for k in function.operands for v in (of.descriptors[k], given[k])]
        one, zero = (ctypes.addressof(v) for v in (_ONE.get(dtype, _ONE_F), _ZERO.get(dtype, _ZERO_F)))
        result = (of.descriptors[function.result], given[function.result])
        args = (*operands, by.convolution, by.number, space, by.nbytes, zero, *result)
        try:
            call.library(function.name, self.handle, one, *args)
        except OSError:
            if call.launched is not None:
                del call.launched[-1:]
            return False
        return True


def _ints(values) -> Any:
    return (c_int * len(values))(*values)


def _count(dims: tuple[int, ...]) -> int:
    return functools.reduce(lambda a, b: a * b, dims, 1)


def find() -> ctypes.CDLL | None:
    """The library, None where it is not installed or the environment variable OAR_CUDA_CUDNN is 0."""
    if os.environ.get("OAR_CUDA_CUDNN") == "0":
        return None
    paths = []
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:
        spec = None
    if spec is not None:
        paths += [str(Path(folder) / "lib" / NAME) for folder in spec.submodule_search_locations or ()]
    # The wheel's library is that of torch, which may be in the same process; then the loader's.
    for path in [*paths, NAME]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def on(library: ctypes.CDLL | None, stream: int) -> Dnn | None:
    """cuDNN on the current device; None without the library, or with a warning if it has no handle for the device."""
    if library is None:
        return None
    try:
        return Dnn(library, stream)
    except OSError as e:
        warnings.warn(f"cuDNN is not used: {e}", RuntimeWarning, stacklevel=2)
        return None
