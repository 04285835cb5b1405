"""The version of Paddle's API that this package implements, and the check against it."""

from __future__ import annotations

import re
import warnings

from paddle import version

__all__ = ["require_version"]

_FORMAT = r"\d+(\.\d+){0,3}"


def _numbers(version: str) -> tuple[int, ...]:
    parts = [int(n) for n in version.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def require_version(min_version, max_version=None) -> None:
    """Check that the implemented version (2.0.2) is within two bounds.

    Args:
        min_version (str): the lowest version, such as "1.4.0".
        max_version (str, optional): the highest version.

    Raises:
        TypeError: for other types. ValueError: for another form. Exception: when the version is out of bounds.

    Examples:
        >>> import paddle
        >>> paddle.fluid.require_version("1.6")
    """
    for name, value, optional in (("min_version", min_version, False), ("max_version", max_version, True)):
        if value is None and optional:
            continue
        if not isinstance(value, str):
            kinds = "str or type(None)" if optional else "str"
            raise TypeError(f"The type of '{name}' in require_version must be {kinds}, but received {type(value)}.")
        if not re.fullmatch(_FORMAT, value):
            raise ValueError(
                f"The value of '{name}' in require_version must be in format '{_FORMAT}', like '1.5.2.0', "
                f"but received {value}"
            )
    name = version.full_version
    installed = _numbers(".".join([version.major, version.minor, version.patch, version.rc]))
    if not any(installed):
        warnings.warn(f"PaddlePaddle {name} has no version to compare with {min_version}", stacklevel=2)
        return
    if max_version is not None and not _numbers(min_version) <= installed <= _numbers(max_version):
        raise Exception(
            f"VersionError: PaddlePaddle version in [{min_version}, {max_version}] required, but {name} installed."
        )
    if installed < _numbers(min_version):
        raise Exception(f"this is PaddlePaddle {name}, but {min_version} or higher is required")
