"""paddle.complex of 1.8: functions of ComplexVariables. Tensors of 2.0 have complex data types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle._core as core
from paddle import _ops
from paddle._basics.dtypes import VarType
from paddle._programs.variable import Variable
from paddle.fluid.complex_variable import ComplexVariable
from paddle.tensor import linalg

from . import layers as _layers

layers: Any = _layers  # some functions are made from tables

__all__ = [
    "elementwise_add",
    "elementwise_div",
    "elementwise_mul",
    "elementwise_sub",
    "kron",
    "matmul",
    "reshape",
    "sum",
    "trace",
    "transpose",
]


def _parts(x: Any, name: str, function: str) -> tuple[Any, Any]:
    """The real and the imaginary part, None where it is zero."""
    if isinstance(x, ComplexVariable):
        return x.real, x.imag
    if not isinstance(x, (core.Tensor, Variable)):
        kind = type(x).__name__
        raise TypeError(f"paddle.complex.{function}: {name} must be a ComplexVariable or a Tensor, got {kind}")
    if x.dtype in (VarType.COMPLEX64, VarType.COMPLEX128):
        return _ops.real(x), _ops.imag(x)
    return x, None


def _either(a: Any, b: Any, function: Callable[[Any, Any], Any]) -> Any:
    """`function` of two parts; None where one is zero."""
    return None if a is None or b is None else function(a, b)


def _sum(a: Any, b: Any, sign: int = 1) -> Any:
    """a + sign * b, of parts that may be zero."""
    if b is None:
        return a
    if a is None:
        return layers.scale(b, float(sign))
    return layers.elementwise_add(a, b) if sign > 0 else layers.elementwise_sub(a, b)


def _complex(real: Any, imag: Any, name: str | None) -> ComplexVariable:
    imag = layers.zeros_like(real) if imag is None else imag
    out = ComplexVariable(real, imag)
    if name is not None:
        out.name = name
    return out


def _bilinear(x: Any, y: Any, where: str, name: str | None, function: Callable[[Any, Any], Any]) -> ComplexVariable:
    """A function that is linear in each of two arguments."""
    (a, b), (c, d) = _parts(x, "x", where), _parts(y, "y", where)
    real = _sum(function(a, c), _either(b, d, function), -1)
    return _complex(real, _sum(_either(a, d, function), _either(b, c, function)), name)


def _linear(x: Any, where: str, name: str | None, function: Callable[[Any], Any]) -> ComplexVariable:
    """A function of each part."""
    real, imag = _parts(x, "x", where)
    return _complex(function(real), None if imag is None else function(imag), name)


def elementwise_add(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x + y; `y` is aligned with the dimensions of `x` from `axis` on.

    Args:
        x, y (ComplexVariable|Tensor): at least one is complex.
        axis (int): -1 aligns the last dimensions.

    Raises:
        TypeError: for other arguments.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> x = fluid.ComplexVariable(paddle.to_tensor([1.0]), paddle.to_tensor([2.0]))
        >>> paddle.complex.elementwise_add(x, x).numpy().tolist()
        [(2+4j)]
    """
    (a, b), (c, d) = _parts(x, "x", "elementwise_add"), _parts(y, "y", "elementwise_add")
    imag = d if b is None else b if d is None else layers.elementwise_add(b, d, axis=axis)
    real = layers.elementwise_add(a, c, axis=axis)
    return _complex(real, _spread(imag, real), name)


def elementwise_sub(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x - y; arguments as of `elementwise_add`."""
    (a, b), (c, d) = _parts(x, "x", "elementwise_sub"), _parts(y, "y", "elementwise_sub")
    real = layers.elementwise_sub(a, c, axis=axis)
    if b is not None and d is not None:
        return _complex(real, layers.elementwise_sub(b, d, axis=axis), name)
    return _complex(real, _spread(_sum(b, d, -1), real), name)


def _spread(part: Any, like: Any) -> Any:
    """A part with the shape of the result."""
    if part is None or list(part.shape) == list(like.shape):
        return part
    return layers.elementwise_add(layers.zeros_like(like), part)


def elementwise_mul(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x * y; arguments as of `elementwise_add`."""
    return _bilinear(x, y, "elementwise_mul", name, lambda a, b: layers.elementwise_mul(a, b, axis=axis))


def elementwise_div(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x / y; arguments as of `elementwise_add`."""
    c, d = _parts(y, "y", "elementwise_div")
    if d is None:
        return _linear(x, "elementwise_div", name, lambda part: layers.elementwise_div(part, c, axis=axis))
    norm = layers.elementwise_add(layers.square(c), layers.square(d))
    inverse = ComplexVariable(layers.elementwise_div(c, norm), layers.scale(layers.elementwise_div(d, norm), -1.0))
    return _bilinear(x, inverse, "elementwise_div", name, lambda a, b: layers.elementwise_mul(a, b, axis=axis))


def matmul(
    x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0, name: str | None = None
) -> ComplexVariable:
    """alpha * x @ y; the arguments of `fluid.layers.matmul`. `transpose_x` and `transpose_y` do not conjugate."""
    return _bilinear(x, y, "matmul", name, lambda a, b: layers.matmul(a, b, transpose_x, transpose_y, alpha))


def kron(x: Any, y: Any, name: str | None = None) -> ComplexVariable:
    """The Kronecker product of tensors of one rank."""
    return _bilinear(x, y, "kron", name, linalg.kron)


def reshape(x: Any, shape: Sequence[int], inplace: bool = False, name: str | None = None) -> ComplexVariable:
    """The elements in another shape; see `fluid.layers.reshape`."""
    return _linear(x, "reshape", name, lambda part: layers.reshape(part, shape, inplace=inplace))


def transpose(x: Any, perm: Sequence[int], name: str | None = None) -> ComplexVariable:
    """The dimensions in the order `perm`."""
    return _linear(x, "transpose", name, lambda part: layers.transpose(part, perm))


def trace(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None) -> ComplexVariable:  # noqa: A002
    """The sum of a diagonal of the dimensions `dim1` and `dim2`."""
    return _linear(input, "trace", name, lambda part: linalg.trace(part, offset, dim1, dim2))


def sum(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> ComplexVariable:  # noqa: A001, A002
    """The sum over the dimensions `dim`; all of them when None."""
    return _linear(input, "sum", name, lambda part: layers.reduce_sum(part, dim, keep_dim))
