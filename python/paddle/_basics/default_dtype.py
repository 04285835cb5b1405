"""The default element type, of Python floats and parameters."""

from __future__ import annotations

from paddle._basics import numpy as np

__all__: list[str] = []

_name = "float32"


def set_default_dtype(d) -> None:
    """Set the element type of tensors made from Python floats: float16, float32 (the initial one) or float64.

    Raises:
        TypeError: for another type.

    Examples:
        >>> import paddle
        >>> paddle.set_default_dtype("float64")
        >>> paddle.get_default_dtype()
        'float64'
        >>> paddle.set_default_dtype("float32")
    """
    name = d.__name__ if isinstance(d, type) and d in (np.float16, np.float32, np.float64) else str(d)
    if name not in ("float16", "float32", "float64"):
        raise TypeError(
            "set_default_dtype: d must be float16, float32 or float64, got "
            f"{d.__name__ if isinstance(d, type) else d!s:.200}"
        )
    global _name
    _name = name


def get_default_dtype() -> str:
    """The name of the element type set by `set_default_dtype`."""
    return _name
