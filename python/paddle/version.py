"""paddle.version: the version of the API that this package implements, and the build of the package."""

from __future__ import annotations

from paddle._core import build_info as _build_info

__all__ = ["mkl", "show"]

_BUILD = dict(_build_info)

full_version = "2.0.2"
major, minor, patch, rc = "2", "0", "2", "0"
istaged = True
commit = _BUILD["commit"]
with_mkl = "OFF"


def show() -> None:
    """Prints the version of the API, then the version, commit and build of the package `oar-paddle`.

    The commit is "unknown" for builds outside of ``make wheel``.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0/api/paddle/version/show_en.html

    Examples:
        >>> import paddle
        >>> paddle.version.show()  # doctest: +ELLIPSIS
        full_version: 2.0.2
        major: 2
        minor: 0
        patch: 2
        rc: 0
        oar-paddle: ...
        commit: ...
        build: ...
    """
    for name in ("full_version", "major", "minor", "patch", "rc"):
        print(f"{name}: {globals()[name]}")
    print(f"oar-paddle: {_BUILD['version']}")
    print(f"commit: {commit}")
    print(f"build: {_BUILD['profile']}, {_BUILD['platform']}")


def mkl() -> str:
    """Whether Intel's MKL is used: always "OFF"."""
    return with_mkl
