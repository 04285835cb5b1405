"""The decorator `deprecated`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["deprecated"]

_F = TypeVar("_F", bound=Callable)


def deprecated(update_to: str = "", since: str = "", reason: str = "") -> Callable[[_F], _F]:
    """Adds a deprecation notice to a function's docstring; as in 2.0.2, calls do not warn.

    Args:
        update_to (str): the replacement, starting with ``paddle.``.
        since (str): the version of the deprecation.
        reason (str): the reason.

    Raises:
        AssertionError: for other types, or an `update_to` outside of paddle.

    Examples:
        >>> import paddle
        >>> @paddle.utils.deprecated(update_to="paddle.add", since="2.0.0")
        ... def plus(x, y):
        ...     "Adds."
        >>> print(plus.__doc__.strip().splitlines()[0][:40])
        Warning: API "paddle.utils.deprecated.pl
    """

    def decorate(func: _F) -> _F:
        for name, value in (("update_to", update_to), ("since", since), ("reason", reason)):
            assert isinstance(value, str), f'type of "{name}" must be str, got {type(value)}'
        target = update_to.strip()
        assert not target or target.startswith("paddle."), (
            f'Argument update_to must start with "paddle.", your value is "{target}"'
        )
        text = f'API "{func.__module__}.{func.__name__}" is deprecated'
        text += f" since {since.strip()}" if since.strip() else ""
        text += ", and will be removed in future versions."
        text += f' Please use "{target}" instead.' if target else ""
        text += f"\n reason: {reason.strip()}" if reason.strip() else ""
        if func.__doc__:
            func.__doc__ = f"\n\nWarning: {text}\n{func.__doc__}"
        return func

    return decorate
