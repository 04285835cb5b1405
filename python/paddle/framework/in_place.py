"""Functions whose name ends in an underscore: in place in dygraph mode, the plain function in static mode."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from . import mode

__all__: list[str] = []


def in_place_in_dygraph(plain: Callable) -> Callable:
    """A decorator: in static mode `plain` is called instead, with a warning."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def chosen(*args, **kwargs):
            if mode.in_dygraph_mode():
                return func(*args, **kwargs)
            warnings.warn(
                f"In static graph mode, {func.__name__}() is the same as {plain.__name__}() and does not perform "
                "inplace operation.",
                stacklevel=2,
            )
            return plain(*args, **kwargs)

        return chosen

    return decorate
