"""Element types: between numpy's, their names, and the VarType numbers of Paddle's files."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle._core as core

__all__: list[str] = []

VarType: Any = core.VarDesc.VarType

#: (VarType, name, numpy type); bfloat16 travels as uint16
_ROWS = [
    (VarType.BOOL, "bool", np.bool_),
    (VarType.FP16, "float16", np.float16),
    (VarType.BF16, "bfloat16", np.uint16),
    (VarType.FP32, "float32", np.float32),
    (VarType.FP64, "float64", np.float64),
    (VarType.INT8, "int8", np.int8),
    (VarType.INT16, "int16", np.int16),
    (VarType.INT32, "int32", np.int32),
    (VarType.INT64, "int64", np.int64),
    (VarType.UINT8, "uint8", np.uint8),
    (VarType.COMPLEX64, "complex64", np.complex64),
    (VarType.COMPLEX128, "complex128", np.complex128),
]
_FROM_NUMPY = {np.dtype(n): v for v, _, n in _ROWS}
_NAMES = {v: name for v, name, _ in _ROWS}
_FROM_NAME = {name: v for v, name, _ in _ROWS}
_NUMPY_OF = {v: np.dtype(n) for v, _, n in _ROWS}
_FLOATING = (VarType.FP16, VarType.BF16, VarType.FP32, VarType.FP64)


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
        return _FROM_NUMPY[dtype]
    except KeyError:
        raise ValueError(f"no element type goes with numpy's {dtype}") from None


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
        if dtype in _FROM_NUMPY:
            return dtype.name
    raise TypeError(
        "dtype must be any of [bool, float16, uint16, float32, float64, int8, int16, int32, int64, uint8, "
        f"bfloat16, complex64, complex128], but received {dtype!s:.200}"
    )


def to_numpy_dtype(dtype) -> np.dtype:
    """The numpy type that holds elements of `dtype` (uint16 for bfloat16)."""
    return _NUMPY_OF[convert_np_dtype_to_dtype_(dtype)]


def regular_array(values) -> np.ndarray | None:
    """Nested lists as an array, None where lists beside each other have different lengths (or hold no numbers)."""
    try:
        array = np.array(values)
    except ValueError:
        return None
    return None if array.dtype == object else array


def dtype_is_floating(dtype) -> bool:
    """Whether `dtype` (VarType, numpy type or name) is a floating-point type."""
    return convert_np_dtype_to_dtype_(dtype) in _FLOATING
