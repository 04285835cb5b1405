"""Bitwise functions, complex views, distances and segments of Paddle 2.1 to 2.6."""

from __future__ import annotations

from typing import Any

import numpy as np

import paddle
import paddle._ops as _ops
from paddle._basics.dtypes import convert_dtype

from .host import Host, call

__all__: list[str] = []

_INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def _bitwise(name: str, x: Any, y: Any = None) -> Any:
    operands = [x] if y is None else [x, y]
    types = [convert_dtype(v.dtype) for v in operands]
    for argument, dtype in zip("xy", types, strict=False):
        if dtype not in _INTEGERS:
            raise TypeError(f"{name}: {argument} must be bool or an integer type, got {dtype}")
    if len(set(types)) > 1:
        raise TypeError(f"{name}: x and y must have one type, got {' and '.join(types)}")
    shape = list(x.shape) if y is None else paddle.broadcast_shape(list(x.shape), list(y.shape))
    function = {"not": "invert"}.get(name.removeprefix("bitwise_"), name)
    return call(Host(name, _HOSTS[function]), operands, [(shape, types[0])])[0]


def _hosted(function: Any) -> Any:
    return lambda *arrays: [function(*arrays)]


_HOSTS = {name: _hosted(getattr(np, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")}


def _into(out: Any, result: Any) -> Any:
    return result if out is None else paddle.assign(result, out)


def bitwise_and(x, y, out=None, name=None):
    """The bits that both operands have.

    Args:
        x, y (Tensor): bool or integers of one type, broadcast to one shape.
        out (Tensor, optional): receives the result.
        name (str, optional): ignored.

    Raises:
        TypeError: for other types.

    Examples:
        >>> import paddle
        >>> paddle.bitwise_and(paddle.to_tensor([6, 5]), paddle.to_tensor([3])).tolist()
        [2, 1]
    """
    return _into(out, _bitwise("bitwise_and", x, y))


def bitwise_or(x, y, out=None, name=None):
    """The bits that one of the operands has.

    Args:
        x, y (Tensor): bool or integers of one type, broadcast to one shape.
        out (Tensor, optional): receives the result.
        name (str, optional): ignored.

    Raises:
        TypeError: for other types.

    Examples:
        >>> import paddle
        >>> paddle.bitwise_or(paddle.to_tensor([6, 5]), paddle.to_tensor([3])).tolist()
        [7, 7]
    """
    return _into(out, _bitwise("bitwise_or", x, y))


def bitwise_xor(x, y, out=None, name=None):
    """The bits that exactly one of the operands has.

    Args:
        x, y (Tensor): bool or integers of one type, broadcast to one shape.
        out (Tensor, optional): receives the result.
        name (str, optional): ignored.

    Raises:
        TypeError: for other types.

    Examples:
        >>> import paddle
        >>> paddle.bitwise_xor(paddle.to_tensor([6, 5]), paddle.to_tensor([3])).tolist()
        [5, 6]
    """
    return _into(out, _bitwise("bitwise_xor", x, y))


def bitwise_not(x, out=None, name=None):
    """The bits that `x` does not have.

    Args:
        x (Tensor): bool or integers.
        out (Tensor, optional): receives the result.
        name (str, optional): ignored.

    Raises:
        TypeError: for other types.

    Examples:
        >>> import paddle
        >>> paddle.bitwise_not(paddle.to_tensor([0, 5])).tolist()
        [-1, -6]
    """
    return _into(out, _bitwise("bitwise_not", x))


def _pairs(x: np.ndarray) -> list:
    return [np.ascontiguousarray(x).view("complex128" if x.dtype == "float64" else "complex64")[..., 0]]


def _parts(x: np.ndarray) -> list:
    return [np.stack([x.real, x.imag], -1)]


_AS_COMPLEX = Host("as_complex", _pairs, lambda _inputs, _outputs, grads: _parts(grads[0]))
_AS_REAL = Host("as_real", _parts, lambda _inputs, _outputs, grads: _pairs(grads[0]))


def as_complex(x, name=None):
    """Pairs of real and imaginary parts, along the last axis, as complex numbers.

    Args:
        x (Tensor): float32 or float64, shape [..., 2].
        name (str, optional): ignored.

    Returns:
        Tensor: complex64 or complex128, shape [...].

    Raises:
        TypeError: for another type. ValueError: for a last axis that has not 2 elements.

    Examples:
        >>> import paddle
        >>> paddle.as_complex(paddle.to_tensor([[1.0, 2.0]])).tolist()
        [(1+2j)]
    """
    dtype = convert_dtype(x.dtype)
    if dtype not in ("float32", "float64"):
        raise TypeError(f"as_complex: x must be float32 or float64, got {dtype}")
    if not x.shape or x.shape[-1] != 2:
        raise ValueError(f"as_complex: the last axis of x must have 2 elements, got shape {list(x.shape)}")
    return call(_AS_COMPLEX, [x], [(list(x.shape[:-1]), "complex64" if dtype == "float32" else "complex128")])[0]


def as_real(x, name=None):
    """Complex numbers as pairs of real and imaginary parts, along a new last axis.

    Args:
        x (Tensor): complex64 or complex128.
        name (str, optional): ignored.

    Returns:
        Tensor: float32 or float64, shape [..., 2].

    Raises:
        TypeError: for another type.

    Examples:
        >>> import paddle
        >>> paddle.as_real(paddle.as_complex(paddle.to_tensor([[1.0, 2.0]]))).tolist()
        [[1.0, 2.0]]
    """
    dtype = convert_dtype(x.dtype)
    if dtype not in ("complex64", "complex128"):
        raise TypeError(f"as_real: x must be complex64 or complex128, got {dtype}")
    return call(_AS_REAL, [x], [([*x.shape, 2], "float32" if dtype == "complex64" else "float64")])[0]


def cdist(x, y, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary", name=None):
    """The distances of all pairs of rows by the p-norm.

    Args:
        x (Tensor): float32 or float64, shape [..., P, M].
        y (Tensor): shape [..., R, M].
        p (float): 0 or more; 0 counts the differences.
        compute_mode (str): accepted as in 2.6; differences are always formed, which loses no digits.
        name (str, optional): ignored.

    Returns:
        Tensor: shape [..., P, R].

    Raises:
        ValueError: for a negative p, another compute_mode, rows of different lengths.

    Examples:
        >>> import paddle
        >>> paddle.cdist(paddle.to_tensor([[0.0, 0.0]]), paddle.to_tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [[5.0, 1.0]]
    """
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode not in modes:
        raise ValueError(f"cdist: compute_mode must be one of {', '.join(modes)}, got {compute_mode!r}")
    if p < 0:
        raise ValueError(f"cdist: p must not be negative, got {p}")
    if min(len(x.shape), len(y.shape)) < 2 or x.shape[-1] != y.shape[-1]:
        raise ValueError(f"cdist: x and y must be [..., P, M] and [..., R, M], got {list(x.shape)} and {list(y.shape)}")
    differences = paddle.unsqueeze(x, [-2]) - paddle.unsqueeze(y, [-3])
    if p == 0:
        return paddle.sum(paddle.cast(differences != 0, x.dtype), axis=-1)
    if p == 1:
        return paddle.sum(paddle.abs(differences), axis=-1)
    return paddle.norm(differences, p=p, axis=-1)


def _segments(kind: str, data: Any, segment_ids: Any) -> Any:
    return _ops.segment_pool(data, segment_ids, pooltype=kind)[0]


def segment_sum(data, segment_ids, name=None):
    """The sums of the rows with one id.

    Args:
        data (Tensor): float32 or float64, shape [rows, ...].
        segment_ids (Tensor): int32 or int64, shape [rows], sorted.
        name (str, optional): ignored.

    Returns:
        Tensor: shape [largest id + 1, ...].

    Examples:
        >>> import paddle
        >>> paddle.incubate.segment_sum(paddle.to_tensor([1.0, 2.0, 4.0]), paddle.to_tensor([0, 0, 1])).tolist()
        [3.0, 4.0]
    """
    return _segments("SUM", data, segment_ids)


def segment_mean(data, segment_ids, name=None):
    """The means of the rows with one id; arguments as in `segment_sum`.

    Examples:
        >>> import paddle
        >>> paddle.incubate.segment_mean(paddle.to_tensor([1.0, 2.0, 4.0]), paddle.to_tensor([0, 0, 1])).tolist()
        [1.5, 4.0]
    """
    return _segments("MEAN", data, segment_ids)


def segment_max(data, segment_ids, name=None):
    """The largest elements of the rows with one id; arguments as in `segment_sum`.

    Examples:
        >>> import paddle
        >>> paddle.incubate.segment_max(paddle.to_tensor([1.0, 2.0, 4.0]), paddle.to_tensor([0, 0, 1])).tolist()
        [2.0, 4.0]
    """
    return _segments("MAX", data, segment_ids)


def segment_min(data, segment_ids, name=None):
    """The smallest elements of the rows with one id; arguments as in `segment_sum`.

    Examples:
        >>> import paddle
        >>> paddle.incubate.segment_min(paddle.to_tensor([1.0, 2.0, 4.0]), paddle.to_tensor([0, 0, 1])).tolist()
        [1.0, 4.0]
    """
    return _segments("MIN", data, segment_ids)


def softmax_mask_fuse_upper_triangle(x):
    """Softmax over the last axis, where element j of row i counts for j <= i only.

    Args:
        x (Tensor): floating, shape [..., rows, columns].

    Examples:
        >>> import paddle
        >>> paddle.incubate.softmax_mask_fuse_upper_triangle(paddle.zeros([1, 1, 2, 2]))[0, 0, 1].tolist()
        [0.5, 0.5]
    """
    above = paddle.triu(paddle.full(list(x.shape[-2:]), -1e4, convert_dtype(x.dtype)), 1)
    return paddle.nn.functional.softmax(x + above, axis=-1)


def softmax_mask_fuse(x, mask, name=None):
    """Softmax of `x + mask` over the last axis.

    Args:
        x (Tensor): floating, shape [batch, heads, rows, columns].
        mask (Tensor): shape [batch, 1, rows, columns]: 0, or a large negative number for what does not count.
        name (str, optional): ignored.

    Examples:
        >>> import paddle
        >>> mask = paddle.to_tensor([[[[0.0, -10000.0]]]])
        >>> paddle.incubate.softmax_mask_fuse(paddle.zeros([1, 1, 1, 2]), mask).round().tolist()
        [[[[1.0, 0.0]]]]
    """
    return paddle.nn.functional.softmax(x + mask, axis=-1)
