"""Activations and other functions of one tensor: rows of a table."""

from __future__ import annotations

from paddle import _ops
from paddle._append import named
from paddle.framework.checks import check_type, check_variable_and_dtype
from paddle.framework.variable import Variable

_FLOATS = ["float16", "float32", "float64"]
_INTS = [*_FLOATS, "int32", "int64"]


def _make(op_type: str, summary: str, dtypes: list[str]):
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


_ROWS = [
    ("exp", "e to the power x", _FLOATS),
    ("tanh", "The hyperbolic tangent", _FLOATS),
    ("sqrt", "The square root", _FLOATS),
    ("rsqrt", "1 / sqrt(x)", _FLOATS),
    ("abs", "The absolute value", _INTS),
    ("floor", "The greatest integer not above x", _FLOATS),
    ("cos", "The cosine", _FLOATS),
    ("sin", "The sine", _FLOATS),
    ("reciprocal", "1 / x", _FLOATS),
    ("square", "x * x", _INTS),
    ("sigmoid", "1 / (1 + exp(-x))", _FLOATS),
    ("logsigmoid", "log(sigmoid(x))", _FLOATS),
    ("softplus", "log(1 + exp(x))", _FLOATS),
    ("erf", "The error function", _FLOATS),
]

# an operator that this build does not have leaves its function out
_MADE = {name: _make(name, summary, dtypes) for name, summary, dtypes in _ROWS if hasattr(_ops, name)}
globals().update(_MADE)
__all__ = [*_MADE, "cumsum", "gelu"]


def gelu(x, approximate=False):
    """x times the normal distribution's cumulative function, or the tanh form of it.

    Args:
        x (Variable): float16, float32 or float64.
        approximate (bool): use 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """
    check_variable_and_dtype(x, "x", _FLOATS, "gelu")
    return _ops.gelu(x, approximate=approximate)


def cumsum(x, axis=None, exclusive=None, reverse=None):
    """Running sums along `axis` (the last when None).

    Args:
        x (Variable): what to sum.
        exclusive (bool, optional): leave each element itself out.
        reverse (bool, optional): sum from the end.
    """
    check_type(x, "x", Variable, "cumsum")
    return _ops.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse)
