"""Files in the safetensors format: names, types, shapes and bytes of arrays, without code.

A file is 8 bytes with the header's length, the header as JSON, and the bytes of all arrays without gaps.
Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

import paddle._core as _core

from .atomic_files import atomic_file, where

__all__: list[str] = []

SUFFIX = ".safetensors"

#: The format's names of types; bfloat16 arrays are the bits, as everywhere in Paddle.
_TYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "uint16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
_NAMES = {name: code for code, name in _TYPES.items()}

#: The longest header, as the format's reference limits it.
_LONGEST = 100_000_000


def is_path(path: Any) -> bool:
    """Whether a file name ends in ".safetensors"."""
    return isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(SUFFIX)


def _array(name: Any, value: Any) -> np.ndarray:
    if not isinstance(name, str):
        raise TypeError(f"save: names in a safetensors file must be str, got {type(name).__name__}")
    if isinstance(value, (_core.Tensor, _core.LoDTensor)):
        value = np.array(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            f"save: a safetensors file holds arrays only, but obj[{name!r}] is a {type(value).__name__}; save other "
            "state to a .pdparams or .pdopt file"
        )
    array = np.asarray(value)
    if array.dtype.name not in _NAMES:
        raise TypeError(f"save: obj[{name!r}] has the type {array.dtype}, which safetensors does not have")
    little = array.dtype.newbyteorder("<")
    return np.ascontiguousarray(array, little).reshape(array.shape)


def save(obj: dict, path: Any, metadata: dict[str, str] | None = None) -> None:
    """Writes a dict from names to Tensors or arrays.

    Raises:
        TypeError: for other values, and for names that are no text.
    """
    arrays = {name: _array(name, value) for name, value in obj.items()}
    # By the size of an element, as the reference writes them: every array is aligned.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": metadata or {"format": "pd"}}
    end = 0
    for name in order:
        array = arrays[name]
        start, end = end, end + array.nbytes
        code = _NAMES[array.dtype.name]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(os.fspath(path)) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(memoryview(arrays[name]).cast("B") if arrays[name].size else b"")  # type: ignore[arg-type]


def _refuse(path: str, why: str) -> ValueError:
    return ValueError(f"load: {path} is no safetensors file: {why}")


def _header(file: Any, path: str) -> tuple[dict, int]:
    whole = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(_LONGEST, whole - 8):
        raise _refuse(path, f"its header has {length} bytes, and the file {whole}")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise _refuse(path, f"its header is no JSON ({type(error).__name__}: {str(error)[:100]})") from None
    if not isinstance(header, dict):
        raise _refuse(path, "its header is no JSON object")
    header.pop("__metadata__", None)
    return header, whole - 8 - length


def _entry(path: str, name: str, entry: Any, room: int) -> tuple[np.dtype, list[int], int, int]:
    try:
        code, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, end]
    except (KeyError, TypeError, ValueError):
        raise _refuse(path, f"the entry of {name!r} lacks dtype, shape or data_offsets") from None
    if not all(type(n) is int and n >= 0 for n in numbers) or not start <= end <= room:
        raise _refuse(path, f"shape {shape} and data_offsets [{start}, {end}] of {name!r}, {room} bytes of data")
    if code not in _TYPES:
        raise TypeError(f"load: {path}: {name!r} has the type {code!s:.50}, which no tensor has")
    dtype = np.dtype(_TYPES[code])
    if math.prod(shape) * dtype.itemsize != end - start:
        raise _refuse(path, f"{name!r} of shape {shape} and type {code} has {end - start} bytes")
    return dtype, shape, start, end


def load(path: Any) -> dict[str, np.ndarray]:
    """The arrays of a file, by name.

    Raises:
        ValueError: for a file that is damaged or of another format. TypeError: for an element type no tensor has.
    """
    path = os.fspath(path)
    with open(where(path), "rb") as file:
        header, room = _header(file, path)
        entries = {name: _entry(path, name, entry, room) for name, entry in header.items()}
        base = file.tell()
        arrays = {}
        for name, (dtype, shape, start, end) in entries.items():
            array = np.empty(shape, dtype.newbyteorder("<"))
            file.seek(base + start)
            if array.size and file.readinto(memoryview(array).cast("B")) != end - start:  # type: ignore[arg-type]
                raise _refuse(path, f"it ends within {name!r}")
            arrays[name] = array.astype(dtype, copy=False)
        return arrays
