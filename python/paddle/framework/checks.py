"""Checks of arguments that static mode makes while a Program is built, with 2.0.2's kinds of errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from paddle import _core as core

from . import mode
from .dtypes import convert_dtype
from .variable import Variable

__all__: list[str] = []


def _advice(extra_message: str) -> str:
    return f" {extra_message}" if extra_message else ""


def check_type(input: Any, input_name: str, expected_type, op_name: str, extra_message: str = "") -> None:  # noqa: A002
    """TypeError unless `input` is of `expected_type` (a type or a tuple); nothing is checked in dygraph mode."""
    if mode.in_dygraph_mode():
        return
    if not isinstance(input, expected_type):
        if isinstance(input, core.Tensor):
            raise TypeError(
                "Please use `with fluid.dygraph.guard()` around this call, or paddle.disable_static() before it: "
                f"{op_name} was called in static mode, but '{input_name}' is a Tensor of dygraph mode."
            )
        raise TypeError(
            f"The type of '{input_name}' in {op_name} must be {expected_type}, but received {type(input)}. "
            + extra_message
        )


def check_dtype(input_dtype, input_name: str, expected_dtype, op_name: str, extra_message: str = "") -> None:
    """TypeError unless the element type is among `expected_dtype` (names); nothing is checked in dygraph mode."""
    if mode.in_dygraph_mode():
        return
    name = convert_dtype(input_dtype)
    if name == "float16":
        warnings.warn(
            f"The data type of '{input_name}' in {op_name} is float16, which runs on GPU at full speed only."
            + _advice(extra_message),
            stacklevel=3,
        )
    if name not in expected_dtype:
        raise TypeError(
            f"{op_name}: {input_name} must have dtype {expected_dtype}, got {name}"
            + _advice(extra_message)
        )


def check_variable_and_dtype(
    input: Any, input_name: str, expected_dtype, op_name: str, extra_message: str = ""
) -> None:  # noqa: A002, E501
    """TypeError unless `input` is a Variable with an element type among `expected_dtype`."""
    if mode.in_dygraph_mode():
        return
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


def check_shape(
    shape: Any,
    op_name: str,
    expected_shape_type=(list, tuple, Variable),
    expected_element_type=(int, Variable),
    expected_tensor_dtype=("int32", "int64"),
) -> None:  # noqa: E501
    """TypeError unless `shape` is a list or tuple of sizes, Variables among them allowed, or a Variable of integers."""
    if mode.in_dygraph_mode():
        return
    check_type(shape, "shape", expected_shape_type, op_name)
    if isinstance(shape, Variable):
        check_dtype(shape.dtype, "shape", expected_tensor_dtype, op_name)
        return
    for item in shape:
        if isinstance(item, np.integer):
            continue
        check_type(item, "element of shape", expected_element_type, op_name)
        if isinstance(item, Variable):
            check_dtype(item.dtype, "element of shape", expected_tensor_dtype, op_name)
