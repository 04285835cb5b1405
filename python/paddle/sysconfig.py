"""paddle.sysconfig: where real Paddle has its headers and libraries."""

from __future__ import annotations

import os

__all__ = ["get_include", "get_lib"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """The folder of the C++ headers; this package has none, so there is no such folder.

    Examples:
        >>> import os, paddle
        >>> os.path.basename(paddle.sysconfig.get_include())
        'include'
    """
    return os.path.join(_PACKAGE, "include")


def get_lib() -> str:
    """The folder of the C++ libraries; this package has none, so there is no such folder."""
    return os.path.join(_PACKAGE, "libs")
