"""Elementwise functions of Paddle 2.1 to 2.6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import paddle
from paddle._basics.dtypes import convert_dtype, dtype_is_floating

from .named_errors import name_errors

__all__: list[str] = []


def _filled(like: Any, value: float) -> Any:
    # full_like refuses infinity and NaN
    return paddle.full_like(like, value) if math.isfinite(value) else paddle.zeros_like(like) + value


def choose(condition: Any, x: Any, y: Any) -> Any:
    """`paddle.where` for operands that are broadcast, or numbers (of the other operand's type).

    Examples:
        >>> import paddle
        >>> from paddle._later.elementwise import choose
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> choose(x > 0, x, 0.0).numpy().tolist()
        [0.0, 2.0]
    """
    like = next(v for v in (x, y) if not isinstance(v, (int, float)))
    x, y = (_filled(like, v) if isinstance(v, (int, float)) else v for v in (x, y))
    shapes = [tuple(v.shape) for v in (condition, x, y)]
    if len(set(shapes)) > 1:
        # Sums of zeros of the three shapes broadcast where sizes of a Program are unknown.
        zero = paddle.zeros_like(x) + paddle.zeros_like(y) + paddle.cast(paddle.zeros_like(condition), x.dtype)
        condition = paddle.cast(paddle.cast(condition, "int32") + paddle.cast(zero, "int32"), "bool")
        x, y = x + zero, y + zero
    return paddle.where(condition, x, y)


def atan2(x, y, name=None):
    """The angle of the points (y, x), in (-pi, pi]: arctan(x / y) with the quadrant of the signs.

    Args:
        x, y (Tensor): float32 or float64, broadcast to one shape; integers count as float64, as in 2.6.
        name (str, optional): ignored.

    Examples:
        >>> import paddle
        >>> round(paddle.atan2(paddle.to_tensor([1.0]), paddle.to_tensor([-1.0])).item(), 4)
        2.3562
    """
    x, y = (v if dtype_is_floating(v.dtype) else paddle.cast(v, "float64") for v in (x, y))
    zero = paddle.zeros_like(x) * paddle.zeros_like(y)
    x, y = x + zero, y + zero
    steep = paddle.abs(x) > paddle.abs(y)
    # The branch that is not chosen divides by 1: an infinite quotient would make its gradient NaN.
    one = paddle.ones_like(x)
    origin = paddle.logical_and(x == zero, y == zero)
    flat_angle = paddle.atan(x / paddle.where(paddle.logical_or(steep, origin), one, y))
    turn = paddle.where(x < zero, paddle.full_like(x, -math.pi), paddle.full_like(x, math.pi))
    flat_angle = flat_angle + paddle.where(y < zero, turn, paddle.zeros_like(x))
    quarter = paddle.where(x < zero, paddle.full_like(x, -math.pi / 2), paddle.full_like(x, math.pi / 2))
    steep_angle = quarter - paddle.atan(y / paddle.where(steep, x, one))
    return paddle.where(steep, steep_angle, flat_angle)


def expm1(x, name=None):
    """exp(x) - 1, accurate for small `x`.

    Examples:
        >>> import paddle
        >>> paddle.expm1(paddle.to_tensor([1e-6])).item() / 1e-6 - 1 < 1e-5
        True
    """
    return paddle.tanh(x * 0.5) * (paddle.exp(x) + 1.0)


def asinh(x, name=None):
    """The inverse hyperbolic sine.

    Examples:
        >>> import paddle
        >>> round(paddle.asinh(paddle.to_tensor([1.0])).item(), 4)
        0.8814
    """
    size = paddle.abs(x)
    squared = size * size
    return paddle.sign(x) * paddle.log1p(size + squared / (1.0 + paddle.sqrt(squared + 1.0)))


def acosh(x, name=None):
    """The inverse hyperbolic cosine; NaN below 1.

    Examples:
        >>> import paddle
        >>> round(paddle.acosh(paddle.to_tensor([2.0])).item(), 4)
        1.317
    """
    return paddle.log(x + paddle.sqrt(x - 1.0) * paddle.sqrt(x + 1.0))


def atanh(x, name=None):
    """The inverse hyperbolic tangent; NaN outside of [-1, 1].

    Examples:
        >>> import paddle
        >>> round(paddle.atanh(paddle.to_tensor([0.5])).item(), 4)
        0.5493
    """
    return 0.5 * (paddle.log1p(x) - paddle.log1p(-x))


def trunc(input, name=None):  # noqa: A002
    """The integer part, towards zero.

    Examples:
        >>> import paddle
        >>> paddle.trunc(paddle.to_tensor([-1.5, 2.5])).numpy().tolist()
        [-1.0, 2.0]
    """
    if not dtype_is_floating(input.dtype):
        return paddle.assign(input)
    return paddle.sign(input) * paddle.floor(paddle.abs(input))


def frac(x, name=None):
    """The fractional part: x - trunc(x).

    Examples:
        >>> import paddle
        >>> paddle.frac(paddle.to_tensor([-1.5, 2.25])).numpy().tolist()
        [-0.5, 0.25]
    """
    return x - trunc(x)


def lerp(x, y, weight, name=None):
    """Linear interpolation: x + weight * (y - x).

    Args:
        x, y (Tensor): float32 or float64.
        weight (Tensor|float): broadcast with `x` and `y`.

    Raises:
        TypeError: for other element types. ValueError: for shapes that cannot be broadcast.

    Examples:
        >>> import paddle
        >>> paddle.lerp(paddle.to_tensor([1.0]), paddle.to_tensor([3.0]), 0.5).item()
        2.0
    """
    for label, value in (("x", x), ("y", y)):
        if not dtype_is_floating(value.dtype):
            raise TypeError(f"lerp: {label} must be float32 or float64, got {convert_dtype(value.dtype)}")
    return x + weight * (y - x)


def _as_float(x):
    return x if dtype_is_floating(x.dtype) else paddle.cast(x, "float32")


def deg2rad(x, name=None):
    """Degrees in radians.

    Examples:
        >>> import paddle
        >>> round(paddle.deg2rad(paddle.to_tensor([180.0])).item(), 4)
        3.1416
    """
    return _as_float(x) * (math.pi / 180)


def rad2deg(x, name=None):
    """Radians in degrees.

    Examples:
        >>> import paddle
        >>> round(paddle.rad2deg(paddle.to_tensor([3.14159265])).item(), 2)
        180.0
    """
    return _as_float(x) * (180 / math.pi)


def heaviside(x, y, name=None):
    """0 below zero, 1 above, `y` at zero; NaN where `x` is NaN.

    Examples:
        >>> import paddle
        >>> paddle.heaviside(paddle.to_tensor([-1.0, 0.0, 2.0]), paddle.to_tensor([0.5])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    zero = paddle.zeros_like(x)
    step = paddle.cast(x > zero, x.dtype)
    if _is_float(x):
        step = paddle.where(paddle.isnan(x), x, step)
    return choose(x == zero, y, step)


def _is_float(x) -> bool:
    return dtype_is_floating(x.dtype)


def fmax(x, y, name=None):
    """The greater element; the other operand where one is NaN.

    Examples:
        >>> import paddle
        >>> paddle.fmax(paddle.to_tensor([1.0, float("nan")]), paddle.to_tensor([0.0, 2.0])).numpy().tolist()
        [1.0, 2.0]
    """
    return _extremum(paddle.maximum, x, y)


def fmin(x, y, name=None):
    """The lesser element; the other operand where one is NaN.

    Examples:
        >>> import paddle
        >>> paddle.fmin(paddle.to_tensor([1.0, float("nan")]), paddle.to_tensor([0.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    return _extremum(paddle.minimum, x, y)


def _extremum(function, x, y):
    if not _is_float(x):
        return function(x, y)
    nan_x, nan_y = paddle.isnan(x), paddle.isnan(y)
    left = choose(nan_x, paddle.zeros_like(x), x)
    right = choose(nan_y, paddle.zeros_like(y), y)
    # y where both are NaN; of equal elements the second operand of `function` takes the gradient, in 2.6 that is x
    best = choose(nan_x, y, function(right, left))
    return choose(paddle.logical_and(nan_y, paddle.logical_not(nan_x)), x, best)


def hypot(x, y, name=None):
    """sqrt(x * x + y * y), without overflow of the squares.

    Examples:
        >>> import paddle
        >>> paddle.hypot(paddle.to_tensor([3.0]), paddle.to_tensor([4.0])).item()
        5.0
    """
    large, small = paddle.maximum(paddle.abs(x), paddle.abs(y)), paddle.minimum(paddle.abs(x), paddle.abs(y))
    ratio = small / choose(large == paddle.zeros_like(large), paddle.ones_like(large), large)
    return large * paddle.sqrt(1.0 + ratio * ratio)


def logaddexp(x, y, name=None):
    """log(exp(x) + exp(y)).

    Examples:
        >>> import paddle
        >>> round(paddle.logaddexp(paddle.to_tensor([0.0]), paddle.to_tensor([0.0])).item(), 4)
        0.6931
    """
    large, small = paddle.maximum(x, y), paddle.minimum(x, y)
    gap = small - large
    gap = choose(paddle.isnan(gap), paddle.zeros_like(gap), gap)  # both infinite, with one sign
    return large + paddle.log1p(paddle.exp(gap))


def logit(x, eps=None, name=None):
    """log(x / (1 - x)).

    Args:
        eps (float, optional): limits `x` to [eps, 1 - eps]; without it the result outside of [0, 1] is NaN.

    Examples:
        >>> import paddle
        >>> paddle.logit(paddle.to_tensor([0.5])).item()
        0.0
    """
    x = x if eps is None else paddle.clip(x, eps, 1.0 - eps)
    return paddle.log(x / (1.0 - x))


def ldexp(x, y, name=None):
    """x * 2 ** y.

    Examples:
        >>> import paddle
        >>> paddle.ldexp(paddle.to_tensor([3.0]), paddle.to_tensor([2])).item()
        12.0
    """
    x = _as_float(x)
    y = paddle.cast(y, x.dtype)
    return x * paddle.pow(paddle.full_like(y, 2.0), y)


def sgn(x, name=None):
    """The sign: 1, 0 or -1; of a complex number the number of its direction with modulus 1, or 0.

    Examples:
        >>> import paddle
        >>> paddle.sgn(paddle.to_tensor([-2.0, 0.0])).numpy().tolist()
        [-1.0, 0.0]
    """
    if not convert_dtype(x.dtype).startswith("complex"):
        return paddle.sign(x)
    parts = paddle.as_real(x)
    size = paddle.max(paddle.abs(parts), axis=-1, keepdim=True)  # squares of larger numbers overflow
    parts = parts / choose(size == 0, 1.0, size)
    modulus = paddle.sqrt(paddle.sum(parts * parts, axis=-1, keepdim=True))
    return paddle.as_complex(parts / choose(modulus == 0, 1.0, modulus))


def neg(x, name=None):
    """-x.

    Examples:
        >>> import paddle
        >>> paddle.neg(paddle.to_tensor([1.0])).item()
        -1.0
    """
    return paddle.scale(x, -1)


def angle(x, name=None):
    """The angle of complex numbers; 0 or pi for real ones.

    Examples:
        >>> import paddle
        >>> paddle.angle(paddle.to_tensor([1.0, -1.0])).numpy().astype("float64").round(4).tolist()
        [0.0, 3.1416]
    """
    if convert_dtype(x.dtype).startswith("complex"):
        return atan2(paddle.imag(x), paddle.real(x))
    return choose(x < paddle.zeros_like(x), math.pi, paddle.zeros_like(x))


def nan_to_num(x, nan=0.0, posinf=None, neginf=None, name=None):
    """Replaces NaN by `nan`, infinity by `posinf` and `neginf` (by default the greatest and least finite numbers).

    Examples:
        >>> import paddle
        >>> paddle.nan_to_num(paddle.to_tensor([float("nan"), 1.0, float("inf")]), posinf=9.0).numpy().tolist()
        [0.0, 1.0, 9.0]
    """
    top = float(finfo(x.dtype).max)
    infinite = paddle.isinf(x)
    positive = x > paddle.zeros_like(x)
    x = choose(paddle.logical_and(infinite, positive), top if posinf is None else float(posinf), x)
    negative = paddle.logical_and(infinite, paddle.logical_not(positive))
    x = choose(negative, -top if neginf is None else float(neginf), x)
    return choose(paddle.isnan(x), float(nan), x)


def isclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name=None):
    """Whether |x - y| <= atol + rtol * |y|, element by element.

    Examples:
        >>> import paddle
        >>> paddle.isclose(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([1.0, 2.1])).numpy().tolist()
        [True, False]
    """
    near = paddle.abs(x - y) <= atol + rtol * paddle.abs(y)
    near = paddle.logical_or(paddle.logical_and(near, paddle.isfinite(y)), paddle.equal(x, y))
    if equal_nan:
        near = paddle.logical_or(near, paddle.logical_and(paddle.isnan(x), paddle.isnan(y)))
    return near


def is_complex(x):
    """Whether the elements are complex.

    Examples:
        >>> import paddle
        >>> paddle.is_complex(paddle.ones([1]))
        False
    """
    return convert_dtype(x.dtype).startswith("complex")


def is_floating_point(x):
    """Whether the elements are floating-point numbers.

    Examples:
        >>> import paddle
        >>> paddle.is_floating_point(paddle.ones([1]))
        True
    """
    return dtype_is_floating(x.dtype)


def is_integer(x):
    """Whether the elements are integers.

    Examples:
        >>> import paddle
        >>> paddle.is_integer(paddle.ones([1], "int32"))
        True
    """
    return convert_dtype(x.dtype).lstrip("u").startswith("int")


def finfo(dtype):
    """The limits of a floating-point type: `numpy.finfo`.

    Examples:
        >>> import paddle
        >>> float(paddle.finfo("float32").max) > 3e38
        True
    """
    return np.finfo(convert_dtype(dtype))


def iinfo(dtype):
    """The limits of an integer type: `numpy.iinfo`.

    Examples:
        >>> import paddle
        >>> paddle.iinfo("int8").max
        127
    """
    return np.iinfo(convert_dtype(dtype))


def clone(x, name=None):
    """A copy of `x` through which gradients flow.

    Examples:
        >>> import paddle
        >>> paddle.clone(paddle.ones([1])).item()
        1.0
    """
    return paddle.assign(x)


def inner(x, y, name=None):
    """The inner product over the last dimension: x @ y^T; with a number or a [1] Tensor, x * y.

    Examples:
        >>> import paddle
        >>> paddle.inner(paddle.ones([2, 3]), paddle.ones([4, 3])).shape
        [2, 4]
    """
    if x.shape == [1] or y.shape == [1]:
        return x * y
    rows = list(x.shape[:-1])
    columns = list(y.shape[:-1])
    flat = paddle.matmul(paddle.reshape(x, [-1, x.shape[-1]]), paddle.reshape(y, [-1, y.shape[-1]]), transpose_y=True)
    return paddle.reshape(flat, [*rows, *columns] or [1])


def outer(x, y, name=None):
    """The outer product of the flattened operands.

    Examples:
        >>> import paddle
        >>> paddle.outer(paddle.ones([2]), paddle.ones([3])).shape
        [2, 3]
    """
    return paddle.reshape(x, [-1, 1]) * paddle.reshape(y, [1, -1])


name_errors(globals())
