"""Activation functions. Rows of _dispatch/input_checks.py check most argument types in static mode."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.in_place import in_place_in_dygraph
from paddle.tensor.manipulation import computed_in_place
from paddle.tensor.math import tanh, tanh_  # type: ignore[attr-defined]

__all__ = [
    "elu",
    "elu_",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid",
    "maxout",
    "prelu",
    "relu",
    "relu_",
    "relu6",
    "selu",
    "sigmoid",
    "log_softmax",
    "softmax",
    "softmax_",
    "softplus",
    "softshrink",
    "softsign",
    "swish",
    "tanh",
    "tanh_",
    "tanhshrink",
    "thresholded_relu",
]


def relu(x: Any, name: str | None = None) -> Tensor:
    """max(x, 0), element by element.

    Args:
        x: Tensor of float16, float32 or float64 (other types raise TypeError in static mode).
        name: a name for the output.

    Returns:
        Tensor of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.relu(paddle.to_tensor([-2.0, 0.0, 1.0])).numpy().tolist()
        [0.0, 0.0, 1.0]
    """
    return _ops.relu(x) if name is None else named(name, _ops.relu, x)


@in_place_in_dygraph(relu)
def relu_(x: Any, name: str | None = None) -> Tensor:
    """`relu` in place (dygraph mode): writes into `x` and returns it."""
    return _ops.relu(x, Out=x)


def relu6(x: Any, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.relu6(paddle.to_tensor([-1.0, 0.5, 7.0])).numpy().tolist()
        [0.0, 0.5, 6.0]
    """
    return named(name, _ops.relu6, x, threshold=6.0)


def leaky_relu(x: Any, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """x where positive, negative_slope * x elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.leaky_relu(paddle.to_tensor([-2.0, 1.0]), 0.5).numpy().tolist()
        [-1.0, 1.0]
    """
    return named(name, _ops.leaky_relu, x, alpha=negative_slope)


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.sigmoid(paddle.to_tensor([0.0])).numpy().tolist()
        [0.5]
    """
    return _ops.sigmoid(x) if name is None else named(name, _ops.sigmoid, x)


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), element by element; float16, float32 or float64."""
    return named(name, _ops.logsigmoid, x)


def gelu(x: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the standard normal distribution function of x, or with `approximate` its tanh approximation.

    Args:
        x: Tensor of float16, float32 or float64.
        approximate: use 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.gelu(paddle.to_tensor([0.0])).numpy().tolist()
        [0.0]
    """
    if name is None and not approximate:
        return _ops.gelu(x)
    return named(name, _ops.gelu, x, approximate=approximate)


def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """x where positive, alpha * (exp(x) - 1) elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.elu(paddle.to_tensor([0.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    return named(name, _ops.elu, x, alpha=alpha)


@in_place_in_dygraph(elu)
def elu_(x: Any, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """`elu` in place (dygraph mode): writes into `x` and returns it."""
    return computed_in_place("elu_", elu, x, alpha)  # the gradient reads the input, unlike those of relu_ and softmax_


def hardsigmoid(x: Any, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Tensor:
    """slope * x + offset, clipped to [0, 1]; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardsigmoid(paddle.to_tensor([-4.0, 0.0, 4.0])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    return named(name, _ops.hard_sigmoid, x, slope=slope, offset=offset)


def hardswish(x: Any, name: str | None = None) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6, element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardswish(paddle.to_tensor([-4.0, 5.0])).numpy().tolist()
        [-0.0, 5.0]
    """
    return named(name, _ops.hard_swish, x)


def swish(x: Any, name: str | None = None) -> Tensor:
    """x * sigmoid(x), element by element; float16, float32 or float64."""
    return named(name, _ops.swish, x, beta=1.0)


def softplus(x: Any, beta: float = 1, threshold: float = 20, name: str | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x where beta * x is above `threshold`; float16, float32 or float64."""
    return named(name, _ops.softplus, x, beta=float(beta), threshold=float(threshold))


def hardshrink(x: Any, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x where |x| > threshold, 0 elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardshrink(paddle.to_tensor([-1.0, 0.25, 2.5])).numpy().tolist()
        [-1.0, 0.0, 2.5]
    """
    return named(name, _ops.hard_shrink, x, threshold=threshold)


def hardtanh(x: Any, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:  # noqa: A002
    """x clipped to [min, max]; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardtanh(paddle.to_tensor([-1.5, 0.25, 2.5])).numpy().tolist()
        [-1.0, 0.25, 1.0]
    """
    return named(name, _ops.brelu, x, t_min=min, t_max=max)


def selu(
    x: Any,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Tensor:
    """scale * x where x is positive, scale * alpha * (exp(x) - 1) elsewhere; float16, float32 or float64.

    Raises:
        ValueError: for a `scale` of 1 or less, or a negative `alpha`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.selu(paddle.to_tensor([0.0, 2.0]), scale=1.5).numpy().tolist()
        [0.0, 3.0]
    """
    if scale <= 1.0:
        raise ValueError(f"The scale must be greater than 1.0. Received: {scale}.")
    if alpha < 0:
        raise ValueError(f"The alpha must be no less than zero. Received: {alpha}.")
    return named(name, _ops.selu, x, scale=scale, alpha=alpha)


def softshrink(x: Any, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x moved towards 0 by `threshold`, 0 where |x| <= threshold; float16, float32 or float64.

    Raises:
        ValueError: for a negative `threshold`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.softshrink(paddle.to_tensor([-1.0, 0.25, 2.5])).numpy().tolist()
        [-0.5, 0.0, 2.0]
    """
    if threshold < 0:
        raise ValueError(f"The threshold must be no less than zero. Received: {threshold}.")
    return named(name, _ops.softshrink, x, **{"lambda": threshold})


def softsign(x: Any, name: str | None = None) -> Tensor:
    """x / (1 + |x|), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.softsign(paddle.to_tensor([-1.0, 3.0])).numpy().tolist()
        [-0.5, 0.75]
    """
    return named(name, _ops.softsign, x)


def tanhshrink(x: Any, name: str | None = None) -> Tensor:
    """x - tanh(x), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.tanhshrink(paddle.to_tensor([0.0, 20.0])).numpy().tolist()
        [0.0, 19.0]
    """
    return named(name, _ops.tanh_shrink, x)


def thresholded_relu(x: Any, threshold: float = 1.0, name: str | None = None) -> Tensor:
    """x where it is above `threshold`, 0 elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.thresholded_relu(paddle.to_tensor([2.0, 0.5, 1.0])).numpy().tolist()
        [2.0, 0.0, 0.0]
    """
    return named(name, _ops.thresholded_relu, x, threshold=threshold)


def softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """exp(x) divided by its sum along `axis`.

    Args:
        x: Tensor of float16, float32 or float64.
        axis: the dimension along which the results sum to one.
        dtype: cast `x` to this type first ("float32" or "float64").
        name: a name for the output.

    Returns:
        Tensor of the shape of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.softmax(paddle.zeros([2, 4])).numpy()[0].tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    x = _of_type(x, dtype, "softmax")
    if name is None:
        return _ops.softmax(x) if axis == -1 else _ops.softmax(x, axis=axis)
    return named(name, _ops.softmax, x, axis=axis)


def prelu(x: Any, weight: Any, name: str | None = None) -> Tensor:
    """max(x, 0) + weight * min(x, 0).

    Args:
        x: Tensor of float16, float32 or float64.
        weight: Tensor of shape [1], or with one element per channel (the second dimension of `x`).
        name: a name for the output.

    Returns:
        Tensor of the shape of `x`. AssertionError for a weight of another shape.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.prelu(paddle.to_tensor([-2.0, 3.0]), paddle.to_tensor([0.5])).numpy().tolist()
        [-1.0, 3.0]
    """
    assert len(weight.shape) == 1, f"prelu: weight must have 1 dimension, got {len(weight.shape)}"
    one = weight.shape[0] == 1
    assert one or len(x.shape) > 1, "prelu: x must have 2 dimensions or more for a weight of more than one element"
    assert one or weight.shape[0] == x.shape[1], (
        f"prelu: weight must have an element a channel of x ({x.shape[1]}), got {weight.shape[0]}"
    )
    return named(name, _ops.prelu, x, weight, mode="all" if one else "channel")


def maxout(x: Any, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The maximum of each group of channels.

    Args:
        x: float32 or float64 Tensor of 4 dimensions.
        groups: number of adjacent channels in a group; greater than 1, divides the channels (ValueError otherwise).
        axis: the channel dimension: 1, 3 or -1 (ValueError otherwise).
        name: a name for the output.

    Returns:
        Tensor of the shape of `x` with 1 / groups of its channels.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0, 4.0, 3.0, 2.0]).reshape([1, 4, 1, 1])
        >>> paddle.nn.functional.maxout(x, 2).numpy().ravel().tolist()
        [4.0, 3.0]
    """
    if axis not in (1, -1, 3):
        raise ValueError(f"maxout: axis should be 1, -1 or 3, got {axis!s:.200}")
    return checked(name, _ops.maxout, x, groups=groups, axis=3 if axis == -1 else axis)


def log_softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of `softmax`, computed as x - log(sum of exp(x) along `axis`) without rounding small probabilities.

    Args:
        x: Tensor of float16, float32 or float64.
        axis: the dimension along which the probabilities sum to one.
        dtype: cast `x` to this type first ("float32" or "float64").
        name: a name for the output.

    Returns:
        Tensor of the shape of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.log_softmax(paddle.zeros([1, 4])).exp().numpy().tolist()
        [[0.25, 0.25, 0.25, 0.25]]
    """
    return named(name, _ops.log_softmax, _of_type(x, dtype, "log_softmax"), axis=axis)


def _of_type(x: Any, dtype: Any, op: str) -> Any:
    """`x`, cast to `dtype` unless that is None."""
    if dtype is None:
        return x
    check_arguments(op, dtype)
    return _ops.cast(x, in_dtype=x.dtype, out_dtype=_vartype(dtype))


@in_place_in_dygraph(softmax)
def softmax_(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """`softmax` in place (dygraph mode): writes into `x` and returns it; `dtype` is ignored there."""
    return _ops.softmax(x, axis=axis, Out=x)


def _vartype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, VarType) else convert_np_dtype_to_dtype_(dtype)
