"""paddle.version: the version of the API that this package implements."""

from __future__ import annotations

__all__ = ["mkl", "show"]

full_version = "2.0.2"
major, minor, patch, rc = "2", "0", "2", "0"
istaged = True
commit = "Unknown"
with_mkl = "OFF"


def show() -> None:
    """Prints the version.

    Examples:
        >>> import paddle
        >>> paddle.version.show()
        full_version: 2.0.2
        major: 2
        minor: 0
        patch: 2
        rc: 0
    """
    for name in ("full_version", "major", "minor", "patch", "rc"):
        print(f"{name}: {globals()[name]}")


def mkl() -> str:
    """Whether Intel's MKL is used: always "OFF"."""
    return with_mkl
