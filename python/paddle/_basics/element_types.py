"""Sets of element types that functions accept.

`takes` reads the operator's row of the table. The sets below are for functions that accept fewer types than their
operator, and for operands other than the first: 2.0.2 refuses other types with a TypeError, which its tests expect.
"""

from __future__ import annotations

from functools import cache

import paddle._core as _core

__all__: list[str] = []

FLOATS = ("float32", "float64")
HALF_FLOATS = ("float16", *FLOATS)
INDICES = ("int32", "int64")
NUMERIC = (*FLOATS, *INDICES)
HALF_NUMERIC = ("float16", *NUMERIC)
BOOL_NUMERIC = ("bool", *NUMERIC)
BOOL_HALF_NUMERIC = ("bool", *HALF_NUMERIC)
#: types with an order
ORDERED = (*NUMERIC, "int16", "uint8")


@cache
def takes(op_type: str) -> tuple[str, ...]:
    """The element types that the first input of an operator may have."""
    return tuple(_core.op_dtypes(op_type))
