"""Element types and places of predictors' tensors, and the version of the package."""

from __future__ import annotations

import enum

import numpy as np

from paddle import version
from paddle._basics.dtypes import VarType
from paddle.static.predictor import ARRAY_TYPES, PaddleDType

__all__ = [
    "DataType",
    "PlaceType",
    "data_type_of",
    "get_num_bytes_of_data_type",
    "get_version",
    "paddle_dtype_size",
]

DataType = PaddleDType


class PlaceType(enum.IntEnum):
    """Where the elements of a tensor are; predictors run on the CPU."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2


_OF_VARIABLES = {
    VarType.FP32: DataType.FLOAT32,
    VarType.INT64: DataType.INT64,
    VarType.INT32: DataType.INT32,
    VarType.UINT8: DataType.UINT8,
    VarType.INT8: DataType.INT8,
    VarType.FP16: DataType.FLOAT16,
    VarType.BOOL: DataType.BOOL,
    VarType.FP64: DataType.FLOAT64,
}


def data_type_of(dtype: VarType) -> PaddleDType:
    """The DataType of a variable's element type; FLOAT32 for a type that DataType lacks, as in Paddle."""
    return _OF_VARIABLES.get(dtype, DataType.FLOAT32)


def get_num_bytes_of_data_type(dtype: PaddleDType) -> int:
    """The number of bytes of an element.

    Args:
        dtype (DataType): the element type.

    Raises:
        TypeError: for anything but a DataType.

    Examples:
        >>> from paddle.inference import DataType, get_num_bytes_of_data_type
        >>> get_num_bytes_of_data_type(DataType.INT64)
        8
    """
    if not isinstance(dtype, DataType):
        raise TypeError(f"get_num_bytes_of_data_type: dtype must be a DataType, got {type(dtype)}")
    return np.dtype(ARRAY_TYPES[dtype]).itemsize


paddle_dtype_size = get_num_bytes_of_data_type


def get_version() -> str:
    """The version of the package, and the commit that it was built from.

    Examples:
        >>> from paddle.inference import get_version
        >>> "version" in get_version()
        True
    """
    return f"version: {version.full_version}\ncommit: {version.commit}\nbranch: HEAD\n"
