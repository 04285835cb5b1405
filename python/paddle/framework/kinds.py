"""Questions about modes and objects, asked by the pure-Python parts.

Layers, initializers, loaders and schedulers are imported while `paddle` itself is still being imported, so
they may not name the Tensor or Program classes at import time. They ask here; each answer looks the name up
when it is needed.
"""

from __future__ import annotations

import warnings
from typing import Any

# Layer.train()/eval() set it; the fluid functions that have no `training` argument (dropout, batch_norm) read it.
_train_mode = True


def in_dygraph_mode() -> bool:
    """True while operators run eagerly, False while they are appended to a Program."""
    import paddle

    return bool(paddle.in_dynamic_mode())


def set_train_mode(training: bool) -> None:
    """Remembers the mode that the last `Layer.train()` or `Layer.eval()` asked for."""
    global _train_mode
    _train_mode = training


def train_mode() -> bool:
    """The mode that the last `Layer.train()` or `Layer.eval()` asked for."""
    return _train_mode


def is_tensor(value: object) -> bool:
    """True for an eager Tensor (a Parameter too)."""
    import paddle

    return isinstance(value, paddle.Tensor)


def is_parameter(value: object) -> bool:
    """True for a parameter: an eager one or one of a Program."""
    from paddle.framework import Parameter

    return isinstance(value, Parameter)


def is_variable(value: object) -> bool:
    """True for a Variable of a Program or an eager Tensor."""
    from paddle.framework import Variable

    return isinstance(value, Variable) or is_tensor(value)


def is_static_variable(value: object) -> bool:
    """True for a Variable of a Program only."""
    from paddle.framework import Variable

    return isinstance(value, Variable) and not is_tensor(value)


def is_block(value: object) -> bool:
    """True for a Block of a Program."""
    from paddle.framework import Block

    return isinstance(value, Block)


def is_selected_rows(value: Any) -> bool:
    """True for a gradient that holds only the rows that were looked up."""
    kind = getattr(value, "type", None)
    return getattr(kind, "name", None) == "SELECTED_ROWS"


def default_main_program() -> Any:
    """The Program that operators are appended to."""
    from paddle.framework import default_main_program as program

    return program()


def global_scope() -> Any:
    """The Scope that the executor uses by default."""
    from paddle.framework import global_scope as scope

    return scope()


def dtype_name(dtype: Any) -> str:
    """The numpy name of an element type: "float32" for paddle.float32, np.float32, "float32"."""
    from paddle.framework import convert_dtype

    return convert_dtype(dtype)


def check_type(value: object, name: str, expected: type | tuple[type, ...], op: str, extra: str = "") -> None:
    """Raises TypeError in static mode if `value` is no `expected`; eager calls are not checked, as in 2.0.2."""
    if in_dygraph_mode():
        return
    if not isinstance(value, expected):
        raise TypeError(f"The type of '{name}' in {op} must be {expected}, but received {type(value)}. {extra}")


def check_variable_and_dtype(value: Any, name: str, expected: list[str], op: str, extra: str = "") -> None:
    """Raises TypeError in static mode if `value` is no Variable with one of the `expected` element types."""
    if in_dygraph_mode():
        return
    if is_tensor(value):
        raise TypeError(
            "Please use `with fluid.dygraph.guard()` as context or `fluid.enable_dygraph()` to switch to imperative "
            f"mode firstly. Because received '{name}' in {op} is a imperative Variable."
        )
    if not is_variable(value):
        raise TypeError(f"The type of '{name}' in {op} must be Variable, but received {type(value)}. {extra}")
    dtype = dtype_name(value.dtype)
    if dtype == "float16":
        warnings.warn(f"The data type of '{name}' in {op} only support float16 in GPU now. {extra}", stacklevel=3)
    if dtype not in expected:
        raise TypeError(f"The data type of '{name}' in {op} must be {expected}, but received {dtype}. {extra}")
