"""load_op_library: not supported."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["load_op_library"]


def load_op_library(lib_filename: str) -> NoReturn:
    """Operators compiled for real Paddle's C++ core cannot be loaded: raises NotImplementedError."""
    raise NotImplementedError(
        f"cannot load {lib_filename}: operator libraries are built for Paddle's own C++ core; write the operator "
        "with paddle.static.py_func instead"
    )
