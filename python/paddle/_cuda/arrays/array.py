"""Array: a view of device memory whose operations are launches of a call, with numpy's semantics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import strided
from ..conversion import convert
from ..units import KINDS, grid_of
from .kernels import COMPARED, ONE, TWO, UNIT, WORDS

_NULL = np.uint64(0)
#: dimensions of elementwise kernels
RANK = 6


class Lacking(Exception):
    """A function or an operand that these kernels do not have: the launcher runs without a recipe."""


def ctype(dtype: Any) -> str:
    """The C type of elements; Lacking for those that kernels do not compute with."""
    try:
        return KINDS[dtype.name]
    except KeyError:
        raise Lacking(dtype.name) from None


def word(dtype: Any) -> str:
    """The C type of elements that are only moved."""
    try:
        return WORDS[dtype.itemsize]
    except KeyError:
        raise Lacking(dtype.name) from None


def _merged(shape: tuple, strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """The dimensions with adjacent ones joined where all operands step through them evenly."""
    sizes: list[int] = []
    found: list[list[int]] = [[] for _ in strides]
    for i, n in enumerate(shape):
        if n == 1:
            continue
        own = [s[i] for s in strides]
        if sizes and all(f[-1] == n * s for f, s in zip(found, own, strict=True)):
            sizes[-1] *= n
            for f, s in zip(found, own, strict=True):
                f[-1] = s
        else:
            sizes.append(n)
            for f, s in zip(found, own, strict=True):
                f.append(s)
    return (sizes, found) if sizes else ([1], [[0] for _ in strides])


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def dtype_with(dtype: Any, value: Any) -> Any:
    """The data type of an operation of an array and a number (NEP 50)."""
    if isinstance(value, np.generic):
        return np.result_type(dtype, value.dtype)
    if isinstance(value, bool):
        return dtype
    if isinstance(value, int):
        return np.dtype("int64") if dtype.kind == "b" else dtype
    return dtype if dtype.kind in "fc" else np.dtype("float64")


def _operator(name: str, reverse: bool = False, compares: bool = False) -> Callable[[Any, Any], Any]:
    """A method of two operands."""
    return lambda self, other: self.two(name, other, reverse, compares)


def _update(name: str) -> Callable[[Any, Any], Any]:
    """A method that replaces the elements."""

    def update(self: Any, other: Any) -> Any:
        self[...] = self.two(name, other)
        return self

    return update


class Array:
    """A view `raw` of the machine's array type; `of` is the call."""

    __slots__ = ("of", "raw")
    __array_ufunc__ = None  # numpy's numbers leave operations to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, of: Any, raw: Any) -> None:
        self.of, self.raw = of, raw

    # What launchers and kernels read of an array.
    shape = property(lambda self: self.raw.shape)
    dtype = property(lambda self: self.raw.dtype)
    ndim = property(lambda self: self.raw.ndim)
    size = property(lambda self: self.raw.size)
    itemsize = property(lambda self: self.raw.dtype.itemsize)
    nbytes = property(lambda self: self.raw.nbytes)
    strides = property(lambda self: self.raw.strides)
    flags = property(lambda self: self.raw.flags)
    data = property(lambda self: self.raw.data)
    ctypes = property(lambda self: self.raw.ctypes)
    device = property(lambda self: self.raw.device)
    T = property(lambda self: self._view(self.raw.T))

    def __len__(self) -> int:
        return self.raw.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def _no(self, *_: Any, **__: Any) -> Any:
        raise Lacking("elements on the host")

    __bool__ = __int__ = __float__ = __index__ = __array__ = tolist = item = _no

    def _view(self, raw: Any) -> Array:
        return Array(self.of, raw)

    def steps(self, shape: tuple) -> list[int]:
        """The strides in elements when broadcast to `shape`."""
        lead = len(shape) - self.ndim
        own = [0 if n == 1 else s // self.itemsize for n, s in zip(self.shape, self.strides, strict=True)]
        return [0] * lead + own

    def first(self) -> Any:
        """A contiguous array of the first element, which is where kernels begin."""
        if not self.ndim or not self.size:
            return self.raw.reshape(-1)
        return self.raw[(slice(0, 1),) * self.ndim].reshape(1)

    def lowest(self) -> tuple[Any, int]:
        """A contiguous array of the element at the lowest address, and the place of the first element from there."""
        if not self.ndim:
            return self.first(), 0
        steps = self.steps(self.shape)
        key = tuple(slice(n - 1, n) if s < 0 else slice(0, 1) for n, s in zip(self.shape, steps, strict=True))
        return self.raw[key].reshape(1), -sum((n - 1) * s for n, s in zip(self.shape, steps, strict=True) if s < 0)

    # Views

    def __getitem__(self, key: Any) -> Array:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Array) or hasattr(k, "nbytes") and not isinstance(k, np.generic) for k in keys):
            return self._gathered(keys)
        if any(k is Ellipsis for k in keys):
            return self._view(self.raw[keys])
        return self._view(self.raw[(*keys, Ellipsis)])

    def _gathered(self, keys: tuple) -> Array:
        """Advanced indexing by integer arrays of the first dimensions."""
        keys = tuple(self.of.functions.asarray(k) for k in keys)
        if any(k.dtype.kind not in "iu" for k in keys):
            raise Lacking("a mask as an index")
        at, n = keys[0], self.shape[0]
        for k, size in zip(keys[1:], self.shape[1:], strict=False):
            at, n = at * size + k, n * size
        rest = self.shape[len(keys) :]
        return self.of.functions.take(self.reshape(n, *rest), at, axis=0)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, Array) or isinstance(key, tuple) and any(isinstance(k, Array) for k in key):
            raise Lacking("a place by index")
        to = self[key]
        self.of.written(to)
        source = self.of.functions.broadcast_to(self.of.functions.asarray(value, self.dtype), to.shape)
        _move(source, to)

    def contiguous(self) -> Array:
        if self.flags.c_contiguous:
            return self
        out = self.of.empty(self.shape, self.dtype)
        _move(self, out)
        return out

    def copy(self) -> Array:
        out = self.of.empty(self.shape, self.dtype)
        _move(self, out)
        return out

    def reshape(self, *shape: Any) -> Array:
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self._view(self.contiguous().raw.reshape(shape))

    def ravel(self) -> Array:
        return self.reshape(-1)

    def view(self, dtype: Any) -> Array:
        return self._view(self.contiguous().raw.view(dtype))

    def transpose(self, *axes: Any) -> Array:
        return self._view(self.raw.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Array:
        return self._view(self.raw.swapaxes(a, b))

    # Elementwise functions

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self.copy() if copy else self
        ctype(self.dtype), ctype(dtype)
        return convert(self.of, self, dtype)

    def one(self, name: str, dtype: Any = None) -> Array:
        x = self if dtype is None else self.astype(dtype, copy=False)
        if x.dtype.kind == "b" and name != "invert":
            raise Lacking(name)
        return mapped(self.of, "One", ctype(x.dtype), x.dtype, x.shape, [x], op=ONE[name])

    def two(self, name: str, other: Any, reverse: bool = False, compares: bool = False) -> Any:
        """An operation with an array or a number; `reverse`: that is the first operand."""
        if not is_number(other):
            if not hasattr(other, "dtype"):
                return NotImplemented
            other = self.of.functions.asarray(other)
            dtype = np.result_type(self.dtype, other.dtype)
        else:
            dtype = dtype_with(self.dtype, other)
        if name == "divide" and dtype.kind != "f":
            dtype = np.dtype("float64")
        if name == "subtract" and dtype.kind == "b":
            raise Lacking("a difference of bool")
        t = ctype(dtype)
        shape = self.shape if is_number(other) else np.broadcast_shapes(self.shape, other.shape)
        pair = [v if is_number(v) else v.astype(dtype, copy=False) for v in (self, other)]
        pair = pair[::-1] if reverse else pair
        numbers = tuple(dtype.type(v) if is_number(v) else dtype.type(0) for v in pair)
        operands = [None if is_number(v) else v for v in pair]
        kind, table = ("Comparison", COMPARED) if compares else ("Two", TWO)
        made = np.dtype("bool") if compares else dtype
        return mapped(self.of, kind, t, made, shape, operands, numbers, table[name])

    __add__, __radd__, __iadd__ = _operator("add"), _operator("add", True), _update("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _operator("subtract", True), _update("subtract")
    __mul__, __rmul__, __imul__ = _operator("multiply"), _operator("multiply", True), _update("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operator("divide"), _operator("divide", True), _update("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", True)
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", True)
    __pow__, __rpow__ = _operator("power"), _operator("power", True)
    __lshift__, __rlshift__ = _operator("left_shift"), _operator("left_shift", True)
    __rshift__, __rrshift__ = _operator("right_shift"), _operator("right_shift", True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", True)
    __lt__, __le__ = _operator("less", compares=True), _operator("less_equal", compares=True)
    __gt__, __ge__ = _operator("greater", compares=True), _operator("greater_equal", compares=True)
    __eq__ = _operator("equal", compares=True)  # type: ignore[assignment]
    __ne__ = _operator("not_equal", compares=True)  # type: ignore[assignment]

    def __neg__(self) -> Array:
        return self.one("negative")

    def __abs__(self) -> Array:
        return self.one("absolute") if self.dtype.kind in "if" else self

    def __invert__(self) -> Array:
        return self.one("invert")

    # Reductions

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        x = self if dtype is None else self.astype(dtype, copy=False)
        if x.dtype.kind in "biu" and dtype is None:
            x = x.astype("int64", copy=False)
        return self.of.functions.reduced(x, axis, "Sum", keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Array:
        total = self.sum(axis, self.dtype if self.dtype.kind == "f" else np.dtype("float64"), keepdims)
        return total / (self.size // max(total.size, 1))

    def max(self, axis: Any = None, keepdims: bool = False) -> Array:
        return self.of.functions.reduced(self, axis, "Max", keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Array:
        return self.of.functions.reduced(self, axis, "Min", keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Array:
        return self.of.functions.reduced(self, axis, "Prod", keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Array:
        return self.of.functions.reduced(self != 0, axis, "Max", keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Array:
        return self.of.functions.reduced(self != 0, axis, "Min", keepdims)

    def argmax(self, axis: Any = None) -> Array:
        return self.of.functions.argmax(self, axis)

    def argsort(self, axis: int = -1) -> Array:
        return self.of.functions.argsort(self, axis)

    def cumsum(self, axis: Any = None) -> Array:
        return self.of.functions.cumsum(self, axis)

    def flatten(self) -> Array:
        return self.copy().reshape(-1)


def _move(source: Array, to: Array) -> None:
    """Copies elements between arrays of one shape."""
    if to.size:
        (x, start), (out, at), shape = source.lowest(), to.lowest(), to.shape
        strided.move(to.of, x, out, shape, source.steps(shape), to.steps(shape), start, at)


def mapped(
    of: Any,
    kind: str,
    t: str,
    dtype: Any,
    shape: tuple,
    operands: Sequence[Any],
    numbers: tuple | None = None,
    op: int = 0,
) -> Array:
    """A new array of `shape` by map_elements of up to two operands of the C type `t` and a condition.

    Operands that are None are `numbers`.
    """
    out = of.empty(tuple(shape), dtype)
    if out.size == 0:
        return out
    operands = [*operands, None, None][:3]
    steps = [[0] * len(shape) if v is None else v.steps(tuple(shape)) for v in operands]
    sizes, steps = _merged(tuple(shape), steps)
    if len(sizes) > RANK:
        raise Lacking(f"{len(sizes)} dimensions")
    rank, sizes = len(sizes), sizes[1:] + [1] * (RANK - len(sizes))
    padded = [s + [0] * (RANK - len(s)) for s in steps]
    x, y, choice = (_NULL if v is None else v.first() for v in operands)
    sizes = [*sizes, *(s for p in padded for s in p)]
    numbers = (operands[0].dtype.type(0),) * 2 if numbers is None else numbers
    args = np.int32(op), choice, x, y, *numbers, out.raw, np.int64(out.size), np.int32(rank), *map(np.int64, sizes)
    kernel = f"map_elements<{kind}, {t}, {'bool' if kind == 'Comparison' else t}>"
    of.launch(UNIT, kernel, grid_of(out.size), 256, *args)
    return out


def unwrapped(value: Any) -> Any:
    """The machine's contiguous array."""
    return value.contiguous().raw if isinstance(value, Array) else value
