"""Variables in place of Python values."""

from __future__ import annotations

import ast
from typing import Any

from paddle._basics.dtypes import VarType
from paddle._programs.guards import default_main_program

from .values import constant, is_var

__all__ = [
    "create_bool_as_type",
    "create_fill_constant_node",
    "create_static_variable_gast_node",
    "data_layer_not_check",
    "to_static_variable",
    "to_static_variable_gast_node",
]


def data_layer_not_check(name: str, shape: Any, dtype: Any = "float32", lod_level: int = 0) -> Any:
    """A data Variable of the global block whose feed is not checked.

    Args:
        name (str): its name.
        shape (list|tuple): its sizes; None or -1 where any may come.
        dtype: its element type.
        lod_level (int): its number of LoD levels.
    """
    sizes = [-1 if size is None else size for size in shape]
    return (
        default_main_program()
        .global_block()
        .create_var(
            name=name,
            shape=sizes,
            dtype=dtype,
            type=VarType.LOD_TENSOR,
            stop_gradient=True,
            lod_level=lod_level,
            is_data=True,
            need_check_feed=False,
        )
    )


def to_static_variable(x: Any) -> Any:
    """A bool, int or float as a Variable of bool, int64 or float64; other values as they are."""
    if isinstance(x, bool):
        return constant([1], "bool", x)
    if isinstance(x, float):
        return constant([1], "float64", x)
    if isinstance(x, int):
        return constant([1], "int64", x)
    return x


def create_bool_as_type(x: Any, value: bool = True) -> Any:
    """`value` as a bool Variable where `x` is a Variable, else `value`."""
    return constant([1], "bool", value) if is_var(x) else value


def _statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def to_static_variable_gast_node(name: str) -> ast.stmt:
    """The statement that makes a Variable of a name's value."""
    return _statement(f"{name} = paddle.jit.dy2static.to_static_variable({name})")


def create_static_variable_gast_node(name: str) -> ast.stmt:
    """The statement that binds a name to a Variable of unknown size."""
    return _statement(f"{name} = paddle.jit.dy2static.data_layer_not_check(name='{name}', shape=[-1], dtype='float32')")


def create_fill_constant_node(name: str, value: Any) -> ast.stmt | None:
    """The statement that binds a name to a Variable with a bool, int or float; None for other values."""
    kinds = ((bool, "bool"), (float, "float64"), (int, "int64"))
    dtype = next((dtype for kind, dtype in kinds if isinstance(value, kind)), None)
    if dtype is None:
        return None
    return _statement(f"{name} = paddle.fluid.layers.fill_constant(shape=[1], dtype='{dtype}', value={value})")
