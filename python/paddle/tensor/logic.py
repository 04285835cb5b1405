"""Comparisons, logical operators and predicates."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.element_types import HALF_NUMERIC
from paddle._basics.mode import in_static_mode
from paddle._core import Tensor
from paddle._dispatch.append import checked, named
from paddle._dispatch.argument_checks import check_arguments
from paddle._programs.variable import Variable


def _compare(op_type: str, sign: str):
    builtin = getattr(_ops, op_type)

    def function(x, y, name=None):
        if not in_static_mode():
            return builtin(x, y)
        out = checked(name, builtin, x, y)
        out.stop_gradient = True
        return out

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""x {sign} y, element by element, as bools.

    Args:
        x, y (Tensor): of one type; broadcast as numpy does.

    Examples:
        >>> import paddle
        >>> paddle.{op_type}(paddle.to_tensor([1, 2]), paddle.to_tensor([2, 2])).shape
        [2]
    """
    return function


def _logical(op_type: str, summary: str, binary: bool):
    builtin = getattr(_ops, op_type)

    def run(name, out, *inputs):
        check_arguments(op_type, out)
        return named(name, builtin, *inputs) if out is None else named(name, builtin, *inputs, Out=out)

    if binary:

        def function(x, y, out=None, name=None):
            return run(name, out, x, y)
    else:

        def function(x, out=None, name=None):  # type: ignore[misc]
            return run(name, out, x)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{summary}, element by element.

    Args:
        x (and y) (Tensor): bools; broadcast as numpy does.
        out (Tensor, optional): receives the result.
    """
    return function


equal = _compare("equal", "==")
not_equal = _compare("not_equal", "!=")
less_than = _compare("less_than", "<")
less_equal = _compare("less_equal", "<=")
greater_than = _compare("greater_than", ">")
greater_equal = _compare("greater_equal", ">=")
logical_and = _logical("logical_and", "x and y", binary=True)
logical_or = _logical("logical_or", "x or y", binary=True)
logical_xor = _logical("logical_xor", "Either x or y", binary=True)
logical_not = _logical("logical_not", "Not x", binary=False)


def is_tensor(x) -> bool:
    """Whether `x` is a Tensor (in static mode: a Variable)."""
    return isinstance(x, Variable)


def _predicate(name_: str, summary: str):
    builtin = getattr(_ops, f"{name_}_v2")

    def function(x, name=None):
        return named(name, builtin, x)

    function.__name__ = function.__qualname__ = name_
    function.__doc__ = f"""Whether each element is {summary}.

    Args:
        x (Tensor): {", ".join(HALF_NUMERIC)}.
        name (str, optional): a name for the output in static mode.

    Returns:
        Tensor: bools of the shape of `x`.

    Examples:
        >>> import paddle
        >>> paddle.{name_}(paddle.to_tensor([0.5, float("inf"), float("nan")])).shape
        [3]
    """
    return function


isfinite = _predicate("isfinite", "finite")
isinf = _predicate("isinf", "infinite")
isnan = _predicate("isnan", "NaN")


def allclose(x, y, rtol=1e-05, atol=1e-08, equal_nan=False, name=None) -> Tensor:
    """Whether abs(x - y) <= atol + rtol * abs(y) for all elements, as one bool.

    Args:
        x, y (Tensor): of the same shape and type: float32 or float64.
        rtol, atol (float): the tolerances.
        equal_nan (bool): whether NaN equals NaN.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([1.0, 2.0])
        >>> paddle.allclose(x, x + 1e-9).numpy().tolist()
        [True]
    """
    check_arguments("allclose", rtol, atol, equal_nan)
    return named(name, _ops.allclose, x, y, rtol=str(rtol), atol=str(atol), equal_nan=equal_nan)


def equal_all(x, y, name=None) -> Tensor:
    """Whether two Tensors have the same shape and equal elements (floating-point ones within 1e-8), as one bool.

    Args:
        x, y (Tensor): of one type: bool, float32, float64, int32 or int64.

    Examples:
        >>> import paddle
        >>> paddle.equal_all(paddle.to_tensor([1, 2]), paddle.to_tensor([1, 3])).numpy().tolist()
        [False]
    """
    return named(name, _ops.equal_all, x, y)


def is_empty(x, name=None) -> Tensor:
    """Whether a Tensor has no elements, as one bool.

    Args:
        x (Tensor): float32, float64, int32 or int64.

    Examples:
        >>> import paddle
        >>> paddle.is_empty(paddle.zeros([0, 2])).numpy().tolist()
        [True]
    """
    check_arguments("is_empty", name)
    out = checked(name, _ops.is_empty, x)
    out.stop_gradient = True
    return out


__all__ = [
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "isfinite",
    "isinf",
    "isnan",
    "allclose",
    "equal_all",
    "is_empty",
    "is_tensor",
]
