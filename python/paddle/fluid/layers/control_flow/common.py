"""Tensor arrays, counters, comparisons and assertions of fluid.layers.control_flow."""

from __future__ import annotations

from paddle import _ops
from paddle._basics import mode
from paddle._basics.checks import check_type
from paddle._basics.element_types import BOOL_NUMERIC, NUMERIC, takes
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import named
from paddle._programs import guards
from paddle._programs.variable import Variable, isinstance_of
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor import array as arrays
from paddle.tensor import logic

__all__ = [
    "Assert",
    "create_array",
    "equal",
    "greater_equal",
    "greater_than",
    "increment",
    "is_empty",
    "less_equal",
    "less_than",
    "not_equal",
]


def create_array(dtype):
    """An empty array of tensors of type `dtype`; in dygraph mode a Python list."""
    mode.choose_static()
    return arrays.create_array(dtype)


def increment(x, value=1.0, in_place=True):
    """x + value; in place by default.

    Args:
        x (Variable): one element; float32, float64, int32 or int64.
        value (float): the increment.
        in_place (bool): write `x` itself.

    Returns:
        Variable.

    Examples:
        >>> import paddle.fluid as fluid
        >>> with fluid.dygraph.guard():
        ...     int(fluid.layers.increment(fluid.layers.fill_constant([1], "int64", 3)))
        4
    """
    check_variable_and_dtype(x, "x", takes("increment"), "increment")
    return _ops.increment(x, step=float(value), Out=x if in_place else None)


def _compare(op_type, x, y, cond, name, dtypes=NUMERIC, **attrs):  # noqa: A002
    check_variable_and_dtype(x, "x", dtypes, op_type)
    check_variable_and_dtype(y, "y", dtypes, op_type)
    if cond is not None:
        check_type(cond, "cond", Variable, op_type)
    out = named(name, getattr(_ops, op_type), x, y, Out=cond, **attrs)
    out.stop_gradient = True
    return out


def is_empty(x, name=None, cond=None):
    """Whether a Variable has no elements, as one bool; written to `cond` if given.

    Args:
        x (Variable): float32, float64, int32 or int64.
        name (str, optional): a name for the output; a Variable is `cond`, as in 1.8.
        cond (Variable, optional): bool; receives the result.

    Returns:
        Variable: bool, [1].

    Raises:
        TypeError: for an `x` or a `cond` of another type.

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.is_empty(paddle.zeros([0, 2])).numpy().tolist()
        [True]
    """
    if isinstance_of(name, Variable):
        name, cond = None, name
    if cond is None:
        return logic.is_empty(x, name)
    check_variable_and_dtype(x, "x", takes("is_empty"), "is_empty")
    check_variable_and_dtype(cond, "cond", ["bool"], "is_empty")
    out = named(name, _ops.is_empty, x, Out=cond)
    out.stop_gradient = True
    return out


def less_than(x, y, force_cpu=None, cond=None, name=None):
    """x < y, element by element; written to `cond` if given.

    Args:
        x, y (Variable): float32, float64, int32 or int64; broadcastable.
        force_cpu (bool, optional): compute on the CPU.
        cond (Variable, optional): bool; receives the result.

    Returns:
        Variable: bool.
    """
    if force_cpu is not None:
        check_type(force_cpu, "force_cpu", bool, "less_than")
    return _compare("less_than", x, y, cond, name, force_cpu=force_cpu)


def less_equal(x, y, cond=None, name=None):
    """x <= y; arguments as of :func:`less_than`."""
    return _compare("less_equal", x, y, cond, name)


def greater_than(x, y, cond=None, name=None):
    """x > y; arguments as of :func:`less_than`."""
    return _compare("greater_than", x, y, cond, name)


def greater_equal(x, y, cond=None, name=None):
    """x >= y; arguments as of :func:`less_than`."""
    return _compare("greater_equal", x, y, cond, name)


def equal(x, y, cond=None, name=None):
    """x == y; arguments as of :func:`less_than`."""
    return _compare("equal", x, y, cond, name, BOOL_NUMERIC)


def not_equal(x, y, cond=None, name=None):
    """x != y; arguments as of :func:`less_than`."""
    return _compare("not_equal", x, y, cond, name, BOOL_NUMERIC)


def Assert(cond, data=None, summarize=20, name=None):  # noqa: N802
    """Stops a run with an error if a condition is False, and prints tensors.

    Args:
        cond (Variable): a bool of shape [1].
        data (list|tuple of Variable, optional): tensors to print.
        summarize (int): number of elements to print; -1: all.
        name (str, optional): ignored.

    Returns:
        Operator: in a Program, the appended operator.

    Raises:
        ValueError: in a run, if the condition is False.

    Examples:
        >>> import paddle.fluid as fluid
        >>> fluid.layers.Assert(fluid.layers.fill_constant([1], "bool", True))
    """
    check_variable_and_dtype(cond, "cond", ["bool"], "fluid.layers.Assert")
    check_type(data, "data", (list, tuple, type(None)), "fluid.layers.Assert")
    check_type(summarize, "summarize", int, "fluid.layers.Assert")
    check_type(name, "name", (str, type(None)), "fluid.layers.Assert")
    tensors = [] if data is None else list(data)
    if not in_static_mode():
        getattr(_ops, "assert")(cond, tensors, summarize=summarize)
        return None
    block = guards.default_main_program().current_block()
    return block.append_op(
        type="assert", inputs={"Cond": cond, "Data": tensors}, outputs={}, attrs={"summarize": summarize}
    )
