"""Elementwise arithmetic and reductions."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import INTS, NUMBERS
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import activated, checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._dispatch.in_place import in_place_in_dygraph
from paddle._dispatch.input_checks import FUNCTIONS, types_of
from paddle._programs.variable import Variable


def _unary(op_type: str, summary: str):
    builtin = getattr(_ops, op_type)
    if op_type in FUNCTIONS:

        def function(x, name=None):
            return checked(name, builtin, x) if name is not None or in_static_mode() else builtin(x)
    else:

        def function(x, name=None):
            return builtin(x) if name is None else named(name, builtin, x)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{summary}, element by element.

    Args:
        x (Tensor): {", ".join(types_of(op_type))}.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor: of the shape and type of `x`.

    Examples:
        >>> import paddle
        >>> paddle.{op_type}(paddle.to_tensor([0.5])).shape
        [1]
    """
    return function


abs = _unary("abs", "The absolute value")  # noqa: A001
exp = _unary("exp", "e to the power x")
log = _unary("log", "The natural logarithm")
log2 = _unary("log2", "The logarithm to the base 2")
log10 = _unary("log10", "The logarithm to the base 10")
log1p = _unary("log1p", "The natural logarithm of 1 + x")
sqrt = _unary("sqrt", "The square root")
rsqrt = _unary("rsqrt", "1 / sqrt(x)")
square = _unary("square", "x * x")
reciprocal = _unary("reciprocal", "1 / x")
tanh = _unary("tanh", "The hyperbolic tangent")
erf = _unary("erf", "The error function")
sin = _unary("sin", "The sine")
cos = _unary("cos", "The cosine")
sinh = _unary("sinh", "The hyperbolic sine")
cosh = _unary("cosh", "The hyperbolic cosine")
asin = _unary("asin", "The arc sine")
acos = _unary("acos", "The arc cosine")
atan = _unary("atan", "The arc tangent")
floor = _unary("floor", "The greatest integer not above x")
ceil = _unary("ceil", "The least integer not below x")
round = _unary("round", "The nearest integer, halves away from zero")  # noqa: A001
sign = _unary("sign", "1, 0 or -1, as x is above, at or below zero")


def _binary(name: str, op_type: str, summary: str):
    builtin = getattr(_ops, op_type)

    def function(x, y, name=None):
        return checked(name, builtin, x, y) if in_static_mode() else builtin(x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}, element by element; the shapes are broadcast as numpy does.

    Args:
        x, y (Tensor): of one type: {", ".join(types_of(op_type))}.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor.

    Raises:
        ValueError: for shapes that cannot be broadcast.

    Examples:
        >>> import paddle
        >>> paddle.{name}(paddle.to_tensor([3.0, 4.0]), paddle.to_tensor([2.0])).shape
        [2]
    """
    return function


add = _binary("add", "elementwise_add", "x + y")
subtract = _binary("subtract", "elementwise_sub", "x - y")
multiply = _binary("multiply", "elementwise_mul", "x * y")
divide = _binary("divide", "elementwise_div", "x / y")
maximum = _binary("maximum", "elementwise_max", "The greater of x and y")
minimum = _binary("minimum", "elementwise_min", "The lesser of x and y")
floor_divide = _binary("floor_divide", "elementwise_floordiv", "x // y")
remainder = _binary("remainder", "elementwise_mod", "The remainder of x / y with the sign of y")
mod = floor_mod = remainder


def pow(x, y, name=None) -> Tensor:  # noqa: A001
    """`x` to the power `y`.

    Args:
        x (Tensor): float32, float64, int32 or int64.
        y (float|int|Tensor): the exponent; a Tensor is broadcast.

    Raises:
        TypeError: for an exponent that is neither a number nor a Tensor.

    Examples:
        >>> import paddle
        >>> paddle.pow(paddle.to_tensor([1.0, 2.0, 3.0]), 2).numpy().tolist()
        [1.0, 4.0, 9.0]
    """
    check_arguments("pow", x)
    if isinstance(y, NUMBERS):
        return named(name, _ops.pow, x, factor=float(y))
    if isinstance(y, Variable):
        return named(name, _ops.elementwise_pow, x, y)
    raise TypeError(f"y must be a number or a Tensor, got {type(y)}")


@in_place_in_dygraph(tanh)
def tanh_(x, name=None) -> Tensor:
    """`tanh`, in place."""
    return _ops.tanh(x, Out=x)


def stanh(x, scale_a=0.67, scale_b=1.7159, name=None) -> Tensor:
    """scale_b * tanh(scale_a * x), element by element.

    Args:
        x (Tensor): float16, float32 or float64.
        scale_a (float): the factor of the argument.
        scale_b (float): the factor of the result.
        name (str, optional): a name for the output in static mode.

    Examples:
        >>> import paddle
        >>> paddle.stanh(paddle.to_tensor([0.0, 100.0]), scale_a=0.5, scale_b=2.0).numpy().tolist()
        [0.0, 2.0]
    """
    return named(name, _ops.stanh, x, scale_a=scale_a, scale_b=scale_b)


def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None) -> Tensor:
    """scale * x + bias, or scale * (x + bias).

    Args:
        x (Tensor): any numeric type.
        scale (float|Tensor): the factor.
        bias (float): the summand.
        bias_after_scale (bool): scale * x + bias if True, scale * (x + bias) if False.
        act (str, optional): an activation operator applied to the result.

    Examples:
        >>> import paddle
        >>> paddle.scale(paddle.to_tensor([1.0, 2.0]), 2.0, 1.0).numpy().tolist()
        [3.0, 5.0]
    """
    check_arguments("scale", x)
    tensor = scale if isinstance(scale, Variable) else None
    number = 1.0 if tensor is not None else float(scale)
    out = named(name, _ops.scale, x, tensor, scale=number, bias=float(bias), bias_after_scale=bias_after_scale)
    return activated(out, act, name, "scale")


def add_n(inputs, name=None) -> Tensor:
    """The sum of a list of Tensors of one shape.

    Examples:
        >>> import paddle
        >>> x = paddle.ones([2])
        >>> paddle.add_n([x, x, x]).numpy().tolist()
        [3.0, 3.0]
    """
    if isinstance(inputs, Variable):
        inputs = [inputs]
    check_arguments("add_n", inputs)
    return named(name, _ops.sum, list(inputs))


def _rank(x) -> int:
    """The number of dimensions; 0 for a value that is not a Tensor, which the operator rejects."""
    return len(getattr(x, "shape", ()))


def _axes(axis, rank: int):
    """(dim, reduce_all): the attributes of a reduction."""
    if axis is None:
        return [0], True
    if not isinstance(axis, list) and isinstance(axis, INTS):
        return [axis], rank == 1
    if isinstance(axis, str):
        raise TypeError(f"axis must be an int, a list or a tuple, got {axis!r:.200}")
    axis = list(axis)
    if not axis or len(axis) == rank:
        return axis or [0], True
    return axis, False


def _check_sum_dtype(have: str, wanted: str) -> None:
    if (have == "float64" and wanted in ("float32", "int32")) or (have == "int64" and wanted == "int32"):
        raise ValueError(f"sum: dtype={wanted} is narrower than the {have} of x and may overflow")


def sum(x, axis=None, dtype=None, keepdim=False, name=None) -> Tensor:  # noqa: A001
    """The sum over `axis`, or over all elements.

    Args:
        x (Tensor): float32, float64, int32, int64 (bools count as int64).
        axis (int|list|tuple, optional): the dimensions; negative ones count from the end.
        dtype (str, optional): element type of the result.
        keepdim (bool): keep reduced dimensions with size 1.

    Returns:
        Tensor: of shape [1] if all dimensions are reduced.

    Examples:
        >>> import paddle
        >>> paddle.sum(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).numpy().tolist()
        [4.0, 6.0]
    """
    static = in_static_mode()
    if static:
        check_arguments("sum", x, axis, dtype)
        if dtype is not None:
            _check_sum_dtype(convert_dtype(x.dtype), convert_dtype(dtype))
    if axis is None and dtype is None and not static and getattr(x, "_dtype_name", "") != "bool":
        return _ops.reduce_sum(x, reduce_all=True, keep_dim=keepdim)
    dim, reduce_all = _axes(axis, _rank(x))
    if dtype is not None:
        out = convert_np_dtype_to_dtype_(dtype) if not isinstance(dtype, VarType) else dtype
        if out != x.dtype:
            return named(
                name,
                _ops.reduce_sum,
                x,
                dim=dim,
                keep_dim=keepdim,
                reduce_all=reduce_all,
                in_dtype=x.dtype,
                out_dtype=out,
            )
    elif convert_dtype(x.dtype) == "bool":
        x = _ops.cast(x, in_dtype=x.dtype, out_dtype=VarType.INT64)
    return named(name, _ops.reduce_sum, x, dim=dim, keep_dim=keepdim, reduce_all=reduce_all)


def _reduction(name: str, op_type: str, summary: str):
    builtin = getattr(_ops, op_type)

    def function(x, axis=None, keepdim=False, name=None):
        check_arguments(op_type, axis)
        dim, reduce_all = _axes(axis, _rank(x))
        run = checked if op_type in FUNCTIONS else named
        return run(name, builtin, x, dim=dim, keep_dim=keepdim, reduce_all=reduce_all)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary} over `axis`, or over all elements.

    Args:
        x (Tensor): {", ".join(types_of(op_type))}.
        axis (int|list|tuple, optional): the dimensions; negative ones count from the end.
        keepdim (bool): keep reduced dimensions with size 1.

    Returns:
        Tensor: of shape [1] if all dimensions are reduced.
    """
    return function


max = _reduction("max", "reduce_max", "The maximum")  # noqa: A001
min = _reduction("min", "reduce_min", "The minimum")  # noqa: A001
all = _reduction("all", "reduce_all", "Whether all elements hold")  # noqa: A001
any = _reduction("any", "reduce_any", "Whether any element holds")  # noqa: A001


def prod(x, axis=None, keepdim=False, dtype=None, name=None) -> Tensor:
    """The product over `axis`, or over all elements; see `sum`."""
    if dtype is not None:
        check_arguments("prod", dtype)
        if convert_np_dtype_to_dtype_(dtype) != x.dtype:
            x = cast(x, dtype)
    dim, reduce_all = _axes(axis, _rank(x))
    return checked(name, _ops.reduce_prod, x, dim=dim, keep_dim=keepdim, reduce_all=reduce_all)


def cast(x, dtype) -> Tensor:
    """`x` with its elements converted to `dtype`.

    Examples:
        >>> import paddle
        >>> paddle.cast(paddle.to_tensor([1.7]), "int64").numpy().tolist()
        [1]
    """
    check_arguments("cast", x)
    if not isinstance(dtype, VarType):
        dtype = convert_np_dtype_to_dtype_(dtype)
    return _ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)


def cumsum(x, axis=None, dtype=None, name=None) -> Tensor:
    """Cumulative sums along `axis`; of the flattened Tensor if None.

    Args:
        x (Tensor): any numeric type.
        axis (int, optional): the dimension.
        dtype (str, optional): `x` is converted to it first.

    Examples:
        >>> import paddle
        >>> paddle.cumsum(paddle.to_tensor([1, 2, 3])).numpy().tolist()
        [1, 3, 6]
    """
    check_arguments("cumsum", x)
    if dtype is not None and convert_np_dtype_to_dtype_(dtype) != x.dtype:
        x = cast(x, dtype)
    if axis is None:
        return named(name, _ops.cumsum, x, flatten=True)
    return named(name, _ops.cumsum, x, axis=axis)


def clip(x, min=None, max=None, name=None) -> Tensor:  # noqa: A002
    """`x` with its elements limited to [min, max].

    Args:
        x (Tensor): float32, float64, int32, int64.
        min, max (float|int|Tensor, optional): the bounds; a Tensor has shape [1].

    Examples:
        >>> import paddle
        >>> paddle.clip(paddle.to_tensor([1.0, 5.0]), max=2.0).numpy().tolist()
        [1.0, 2.0]
    """
    integers = convert_dtype(x.dtype) in ("int32", "int64")
    low, high = (-2147483648.0, 2147483647.0) if integers else (-3.4028234663852886e38, 3.4028234663852886e38)
    check_arguments("clip", x, min, max)
    keywords = {}
    if isinstance(min, Variable):
        keywords["Min"], min = min, None
    if isinstance(max, Variable):
        keywords["Max"], max = max, None
    low, high = low if min is None else float(min), high if max is None else float(max)
    return named(name, _ops.clip, x, min=low, max=high, **keywords)


def increment(x, value=1.0, name=None) -> Tensor:
    """`x` plus `value`, in place.

    Args:
        x (Tensor): one element.

    Examples:
        >>> import paddle
        >>> paddle.increment(paddle.zeros([1])).numpy().tolist()
        [1.0]
    """
    return _ops.increment(x, step=float(value), Out=x)


def conj(x, name=None) -> Tensor:
    """The complex conjugates; real numbers are unchanged.

    Args:
        x (Tensor): complex64, complex128, float32, float64, int32 or int64.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor: of the shape and type of `x`.

    Raises:
        TypeError: in static mode, for other types.
        RuntimeError: in dygraph mode, for other types.

    Examples:
        >>> import paddle
        >>> paddle.conj(paddle.to_tensor([1 + 1j, 2 - 2j]))
        Tensor(shape=[2], dtype=complex64, place=CPUPlace, stop_gradient=True,
               [(1-1j), (2+2j)])
    """
    return named(name, _ops.conj, x)


def logsumexp(x, axis=None, keepdim=False, name=None) -> Tensor:
    """The logarithm of the sum of exponentials over `axis`, or over all elements.

    Args:
        x (Tensor): float32 or float64.
        axis (int|list|tuple, optional): the dimensions; negative ones count from the end.
        keepdim (bool): keep reduced dimensions with size 1.

    Examples:
        >>> import paddle
        >>> paddle.logsumexp(paddle.zeros([1])).numpy().tolist()
        [0.0]
    """
    dim, reduce_all = _axes(axis, _rank(x))
    return checked(name, _ops.logsumexp, x, axis=dim, keepdim=keepdim, reduce_all=reduce_all)


def tan(x, name=None) -> Tensor:
    """The tangent, element by element; `x` is float16, float32 or float64.

    Examples:
        >>> import paddle
        >>> paddle.tan(paddle.zeros([1])).numpy().tolist()
        [0.0]
    """
    return named(name, _ops.elementwise_div, sin(x), cos(x))


def broadcast_shape(x_shape, y_shape) -> list[int]:
    """The shape that two shapes broadcast to.

    An unknown size, -1, stays unknown with 1 and becomes any other size.

    Raises:
        ValueError: for shapes that cannot be broadcast.

    Examples:
        >>> import paddle
        >>> paddle.broadcast_shape([2, 1, 3], [1, 3, 1])
        [2, 3, 3]
    """
    shapes = sorted((list(x_shape), list(y_shape)), key=len)
    shapes[0] = [1] * (len(shapes[1]) - len(shapes[0])) + shapes[0]
    out = []
    for pair in zip(*shapes, strict=True):
        low, high = sorted(pair)
        if low != high and high > 1 and low not in (-1, 1):
            raise ValueError(f"broadcast_shape: {list(x_shape)} and {list(y_shape)} cannot be broadcast")
        out.append(low if low <= 0 and high <= 1 else high)
    return out


__all__ = [
    "abs",
    "exp",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "tanh",
    "erf",
    "sin",
    "cos",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "floor",
    "ceil",
    "round",
    "sign",
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "floor_divide",
    "remainder",
    "max",
    "min",
    "all",
    "any",
    "mod",
    "floor_mod",
    "pow",
    "tanh_",
    "stanh",
    "scale",
    "add_n",
    "sum",
    "prod",
    "cumsum",
    "clip",
    "conj",
    "increment",
    "logsumexp",
    "tan",
    "broadcast_shape",
]
