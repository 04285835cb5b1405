"""Comparisons and logic."""
from __future__ import annotations

import paddle._core as _core
from paddle import _ops
from paddle._basics.checks import check_type
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype

_static = _core.in_static_mode
_KINDS = ["bool", "float16", "float32", "float64", "int32", "int64"]


def _compare(op_type: str, sign: str):
    builtin = getattr(_ops, op_type)

    def function(x, y, name=None):
        if _static():
            check_variable_and_dtype(x, "x", _KINDS, op_type)
            check_variable_and_dtype(y, "y", _KINDS, op_type)
            out = named(name, builtin, x, y)
            out.stop_gradient = True
            return out
        return builtin(x, y)

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


def _logical(op_type: str, summary: str, takes_two: bool):
    builtin = getattr(_ops, op_type)
    kinds = ["bool"]

    def run(name, out, *inputs):
        if _static():
            for v, what in zip(inputs, "xy", strict=False):
                check_variable_and_dtype(v, what, kinds, op_type)
            check_type(out, "out", (Variable, type(None)), op_type)
            return named(name, builtin, *inputs, Out=out) if out is not None else named(name, builtin, *inputs)
        return builtin(*inputs) if out is None else builtin(*inputs, Out=out)

    if takes_two:
        def function(x, y, out=None, name=None):
            return run(name, out, x, y)
    else:
        def function(x, out=None, name=None):  # type: ignore[misc]
            return run(name, out, x)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"""{summary}, element by element.

    Args:
        x (and y) (Tensor): bools; broadcast as numpy does.
        out (Tensor, optional): takes the result.
    """
    return function


_COMPARISONS = {
    op_type: _compare(op_type, sign)
    for op_type, sign in (
        ("equal", "=="),
        ("not_equal", "!="),
        ("less_than", "<"),
        ("less_equal", "<="),
        ("greater_than", ">"),
        ("greater_equal", ">="),
    )
    if hasattr(_ops, op_type)
}
_LOGIC = {
    op_type: _logical(op_type, summary, takes_two)
    for op_type, summary, takes_two in (
        ("logical_and", "x and y", True),
        ("logical_or", "x or y", True),
        ("logical_xor", "Either x or y", True),
        ("logical_not", "Not x", False),
    )
    if hasattr(_ops, op_type)
}
globals().update(_COMPARISONS)
globals().update(_LOGIC)


def is_tensor(x) -> bool:
    """Whether `x` is a Tensor (in static mode: a Variable)."""
    return isinstance(x, Variable)


__all__ = [*_COMPARISONS, *_LOGIC, "is_tensor"]
