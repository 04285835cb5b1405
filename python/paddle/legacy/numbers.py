"""Arrays of one element as arguments of `float`, `int`, `%` and `format`: with numpy 2.4 they convert to no number."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import changes

__all__ = ["operands", "single"]


def _array_type() -> Any:
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "ndarray", None)


def single(value: Any) -> Any:
    """`value`; an array of one element that has a dimension as one that converts to a number."""
    kind = type(value)
    if kind is _array_type() and value.ndim and value.size == 1:
        OneElement = importlib.import_module("paddle._basics.one_element").OneElement
        changes.note(f"an array of shape {value.shape} is converted to a number")
        return value.view(OneElement)
    return value


def operands(value: Any) -> Any:
    """The right operand of `%`: `single` of it, or of the items of a tuple or dict."""
    kind = type(value)
    if kind is tuple:
        return tuple([single(item) for item in value])
    if kind is dict:
        return {key: single(item) for key, item in value.items()}
    return single(value)
