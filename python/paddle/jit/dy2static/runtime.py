"""The functions that translated code calls."""

from .branches import choose, run_if
from .convert_call_func import convert_call, list_append, list_pop
from .convert_operators import (
    compare,
    convert_logical_and,
    convert_logical_not,
    convert_logical_or,
    get_item,
    run_assert,
    set_item,
    shape_of,
    unpack,
    unrolled,
    value_of,
)
from .loops import run_for, run_while
from .values import UNBOUND, set_attribute, values

__all__ = [
    "UNBOUND",
    "choose",
    "compare",
    "convert_call",
    "convert_logical_and",
    "convert_logical_not",
    "convert_logical_or",
    "get_item",
    "list_append",
    "list_pop",
    "run_assert",
    "run_for",
    "run_if",
    "run_while",
    "set_attribute",
    "set_item",
    "shape_of",
    "unpack",
    "unrolled",
    "value_of",
    "values",
]
