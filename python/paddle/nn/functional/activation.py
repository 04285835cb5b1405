"""Activations.

Each looks at the types of its arguments in static mode only; in dygraph mode nothing stands between the caller and
the operator but the one function.
"""
from __future__ import annotations

import warnings
from typing import Any

from paddle import _ops
from paddle._append import named
from paddle.framework import mode
from paddle.framework.checks import check_dtype, check_variable_and_dtype
from paddle.framework.dtypes import VarType, convert_np_dtype_to_dtype_
from paddle.tensor.math import tanh, tanh_  # type: ignore[attr-defined]

__all__ = [
    "elu",
    "elu_",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log_sigmoid",
    "relu",
    "relu_",
    "relu6",
    "sigmoid",
    "softmax",
    "softmax_",
    "softplus",
    "swish",
    "tanh",
    "tanh_",
]

_FLOATS = ["float16", "float32", "float64"]


def _static(x: Any, op_type: str) -> None:
    check_variable_and_dtype(x, "x", _FLOATS, op_type)


def _not_in_place(name: str) -> None:
    warnings.warn(
        f"{name}_: nothing is done in place in a Program; this is {name}",
        stacklevel=3,
    )


def relu(x: Any, name: str | None = None) -> Any:
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
    if mode._dygraph_tracer_ is None:
        _static(x, "relu")
        return named(name, _ops.relu, x)
    return _ops.relu(x)


def relu_(x: Any, name: str | None = None) -> Any:
    """`relu` in place (dygraph mode): writes into `x` and returns it."""
    if mode._dygraph_tracer_ is None:
        _not_in_place("relu")
        return relu(x, name)
    return _ops.relu(x, Out=x)


def relu6(x: Any, name: str | None = None) -> Any:
    """min(max(x, 0), 6), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.relu6(paddle.to_tensor([-1.0, 0.5, 7.0])).numpy().tolist()
        [0.0, 0.5, 6.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "relu6")
        return named(name, _ops.relu6, x, threshold=6.0)
    return _ops.relu6(x)


def leaky_relu(x: Any, negative_slope: float = 0.01, name: str | None = None) -> Any:
    """x where positive, negative_slope * x elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.leaky_relu(paddle.to_tensor([-2.0, 1.0]), 0.5).numpy().tolist()
        [-1.0, 1.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "leaky_relu")
    return named(name, _ops.leaky_relu, x, alpha=negative_slope)


def sigmoid(x: Any, name: str | None = None) -> Any:
    """1 / (1 + exp(-x)), element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.sigmoid(paddle.to_tensor([0.0])).numpy().tolist()
        [0.5]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "sigmoid")
        return named(name, _ops.sigmoid, x)
    return _ops.sigmoid(x)


def log_sigmoid(x: Any, name: str | None = None) -> Any:
    """log(sigmoid(x)), element by element; float16, float32 or float64."""
    if mode._dygraph_tracer_ is None:
        _static(x, "log_sigmoid")
    return named(name, _ops.logsigmoid, x)


def gelu(x: Any, approximate: bool = False, name: str | None = None) -> Any:
    """x times the normal distribution's cumulative function, or with `approximate` the tanh form of it.

    Args:
        x: Tensor of float16, float32 or float64.
        approximate: use 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
        name: a name for the output.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.gelu(paddle.to_tensor([0.0])).numpy().tolist()
        [0.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "gelu")
        return named(name, _ops.gelu, x, approximate=approximate)
    return _ops.gelu(x, approximate=approximate) if approximate else _ops.gelu(x)


def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """x where positive, alpha * (exp(x) - 1) elsewhere; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.elu(paddle.to_tensor([0.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "elu")
    return named(name, _ops.elu, x, alpha=alpha)


def elu_(x: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """`elu` in place (dygraph mode): writes into `x` and returns it."""
    if mode._dygraph_tracer_ is None:
        _not_in_place("elu")
        return elu(x, alpha, name)
    return _ops.elu(x, alpha=alpha, Out=x)


def hardsigmoid(x: Any, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Any:
    """slope * x + offset, cut to 0..1; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardsigmoid(paddle.to_tensor([-4.0, 0.0, 4.0])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "hardsigmoid")
    return named(name, _ops.hard_sigmoid, x, slope=slope, offset=offset)


def hardswish(x: Any, name: str | None = None) -> Any:
    """x * min(max(x + 3, 0), 6) / 6, element by element; float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.hardswish(paddle.to_tensor([-4.0, 5.0])).numpy().tolist()
        [-0.0, 5.0]
    """
    if mode._dygraph_tracer_ is None:
        _static(x, "hardswish")
    return named(name, _ops.hard_swish, x)


def swish(x: Any, name: str | None = None) -> Any:
    """x * sigmoid(x), element by element; float16, float32 or float64."""
    if mode._dygraph_tracer_ is None:
        _static(x, "swish")
    return named(name, _ops.swish, x, beta=1.0)


def softplus(x: Any, beta: float = 1, threshold: float = 20, name: str | None = None) -> Any:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above `threshold`; float16, float32 or float64."""
    if mode._dygraph_tracer_ is None:
        _static(x, "softplus")
    return named(name, _ops.softplus, x, beta=float(beta), threshold=float(threshold))


def softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Any:
    """exp(x) over its sum along `axis`.

    Args:
        x: Tensor of float16, float32 or float64.
        axis: the dimension whose values add up to one.
        dtype: cast `x` to this type first ("float32" or "float64").
        name: a name for the output.

    Returns:
        Tensor of the shape of `x`.

    Examples:
        >>> import paddle
        >>> paddle.nn.functional.softmax(paddle.zeros([2, 4])).numpy()[0].tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if mode._dygraph_tracer_ is None:
        if dtype is None:
            _static(x, "softmax")
        else:
            check_dtype(
                dtype,
                "dtype",
                ["float32", "float64"],
                "softmax",
                "softmax: dtype must be None, float32 or float64",
            )
    if dtype is not None:
        x = _ops.cast(x, in_dtype=x.dtype, out_dtype=_vartype(dtype))
    if name is None:
        return _ops.softmax(x) if axis == -1 else _ops.softmax(x, axis=axis)
    return named(name, _ops.softmax, x, axis=axis)


def softmax_(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Any:
    """`softmax` in place (dygraph mode): writes into `x` and returns it; `dtype` is not looked at there."""
    if mode._dygraph_tracer_ is None:
        _not_in_place("softmax")
        return softmax(x, axis, dtype, name)
    return _ops.softmax(x, axis=axis, Out=x)


def _vartype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, VarType) else convert_np_dtype_to_dtype_(dtype)
