"""Arguments under the names that they had in 1.x."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["takes_old_name"]


def takes_old_name(new: str, old: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function takes the argument `new` under the name `old`, too, with a DeprecationWarning.

    Examples:
        >>> from paddle._basics.old_arguments import takes_old_name
        >>> @takes_old_name("state_dict", "stat_dict")
        ... def load(state_dict):
        ...     return state_dict
        >>> load(stat_dict=1)
        1
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                warnings.warn(
                    f"`{old}` is the old name of the argument `{new}`",
                    DeprecationWarning,
                    stacklevel=2,
                )
                if new in kwargs:
                    raise TypeError(f"{func.__qualname__}: {new} is given twice, also as {old}")
                kwargs[new] = kwargs.pop(old)
            return func(*args, **kwargs)

        return wrapper

    return decorate
