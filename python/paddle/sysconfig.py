"""paddle.sysconfig: the folders of real Paddle's headers and libraries."""

from __future__ import annotations

import os

__all__ = ["get_include", "get_lib"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """The folder of the C++ headers; it does not exist, since this package has none.

    Examples:
        >>> import os, paddle
        >>> os.path.basename(paddle.sysconfig.get_include())
        'include'
    """
    return os.path.join(_PACKAGE, "include")


def get_lib() -> str:
    """The folder of the C++ libraries; it does not exist, since this package has none."""
    return os.path.join(_PACKAGE, "libs")
