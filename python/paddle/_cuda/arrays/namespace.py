"""numpy's functions over `Array`, by launches of a call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import maps, ordering, strided
from ..math import gemm, reduction
from ..units import grid_of
from .array import Array, Lacking, ctype, is_number, mapped, word
from .kernels import COMPARED, ONE, SCANNED, TWO, UNIT

#: elements of an array on the host that become arguments of launches
CONSTANTS = 128
_NULL = np.uint64(0)
#: elements of a run that a block scans
_SCANNED = 8192
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Namespace:
    """The functions of numpy that launchers use. What is missing raises Lacking."""

    inf, nan, pi, newaxis = np.inf, np.nan, np.pi, None
    float32, float64, int32, int64, bool_, uint8 = np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8
    broadcast_shapes = staticmethod(np.broadcast_shapes)

    def __init__(self, call: Any, xp: Any) -> None:
        self._call, self._xp = call, xp

    def __getattr__(self, name: str) -> Any:
        if name in ONE:
            return lambda x: self._one(name, x)
        if name in TWO:
            return lambda x, y: self._two(name, x, y)
        if name in COMPARED:
            return lambda x, y: self._two(name, x, y, True)
        raise Lacking(name)

    # Making

    def _array(self, raw: Any) -> Array:
        return Array(self._call, raw)

    def empty(self, shape: Any, dtype: Any = "float64") -> Array:
        return self._call.empty(_shape(shape), dtype)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> Array:
        if isinstance(value, Array):
            return self.broadcast_to(value.astype(dtype or value.dtype, copy=False), _shape(shape)).copy()
        dtype = np.dtype(dtype or np.asarray(value).dtype)
        return strided.full(self._call, _shape(shape), dtype, np.asarray(value).astype(dtype).item())

    def zeros(self, shape: Any, dtype: Any = "float64") -> Array:
        return strided.full(self._call, _shape(shape), dtype)

    def ones(self, shape: Any, dtype: Any = "float64") -> Array:
        return strided.full(self._call, _shape(shape), dtype, 1)

    def zeros_like(self, x: Array) -> Array:
        return self.zeros(x.shape, x.dtype)

    def arange(self, start: int, stop: int | None = None, step: int = 1, dtype: Any = "int64") -> Array:
        start, stop = (0, start) if stop is None else (start, stop)
        out = self._call.empty((max(0, math.ceil((stop - start) / step)),), dtype)
        ctype(out.dtype)
        strided.write(self._call, out, "Ramp", (start, step))
        return out

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        if not isinstance(x, Array):
            is_host = isinstance(x, (np.ndarray, list, tuple)) or is_number(x)
            x = self._constant(np.asarray(x)) if is_host else self._array(x)
        return x if dtype is None else x.astype(dtype, copy=False)

    def _constant(self, host: np.ndarray) -> Array:
        """An array of the elements of one of the host, which are arguments of launches."""
        host = np.ascontiguousarray(host)
        if host.size > CONSTANTS:
            raise Lacking("a large array of the host")
        word(host.dtype)
        out = self._call.empty(host.shape, host.dtype)
        flat, numbers = out.reshape(-1), host.reshape(-1)
        for at in range(0, numbers.size, strided.WRITTEN):
            part = slice(at, at + strided.WRITTEN)
            strided.write(self._call, flat[part], "Listed", numbers[part])
        return out

    array = asarray

    def ascontiguousarray(self, x: Any) -> Array:
        return self.asarray(x).contiguous()

    def _launch(self, kernel: str, n: int, *args: Any) -> None:
        self._call.launch(UNIT, kernel, grid_of(n), 256, *args)

    # Elementwise

    def _one(self, name: str, x: Any) -> Any:
        if is_number(x):
            return getattr(np, name)(x)
        integral = name in ("negative", "absolute", "sign", "invert", "floor", "ceil", "rint", "trunc")
        return x.one(name, None if integral or x.dtype.kind == "f" else np.dtype("float64"))

    abs = absolute = fabs = lambda self, x: abs(x)

    def _two(self, name: str, x: Any, y: Any, compares: bool = False) -> Any:
        if is_number(x) and is_number(y):
            return getattr(np, name)(x, y)
        return (
            self.asarray(y).two(name, x, True, compares)
            if is_number(x)
            else self.asarray(x).two(name, y, False, compares)
        )

    def logical_and(self, x: Array, y: Array) -> Array:
        return (x != 0) & (y != 0)

    def logical_or(self, x: Array, y: Array) -> Array:
        return (x != 0) | (y != 0)

    def logical_xor(self, x: Array, y: Array) -> Array:
        return (x != 0) ^ (y != 0)

    def logical_not(self, x: Array) -> Array:
        return x == 0

    def isnan(self, x: Array) -> Array:
        return x != x

    def isfinite(self, x: Array) -> Array:
        return x - x == 0

    def isinf(self, x: Array) -> Array:
        return abs(x) == np.inf if x.dtype.kind == "f" else self.zeros(x.shape, "bool")

    def square(self, x: Array) -> Array:
        return x * x

    def where(self, condition: Any, x: Any, y: Any) -> Array:
        condition = self.asarray(condition)
        condition = condition if condition.dtype.kind == "b" else condition != 0
        dtypes = [v.dtype if hasattr(v, "dtype") else None for v in (x, y)]
        arrays = [v for v in (x, y) if not is_number(v)]
        if all(d is None for d in dtypes):
            dtype = np.asarray([x, y]).dtype
        elif None not in dtypes:
            dtype = np.result_type(*dtypes)
        else:  # a Python number does not change the type
            own = next(d for d in dtypes if d is not None)
            other = x if dtypes[0] is None else y
            dtype = (
                np.result_type(own, np.asarray(other).dtype) if isinstance(other, float) and own.kind != "f" else own
            )
        operands = [None if is_number(v) else self.asarray(v, dtype) for v in (x, y)]
        bits = _UNSIGNED.get(dtype.itemsize)
        if bits is None:
            raise Lacking(dtype.name)
        pair = (np.asarray(v if is_number(v) else 0).astype(dtype).reshape(1).view(bits)[0] for v in (x, y))
        numbers = tuple(v.astype(np.int64) if dtype.itemsize == 8 else v for v in pair)
        shape = np.broadcast_shapes(condition.shape, *(self.asarray(v).shape for v in arrays))
        return mapped(self._call, "Choice", word(dtype), dtype, shape, [*operands, condition], numbers)

    def clip(self, x: Array, low: Any, high: Any) -> Array:
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    # Shapes

    def broadcast_to(self, x: Any, shape: Any) -> Array:
        return self._array(self._xp.broadcast_to(self.asarray(x).raw, _shape(shape)))

    def broadcast_arrays(self, *arrays: Array) -> list[Array]:
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        return [self.broadcast_to(a, shape) for a in arrays]

    def moveaxis(self, x: Array, source: Any, to: Any) -> Array:
        return self._array(self._xp.moveaxis(x.raw, source, to))

    def expand_dims(self, x: Array, axis: Any) -> Array:
        return self._array(self._xp.expand_dims(x.raw, axis))

    def squeeze(self, x: Array, axis: Any = None) -> Array:
        return self._array(self._xp.squeeze(x.raw, axis))

    def transpose(self, x: Array, axes: Any = None) -> Array:
        return x.transpose(axes)

    def reshape(self, x: Array, shape: Any) -> Array:
        return x.reshape(shape)

    def flip(self, x: Array, axis: Any = None) -> Array:
        return self._array(self._xp.flip(x.raw, axis))

    def diagonal(self, x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        return self._array(self._xp.diagonal(x.raw, offset, axis1, axis2))

    def concatenate(self, parts: Any, axis: int = 0) -> Array:
        parts = [self.asarray(p) for p in parts]
        dtype = np.result_type(*(p.dtype for p in parts))
        axis %= parts[0].ndim
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        out, at = self._call.empty(tuple(shape), dtype), 0
        for p in parts:
            key = (*(slice(None),) * axis, slice(at, at + p.shape[axis]))
            out[key] = p.astype(dtype, copy=False)
            at += p.shape[axis]
        return out

    def stack(self, parts: Any, axis: int = 0) -> Array:
        parts = [self.asarray(p) for p in parts]
        axis %= parts[0].ndim + 1
        return self.concatenate([self.expand_dims(p, axis) for p in parts], axis)

    def split(self, x: Array, sections: Any, axis: int = 0) -> list[Array]:
        n = x.shape[axis]
        ends = [n // sections * i for i in range(1, sections)] if isinstance(sections, int) else list(sections)
        lead = (slice(None),) * (axis % x.ndim)
        return [x[(*lead, slice(a, b))] for a, b in zip([0, *ends], [*ends, n], strict=True)]

    def tile(self, x: Array, times: Any) -> Array:
        rank = max(x.ndim, len(times))
        times = (1,) * (rank - len(times)) + tuple(times)
        own = x.reshape((1,) * (rank - x.ndim) + x.shape)
        apart = own.reshape(tuple(v for n in own.shape for v in (1, n)))
        wide = self.broadcast_to(apart, tuple(v for t, n in zip(times, own.shape, strict=True) for v in (t, n)))
        return wide.reshape(tuple(t * n for t, n in zip(times, own.shape, strict=True)))

    def roll(self, x: Array, shift: Any, axis: Any = None) -> Array:
        if axis is None:
            return self.roll(x.reshape(-1), shift, 0).reshape(x.shape)
        for s, a in zip(_shape(shift), _shape(axis), strict=True):
            n = x.shape[a]
            s = s % n if n else 0
            lead = (slice(None),) * (a % x.ndim)
            x = self.concatenate([x[(*lead, slice(n - s, n))], x[(*lead, slice(0, n - s))]], a) if s else x
        return x

    def _triangle(self, x: Array, k: int, lower: bool) -> Array:
        row = self.arange(x.shape[-2]).reshape(-1, 1) + k
        column = self.arange(x.shape[-1])
        return self.where(column <= row if lower else column >= row, x, x.dtype.type(0))

    def tril(self, x: Array, k: int = 0) -> Array:
        return self._triangle(x, k, True)

    def triu(self, x: Array, k: int = 0) -> Array:
        return self._triangle(x, k, False)

    def eye(self, n: int, m: int | None = None, k: int = 0, dtype: Any = "float64") -> Array:
        return (self.arange(n).reshape(-1, 1) + k == self.arange(n if m is None else m)).astype(dtype)

    # Indices

    def take(self, x: Any, at: Any, axis: int | None = None) -> Array:
        if isinstance(at, int):
            return self.moveaxis(self.asarray(x), axis or 0, 0)[at]
        x, at = self.asarray(x), self.asarray(at, np.int64).contiguous()
        x = x.reshape(-1) if axis is None else x.contiguous()
        axis = 0 if axis is None else axis % x.ndim
        lead, rest = x.shape[:axis], x.shape[axis + 1 :]
        return self._taken(x, at, (*lead, *at.shape, *rest), at.size, math.prod(rest), x.shape[axis], False)

    def take_along_axis(self, x: Array, at: Array, axis: int) -> Array:
        axis %= x.ndim
        shape = tuple(at.shape[i] if i == axis else n for i, n in enumerate(x.shape))
        at = self.broadcast_to(at.astype(np.int64, copy=False), shape).contiguous()
        return self._taken(x.contiguous(), at, shape, shape[axis], math.prod(x.shape[axis + 1 :]), x.shape[axis], True)

    def _taken(self, x: Array, at: Array, shape: tuple, m: int, inner: int, size: int, along: bool) -> Array:
        word(x.dtype)
        if math.prod(shape) and not size:
            raise IndexError("an index of no elements")
        return maps.take(self._call, x, at, shape, m, inner, size, along)

    def argsort(self, x: Array, axis: int = -1, kind: str | None = None) -> Array:
        ctype(x.dtype)
        return self.moveaxis(ordering.positions(self._call, self.moveaxis(x, axis, -1).contiguous()), -1, axis)

    def _extreme(self, x: Array, axis: int | None, is_smallest: bool) -> Array:
        ctype(x.dtype)
        x = x.reshape(-1) if axis is None else x.contiguous()
        return reduction.places(self._call, x, 0 if axis is None else axis % x.ndim, is_smallest)

    def argmax(self, x: Array, axis: int | None = None) -> Array:
        return self._extreme(x, axis, False)

    def argmin(self, x: Array, axis: int | None = None) -> Array:
        return self._extreme(x, axis, True)

    def searchsorted(self, x: Array, values: Any, side: str = "left") -> Array:
        values = self.asarray(values)
        dtype = np.result_type(x.dtype, values.dtype)
        if ctype(dtype) not in SCANNED:
            raise Lacking(dtype.name)
        x, values = x.astype(dtype, copy=False).contiguous(), values.astype(dtype, copy=False).contiguous()
        out = self._call.empty(values.shape, np.int64)
        if out.size:
            numbers = np.int64(x.size), np.int64(out.size), np.int32(side == "right")
            self._launch(f"search_sorted<{ctype(dtype)}>", out.size, x, values, out, *numbers)
        return out

    def bincount(self, x: Array, weights: Any = None, minlength: int = 0) -> Array:
        """The numbers of 0 .. minlength - 1; larger ones are not counted."""
        if weights is not None or not minlength:
            raise Lacking("bincount of unknown length")
        ranked = self.take(x, self.argsort(x))
        ends = self.searchsorted(ranked, self.arange(minlength), "right")
        return ends - self.searchsorted(ranked, self.arange(minlength), "left")

    def pad(self, x: Array, pairs: Any, mode: str = "constant", constant_values: Any = 0) -> Array:
        if mode != "constant":
            raise Lacking(mode)
        out = self.full([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], constant_values, x.dtype)
        out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pairs, strict=True))] = x
        return out

    # Reductions

    def reduced(self, x: Array, axis: Any, join: str, keepdims: bool) -> Array:
        axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(a % x.ndim for a in _shape(axis)))
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        shape = kept if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in axes)
        if not math.prod(shape):
            return self._call.empty(shape, x.dtype)
        if not x.size:
            if join in ("Max", "Min"):
                raise Lacking("an extremum of no elements")
            return self.full(shape, int(join == "Prod"), x.dtype)
        if not axes or all(x.shape[a] == 1 for a in axes):
            return x.reshape(shape)
        ctype(x.dtype)
        wide = x if x.dtype.name in ("float32", "float64", "int32", "int64") else x.astype("int32")
        axes = tuple(a for a in axes if x.shape[a] != 1)
        made = reduction.reduce(self._call, wide.contiguous(), list(axes), join, 1).reshape(shape)
        return made.astype(x.dtype, copy=False)

    def sum(self, x: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        return x.sum(axis, dtype, keepdims)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.mean(axis, keepdims)

    def max(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.max(axis, keepdims)

    def min(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.min(axis, keepdims)

    def prod(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.prod(axis, keepdims)

    def any(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.any(axis, keepdims)

    def all(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return x.all(axis, keepdims)

    amax, amin = max, min

    def cumsum(self, x: Array, axis: int | None = None, dtype: Any = None) -> Array:
        return self._scanned(x, axis, "Sum", dtype)

    def cumprod(self, x: Array, axis: int | None = None, dtype: Any = None) -> Array:
        return self._scanned(x, axis, "Prod", dtype)

    def _scanned(self, x: Array, axis: int | None, join: str, dtype: Any) -> Array:
        x = x.reshape(-1) if axis is None else x
        axis = 0 if axis is None else axis % x.ndim
        if dtype is None and x.dtype.kind in "biu":
            dtype = np.int64
        x = (x if dtype is None else x.astype(dtype, copy=False)).contiguous()
        if ctype(x.dtype) not in SCANNED:
            raise Lacking(x.dtype.name)
        if not x.size:
            return x.copy()
        inner, n = math.prod(x.shape[axis + 1 :]), x.shape[axis]
        return self._scan(x, x.size // n, n, inner, join)

    def _scan(self, x: Array, runs: int, n: int, inner: int, join: str) -> Array:
        out, chunks = self._call.empty(x.shape, x.dtype), -(-n // _SCANNED)
        kernel = f"scan_runs<{ctype(x.dtype)}, {join}>"
        numbers = [*map(np.int64, (runs, n, inner, _SCANNED, chunks))]
        grid = min(runs * chunks, 1 << 20)
        carry: Any = _NULL
        if chunks > 1:
            totals = self._call.empty((runs, chunks), x.dtype)
            self._call.launch(UNIT, kernel, grid, 256, x, _NULL, _NULL, totals, *numbers)
            carry = self._scan(totals, runs, chunks, 1, join)
        self._call.launch(UNIT, kernel, grid, 256, x, carry, out, _NULL, *numbers)
        return out

    # Products

    def matmul(self, x: Array, y: Array) -> Array:
        return gemm.product(self._call, x, y)


def _shape(shape: Any) -> tuple:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
