"""The builder of a Program from dygraph code: while one is active, eager Tensors stand for Variables of its Program.

`paddle.jit` sets it. Layers and the functions that append operators read it.
"""

from __future__ import annotations

from typing import Any

from paddle._basics import mode

__all__: list[str] = []

#: the active builder, None outside of to_static
current: Any = None


def switch(builder: Any) -> Any:
    """Make `builder` the active one; returns the previous one."""
    global current
    former, current = current, builder
    return former


def number(var: Any) -> Any:
    """`var`, which stands for a number of Python: arithmetic converts it to the data type of the other operand."""
    var.is_number = True
    return var


def is_number(var: Any) -> bool:
    """Whether a Variable stands for a number of Python."""
    return getattr(var, "is_number", False)


def converted(function: Any) -> Any:
    """A function that library code calls, translated while a Program is built."""
    if current is None or not mode.in_static_mode():
        return function
    return current.converted(function)
