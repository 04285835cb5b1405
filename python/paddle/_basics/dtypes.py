"""Element types: conversion between numpy types, names, and the VarType numbers of Paddle's files."""

from __future__ import annotations

import functools
from typing import Any

import paddle._core as core
from paddle._basics import numpy as np

__all__: list[str] = []

VarType: Any = core.VarDesc.VarType

_NAMES = {
    VarType.BOOL: "bool",
    VarType.FP16: "float16",
    VarType.BF16: "bfloat16",
    VarType.FP32: "float32",
    VarType.FP64: "float64",
    VarType.INT8: "int8",
    VarType.INT16: "int16",
    VarType.INT32: "int32",
    VarType.INT64: "int64",
    VarType.UINT8: "uint8",
    VarType.COMPLEX64: "complex64",
    VarType.COMPLEX128: "complex128",
}
_FROM_NAME = {name: v for v, name in _NAMES.items()}
_FLOATING = (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64)


@functools.cache
def _numpy_of() -> dict[Any, np.dtype]:
    """The numpy type of each element type; bfloat16 is stored as uint16."""
    return {v: np.dtype("uint16" if v == VarType.BF16 else name) for v, name in _NAMES.items()}


@functools.cache
def _from_numpy() -> dict[np.dtype, Any]:
    return {n: v for v, n in _numpy_of().items()}


def convert_np_dtype_to_dtype_(np_dtype):
    """The VarType of a numpy type or of the name of one.

    Raises:
        ValueError: when Paddle has no such element type.

    Examples:
        >>> from paddle.fluid.framework import convert_np_dtype_to_dtype_
        >>> convert_np_dtype_to_dtype_("float32") == convert_np_dtype_to_dtype_("f4")
        True
    """
    if isinstance(np_dtype, VarType):
        return np_dtype
    if isinstance(np_dtype, str) and np_dtype in _FROM_NAME:
        return _FROM_NAME[np_dtype]
    dtype = np.dtype(np_dtype)
    try:
        return _from_numpy()[dtype]
    except KeyError:
        raise ValueError(f"Paddle has no element type for the numpy type {dtype}") from None


def convert_dtype(dtype) -> str:
    """The name of an element type given as VarType, numpy type or name: ``"float32"``, ``"bfloat16"``, ...

    Raises:
        TypeError: for anything else.

    Examples:
        >>> import numpy as np
        >>> from paddle.fluid.data_feeder import convert_dtype
        >>> convert_dtype(np.float32), convert_dtype("int64")
        ('float32', 'int64')
    """
    if isinstance(dtype, VarType):
        if dtype in _NAMES:
            return _NAMES[dtype]
    elif isinstance(dtype, (str, bytes)):
        name = dtype.decode() if isinstance(dtype, bytes) else dtype
        if name in _FROM_NAME or name == "uint16":
            return name
    elif dtype is bool:
        return "bool"
    elif isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        dtype = np.dtype(dtype)
        if dtype in _from_numpy():
            return dtype.name
    raise TypeError(
        "dtype must be any of [bool, float16, uint16, float32, float64, int8, int16, int32, int64, uint8, "
        f"bfloat16, complex64, complex128], but received {dtype!s:.200}"
    )


def to_numpy_dtype(dtype) -> np.dtype:
    """The numpy type that holds elements of `dtype` (uint16 for bfloat16)."""
    return _numpy_of()[convert_np_dtype_to_dtype_(dtype)]


def regular_array(values) -> np.ndarray | None:
    """Nested lists as an array; None for ragged lists, and for items that are no numbers."""
    try:
        array = np.array(values)
    except ValueError:
        return None
    return None if array.dtype == object else array


def why_irregular(values) -> str:
    """Why `regular_array` makes no array of `values`, for errors: the first item that is no number, or the lengths."""
    rest = [values]
    while rest:
        item = rest.pop()
        if isinstance(item, (list, tuple)):
            rest.extend(reversed(item))
        elif item is None or isinstance(item, (str, bytes, set, dict)):
            return f"it holds {item!r}, which is no number"
        elif isinstance(item, int) and not -(1 << 63) <= item < 1 << 63:
            return f"it holds {item}, which int64 does not"
    return "it holds nested lists with different lengths"


def dtype_is_floating(dtype) -> bool:
    """Whether `dtype` (VarType, numpy type or name) is a floating-point type."""
    return convert_np_dtype_to_dtype_(dtype) in _FLOATING


#: numpy converts an object with this attribute: `np.zeros(2, x.dtype)`.
VarType.dtype = property(to_numpy_dtype)


class _TypeText(str):
    """The text of a VarType ("VarType.FP32"), of which packages take the last part for the type's name, which it is in
    later versions ("paddle.float32")."""

    __slots__ = ()

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        parts = super().split(sep, maxsplit)
        name = _FROM_PROTO_NAME.get(parts[-1]) if sep == "." and len(parts) > 1 else None
        return parts if name is None else [*parts[:-1], name]


_FROM_PROTO_NAME = {v.name: name for v, name in _NAMES.items()}
_TEXTS = {v: _TypeText(repr(v)) for v in _NAMES}


def _text(self: Any) -> str:
    return _TEXTS.get(self) or repr(self)


VarType.__str__ = _text
