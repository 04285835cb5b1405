"""Checks of arguments that static mode makes while a Program is built, with 2.0.2's kinds of errors."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, cast

import paddle._core as core
from paddle._basics import numpy as np

from . import autocast, mode
from .dtypes import convert_dtype

__all__: list[str] = []

#: the types of integers and of numbers among arguments, numpy's scalars included. For an object of another type
#: isinstance takes 0.2 us: callers that usually get lists test for lists first.
INTS = (int, cast("type[int]", Integral))
NUMBERS = (int, float, Real)


def check_positive(function: str, **sizes: Any) -> None:
    """ValueError for a size that is not above zero."""
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"{function}: {name} must be positive, got {size}")


def _advice(extra_message: str) -> str:
    return f" {extra_message}" if extra_message else ""


def check_type(input: Any, input_name: str, expected_type, op_name: str, extra_message: str = "") -> None:  # noqa: A002
    """TypeError unless `input` is of `expected_type` (a type or a tuple); nothing is checked in dygraph mode."""
    if not mode.in_static_mode():
        return
    kinds = expected_type if isinstance(expected_type, tuple) else (expected_type,)
    if isinstance(input, kinds):
        return
    # numpy's numbers are accepted; messages name Python's types
    if not (isinstance(input, np.integer) and int in kinds or isinstance(input, np.floating) and float in kinds):
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
    if not mode.in_static_mode():
        return
    name = convert_dtype(input_dtype)
    if name == autocast.low():
        return  # to_static under auto_cast: as in dygraph mode, the kernels decide
    if name == "float16":
        warnings.warn(
            f"The data type of '{input_name}' in {op_name} is float16, which runs on GPU at full speed only."
            + _advice(extra_message),
            stacklevel=3,
        )
    if name not in expected_dtype:
        raise TypeError(
            f"{op_name}: {input_name} must have dtype {expected_dtype}, got {name}" + _advice(extra_message)
        )
