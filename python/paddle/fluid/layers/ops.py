"""fluid.layers.ops: unary functions, generated from a table."""

from __future__ import annotations

from collections.abc import Sequence

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import HALF_FLOATS, HALF_NUMERIC, takes
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.fluid.layers.layer_function_generator import generate_layer_fn


def _make(op_type: str, summary: str, dtypes: Sequence[str]):
    builtin = getattr(_ops, op_type)

    def function(x, name=None):
        check_variable_and_dtype(x, "x", dtypes, op_type)
        return named(name, builtin, x)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{summary}, element by element.

    Args:
        x (Variable): {", ".join(dtypes)}.
        name (str, optional): a name for the output.

    Returns:
        Variable: of the shape and type of `x`.
    """
    return function


exp = _make("exp", "e to the power x", HALF_FLOATS)
tanh = _make("tanh", "The hyperbolic tangent", HALF_FLOATS)
sqrt = _make("sqrt", "The square root", HALF_FLOATS)
rsqrt = _make("rsqrt", "1 / sqrt(x)", HALF_FLOATS)
abs = _make("abs", "The absolute value", HALF_NUMERIC)  # noqa: A001
floor = _make("floor", "The greatest integer not above x", HALF_FLOATS)
cos = _make("cos", "The cosine", HALF_FLOATS)
sin = _make("sin", "The sine", HALF_FLOATS)
sinh = _make("sinh", "The hyperbolic sine", HALF_FLOATS)
cosh = _make("cosh", "The hyperbolic cosine", HALF_FLOATS)
asin = _make("asin", "The arc sine", HALF_FLOATS)
acos = _make("acos", "The arc cosine", HALF_FLOATS)
atan = _make("atan", "The arc tangent", HALF_FLOATS)
ceil = _make("ceil", "The least integer not below x", HALF_FLOATS)
round = _make("round", "The nearest integer, halves away from zero", HALF_FLOATS)  # noqa: A001
softsign = _make("softsign", "x / (1 + |x|)", HALF_FLOATS)
tanh_shrink = _make("tanh_shrink", "x - tanh(x)", HALF_FLOATS)
reciprocal = _make("reciprocal", "1 / x", HALF_FLOATS)
square = _make("square", "x * x", HALF_NUMERIC)
sigmoid = _make("sigmoid", "1 / (1 + exp(-x))", HALF_FLOATS)
logsigmoid = _make("logsigmoid", "log(sigmoid(x))", HALF_FLOATS)
softplus = _make("softplus", "log(1 + exp(x))", HALF_FLOATS)
erf = _make("erf", "The error function", HALF_FLOATS)
# 2.0.2 has these two here as well.
_scale, _elementwise_div = map(generate_layer_fn, ("scale", "elementwise_div"))
__all__ = [
    "exp",
    "tanh",
    "sqrt",
    "rsqrt",
    "abs",
    "floor",
    "cos",
    "sin",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "ceil",
    "round",
    "softsign",
    "tanh_shrink",
    "reciprocal",
    "square",
    "sigmoid",
    "logsigmoid",
    "softplus",
    "erf",
    "cumsum",
    "gelu",
    "hard_shrink",
    "softshrink",
    "thresholded_relu",
]


def gelu(x, approximate=False):
    """x times the cumulative distribution function of the normal distribution, or its tanh approximation.

    Args:
        x (Variable): float16, float32 or float64.
        approximate (bool): use 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """
    return _ops.gelu(x, approximate=approximate)


def cumsum(x, axis=None, exclusive=None, reverse=None):
    """Cumulative sums along `axis` (the last one if None).

    Args:
        x (Variable): the summands.
        exclusive (bool, optional): exclude each element itself.
        reverse (bool, optional): sum from the end.
    """
    check_type(x, "x", Variable, "cumsum")
    return _ops.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse)


def hard_shrink(x, threshold=None):
    """x where it is outside -threshold..threshold, 0 inside.

    Args:
        x (Variable): float16, float32 or float64.
        threshold (float, optional): default 0.5.
    """
    return _ops.hard_shrink(x, **_drop_none(threshold=threshold))


def softshrink(x, alpha=None):
    """Soft shrinkage: x moved towards 0 by alpha, 0 within -alpha..alpha.

    Args:
        x (Variable): float16, float32 or float64.
        alpha (float, optional): default 0.5.
    """
    return _ops.softshrink(x, **_drop_none(**{"lambda": alpha}))


def thresholded_relu(x, threshold=None):
    """x where it is above `threshold`, 0 elsewhere.

    Args:
        x (Variable): float16, float32 or float64.
        threshold (float, optional): default 1.0.
    """
    return _ops.thresholded_relu(x, **_drop_none(threshold=threshold))


def _drop_none(**attrs):
    return {name: value for name, value in attrs.items() if value is not None}
