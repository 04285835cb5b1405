"""Helpers that user code and tests of fluid.layers import."""

from paddle._basics.structure import (
    assert_same_structure,
    copy_mutable_vars,
    flatten,
    hold_mutable_vars,
    is_sequence,
    map_structure,
    pack_sequence_as,
)
from paddle._dispatch.arguments import contains_variable as _contain_var
from paddle._dispatch.arguments import convert_to_list, filled, split_list  # noqa: F401
from paddle._programs.variable_checks import check_shape

__all__ = [
    "_contain_var",
    "assert_same_structure",
    "check_shape",
    "convert_to_list",
    "copy_mutable_vars",
    "flatten",
    "hold_mutable_vars",
    "is_sequence",
    "map_structure",
    "pack_sequence_as",
]
