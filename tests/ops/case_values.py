"""Values of operator cases: random arrays, and conversion to and from engine tensors."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from paddle import _core

# The complex type of a real type.
COMPLEX = {"float32": "complex64", "float64": "complex128"}


@dataclass
class Rows:
    """A SelectedRows input: row ``rows[i]`` of ``height`` is ``values[i]``."""

    rows: list[int]
    height: int
    values: np.ndarray

    def dense(self) -> np.ndarray:
        out = np.zeros((self.height, *self.values.shape[1:]), self.values.dtype)
        np.add.at(out, self.rows, self.values)
        return out


def rng(*key: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def real(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Random numbers; ``seed`` distinguishes several arrays of one shape."""
    return rng("real", shape, seed).uniform(low, high, shape).astype(dtype)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """Random complex128 numbers with absolute value of at least 0.5."""
    r = rng("complexes", shape, seed)
    return r.uniform(0.5, 2.0, shape) * np.exp(1j * r.uniform(-np.pi, np.pi, shape))


def apart(*shape: int, step: float = 0.1, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Numbers around 0 with distances of at least ``step``, and ``step / 2`` from 0, in random order."""
    n = int(np.prod(shape))
    values = (np.arange(n) - n // 2 + 0.5) * step
    return rng("apart", shape, seed).permutation(values).reshape(shape).astype(dtype)


def ints(*shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: str = "int64") -> np.ndarray:
    """Random integers of [low, high)."""
    return rng("ints", shape, seed).integers(low, high, shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> np.ndarray:
    return rng("bools", shape, seed).integers(0, 2, shape).astype(bool)


# Conversion to and from the engine


def lod_tensor(array: np.ndarray, lod: list[list[int]]) -> Any:
    t = _core.LoDTensor()
    t.set(array, None)
    t.set_lod(lod)
    return t


def to_eager(value: Any, lod: list[list[int]] | None = None, stop: bool = True) -> Any:
    if isinstance(value, list):
        return [to_eager(v, lod, stop) for v in value]
    if isinstance(value, Rows):
        t = _core.Tensor()
        fill_rows(t.value().get_selected_rows(), value)
    else:
        t = _core.Tensor(lod_tensor(value, lod) if lod else value)
    t.stop_gradient = stop
    return t


def fill_rows(held: Any, value: Rows) -> None:
    held.set_rows(value.rows)
    held.set_height(value.height)
    held.get_tensor().set(value.values, None)


def from_eager(t: Any) -> Any:
    if t is None or isinstance(t, list | tuple):
        return t if t is None else [from_eager(v) for v in t]
    if t._is_sparse():
        rows = t.value().get_selected_rows()
        return Rows(list(rows.rows()), rows.height(), np.array(rows.get_tensor()))
    return t.numpy()


def dense(value: Any) -> Any:
    return value.dense() if isinstance(value, Rows) else value


def is_inexact(value: Any) -> bool:
    """Whether it is real or complex, or a list of such arrays."""
    if isinstance(value, list):
        return bool(value) and is_inexact(value[0])
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc"


def of_kind(kind: str, dtype: Any) -> np.dtype:
    """The real (``f``) or complex (``c``) type with the precision of ``dtype``."""
    real = np.zeros(0, dtype).real.dtype
    return np.dtype(COMPLEX[real.name]) if kind == "c" else real


def cast(inputs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The inputs in another data type; indices and masks of a floating-point case are unchanged."""
    any_real = any(is_inexact(v) for v in inputs.values())

    def one(v: Any) -> Any:
        if isinstance(v, list):
            return [one(x) for x in v]
        if isinstance(v, Rows):
            return Rows(v.rows, v.height, v.values.astype(dtype))
        if is_inexact(v):
            return v.astype(of_kind(v.dtype.kind, dtype))
        return v if any_real else v.astype(dtype)

    return {k: one(v) for k, v in inputs.items()}
