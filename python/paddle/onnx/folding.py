"""Nodes whose inputs are constants, computed during export: sizes, and rearranged weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["fold"]

Arrays = list[Any]


def _slice(inputs: Arrays, attrs: dict) -> np.ndarray:
    data, starts, ends, *rest = inputs
    axes = rest[0] if rest and rest[0] is not None else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        start, end, step = int(start), int(end), int(step)
        index[int(axis)] = slice(start, None if step < 0 and end < -data.shape[int(axis)] else end, step)
    return data[tuple(index)]


def _reshape(inputs: Arrays, attrs: dict) -> np.ndarray:
    data, shape = inputs
    return data.reshape([data.shape[i] if n == 0 else int(n) for i, n in enumerate(shape)])


def _divide(inputs: Arrays, attrs: dict) -> np.ndarray:
    x, y = inputs
    # ONNX divides integers as C does
    return np.trunc(x / y).astype(x.dtype) if x.dtype.kind == "i" else x / y


def _unsqueeze(inputs: Arrays, attrs: dict) -> np.ndarray:
    axes: Any = attrs.get("axes", inputs[1] if len(inputs) > 1 else ())
    return np.expand_dims(inputs[0], tuple(int(a) for a in axes))


def _squeeze(inputs: Arrays, attrs: dict) -> np.ndarray:
    axes: Any = attrs.get("axes", inputs[1] if len(inputs) > 1 else None)
    return np.squeeze(inputs[0], None if axes is None else tuple(int(a) for a in axes))


def _arithmetic(function: Callable[..., Any]) -> Callable[[Arrays, dict], Any]:
    return lambda inputs, attrs: function(*inputs).astype(inputs[0].dtype)


_FOLDED: dict[str, Callable[[Arrays, dict], Any]] = {
    "Add": _arithmetic(np.add),
    "Sub": _arithmetic(np.subtract),
    "Mul": _arithmetic(np.multiply),
    "Div": _divide,
    "Cast": lambda inputs, attrs: None if attrs["numpy"] is None else inputs[0].astype(attrs["numpy"]),
    "Concat": lambda inputs, attrs: np.concatenate(inputs, attrs["axis"]),
    "Gather": lambda inputs, attrs: np.take(inputs[0], inputs[1], attrs.get("axis", 0)),
    "Identity": lambda inputs, attrs: inputs[0],
    "Reshape": _reshape,
    "Shape": lambda inputs, attrs: np.array(inputs[0].shape, "int64"),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": lambda inputs, attrs: np.transpose(inputs[0], attrs.get("perm")),
    "Unsqueeze": _unsqueeze,
}

#: bytes of the largest array that a fold makes of a smaller one
_LARGE = 1 << 28


def fold(kind: str, inputs: Arrays, attrs: dict) -> np.ndarray | None:
    """The value of a node of these arrays; None where it is not computed during export."""
    function = _FOLDED.get(kind)
    if function is None or any(array is None for array in inputs):
        return None
    if math.prod(inputs[0].shape) * inputs[0].itemsize > _LARGE:
        return None
    made = function(inputs, attrs)
    if made is None:
        return None
    result = np.asarray(made)
    return np.ascontiguousarray(result).reshape(result.shape)
