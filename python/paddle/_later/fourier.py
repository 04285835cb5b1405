"""Discrete Fourier transforms over several axes, computed by numpy, with their gradients (`paddle.fft`)."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import convert_dtype

from .host import Host, call

__all__: list[str] = []

# The inverse transform with this norm has the same factor as the transform with that one, and vice versa.
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_REAL = {v: k for k, v in _COMPLEX.items()}


def _c2c(x, *, sizes, axes, norm, inverse):
    return [(np.fft.ifftn if inverse else np.fft.fftn)(x, sizes, axes, norm)]


def _resized(array: np.ndarray, sizes: Any, axes: Any) -> np.ndarray:
    """Cropped, or padded with zeros, to `sizes` along `axes`."""
    for size, axis in zip(sizes, axes, strict=True):
        have = array.shape[axis]
        if have > size:
            array = np.take(array, np.arange(size), axis)
        elif have < size:
            width = [(0, 0)] * array.ndim
            width[axis] = (0, size - have)
            array = np.pad(array, width)
    return array


def _c2c_grad(inputs, outputs, grads, *, sizes, axes, norm, inverse):
    (x,), (g,) = inputs, grads
    back = (np.fft.fftn if inverse else np.fft.ifftn)(g, None, axes, SWAPPED[norm])
    return [_resized(back, [x.shape[a] for a in axes], axes)]


def _r2c(x, *, sizes, axes, norm):
    return [np.fft.rfftn(x, sizes, axes, norm)]


def _r2c_grad(inputs, outputs, grads, *, sizes, axes, norm):
    (x,), (g,) = inputs, grads
    last = x.shape[axes[-1]] if sizes is None else sizes[-1]
    back = np.fft.ifftn(_resized(g, [last], axes[-1:]), None, axes, SWAPPED[norm]).real
    return [_resized(back, [x.shape[a] for a in axes], axes)]


def _c2r(x, *, sizes, axes, norm):
    return [np.fft.irfftn(x, sizes, axes, norm)]


def _c2r_grad(inputs, outputs, grads, *, sizes, axes, norm):
    (x,), (g,) = inputs, grads
    back = np.fft.rfftn(g, None, axes, SWAPPED[norm])
    n, half = g.shape[axes[-1]], back.shape[axes[-1]]
    # Each coefficient but the first, and the middle one of an even size, stands for its conjugate too.
    weights = np.full(half, 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    shape = [1] * g.ndim
    shape[axes[-1]] = half
    return [_resized(back * weights.reshape(shape), [x.shape[a] for a in axes], axes)]


_C2C = Host("fft_c2c", _c2c, _c2c_grad)
_R2C = Host("fft_r2c", _r2c, _r2c_grad)
_C2R = Host("fft_c2r", _c2r, _c2r_grad)


def _arguments(function: str, x: Any, s: Any, axes: Any, norm: str) -> tuple:
    """The checked sizes and axes, and the input with a type that has a complex counterpart."""
    if norm not in SWAPPED:
        raise ValueError(f"{function}: norm must be 'forward', 'backward' or 'ortho', got {norm!r}")
    rank = len(x.shape)
    if s is not None:
        s = tuple(int(n) for n in s)
        if any(n < 1 for n in s):
            raise ValueError(f"{function}: the sizes must be positive, got {list(s)}")
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    given, axes = list(axes), []
    for axis in given:
        if not -rank <= axis < rank:
            raise ValueError(f"{function}: axes must lie in [{-rank}, {rank}), got {given}")
        axes.append(axis % rank)
    if len(set(axes)) != len(axes) or not axes:
        raise ValueError(f"{function}: axes must differ and be at least one, got {given}")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{function}: s has {len(s)} sizes and axes {len(axes)}; the numbers must be equal")
    dtype = convert_dtype(x.dtype)
    if dtype not in _COMPLEX and dtype not in _REAL:
        if dtype in ("float16", "bfloat16"):
            raise TypeError(f"{function}: x must be float32, float64, complex64, complex128 or integers, got {dtype}")
        x = paddle.cast(x, get_default_dtype())
    return x, s, tuple(axes)


def _shape(x: Any, sizes: Any, axes: tuple) -> list[int]:
    shape = list(x.shape)
    for size, axis in zip(sizes or [shape[a] for a in axes], axes, strict=True):
        shape[axis] = size
    return shape


def complex_transform(function: str, x: Any, s: Any, axes: Any, norm: str, inverse: bool) -> Any:
    x, sizes, axes = _arguments(function, x, s, axes, norm)
    dtype = convert_dtype(x.dtype)
    x = paddle.cast(x, _COMPLEX[dtype]) if dtype in _COMPLEX else x
    outputs = [(_shape(x, sizes, axes), convert_dtype(x.dtype))]
    return call(_C2C, [x], outputs, sizes=sizes, axes=axes, norm=norm, inverse=inverse)[0]


def real_transform(function: str, x: Any, s: Any, axes: Any, norm: str) -> Any:
    x, sizes, axes = _arguments(function, x, s, axes, norm)
    dtype = convert_dtype(x.dtype)
    if dtype in _REAL:
        raise TypeError(f"{function}: x must be real, got {dtype}")
    shape = _shape(x, sizes, axes)
    last = shape[axes[-1]]
    shape[axes[-1]] = last // 2 + 1 if last >= 0 else -1
    return call(_R2C, [x], [(shape, _COMPLEX[dtype])], sizes=sizes, axes=axes, norm=norm)[0]


def to_real(function: str, x: Any, s: Any, axes: Any, norm: str) -> Any:
    x, sizes, axes = _arguments(function, x, s, axes, norm)
    dtype = convert_dtype(x.dtype)
    x = paddle.cast(x, _COMPLEX[dtype]) if dtype in _COMPLEX else x
    shape = _shape(x, sizes, axes)
    last = shape[axes[-1]]
    if sizes is None:
        if last == 1:
            raise ValueError(f"{function}: the size of the result, 2 * (1 - 1), is not positive; pass it")
        shape[axes[-1]] = 2 * (last - 1) if last >= 0 else -1
    return call(_C2R, [x], [(shape, _REAL[convert_dtype(x.dtype)])], sizes=sizes, axes=axes, norm=norm)[0]


def one(n: Any) -> Any:
    return None if n is None else [n]


def pair(function: str, x: Any, s: Any, axes: Any) -> None:
    if len(x.shape) < 2:
        raise ValueError(f"{function}: x must have at least 2 dimensions, got {len(x.shape)}")
    if axes is None or len(axes) != 2 or s is not None and len(s) != 2:
        raise ValueError(f"{function}: axes and s must have two items, got {axes} and {s}")
