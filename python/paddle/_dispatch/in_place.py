"""The in-place functions (`relu_`): in place in dygraph mode, the function of the same name without underscore in
static mode.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from paddle._basics import mode

__all__: list[str] = []


def in_place_in_dygraph(plain: Callable) -> Callable:
    """A decorator: in static mode `plain` is called instead, with a warning."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def chosen(*args, **kwargs):
            if not mode.in_static_mode():
                return func(*args, **kwargs)
            warnings.warn(
                f"{func.__name__}: nothing is done in place in a Program; this is {plain.__name__}",
                stacklevel=2,
            )
            return plain(*args, **kwargs)

        return chosen

    return decorate
