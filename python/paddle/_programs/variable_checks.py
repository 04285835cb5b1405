"""Checks of Variables as arguments while a Program is built; `_basics.checks` has the checks of other values."""

from __future__ import annotations

from typing import Any

from paddle._basics import mode
from paddle._basics import numpy as np
from paddle._basics.checks import check_dtype, check_type

from .variable import Variable

__all__: list[str] = []


def check_variable_and_dtype(
    input: Any, input_name: str, expected_dtype, op_name: str, extra_message: str = ""
) -> None:  # noqa: A002, E501
    """TypeError unless `input` is a Variable with an element type among `expected_dtype`."""
    if not mode.in_static_mode():
        return
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def check_variables(op_name: str, expected_dtype, **variables: Any) -> None:
    """`check_variable_and_dtype` of several Variables by their names."""
    for name, value in variables.items():
        check_variable_and_dtype(value, name, expected_dtype, op_name)


def check_shape(
    shape: Any,
    op_name: str,
    expected_shape_type=(list, tuple, Variable),
    expected_element_type=(int, Variable),
    expected_tensor_dtype=("int32", "int64"),
) -> None:  # noqa: E501
    """TypeError unless `shape` is a list or tuple of integers and Variables, or an integer Variable; AssertionError for
    an empty list.
    """
    if not mode.in_static_mode():
        return
    check_type(shape, "shape", expected_shape_type, op_name)
    if isinstance(shape, Variable):
        check_dtype(shape.dtype, "shape", expected_tensor_dtype, op_name)
        return
    assert len(shape) > 0, f"{op_name}: the size of 'shape' can't be zero"
    for item in shape:
        if isinstance(item, np.integer):
            continue
        check_type(item, "element of shape", expected_element_type, op_name)
        if isinstance(item, Variable):
            check_dtype(item.dtype, "element of shape", expected_tensor_dtype, op_name)
