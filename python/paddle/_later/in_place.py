"""In-place functions of Paddle 2.1 to 2.6: `exp_` assigns the result of `exp`, with its gradient, to its argument.

In static mode they return the result, with a warning, as the in-place functions of 2.0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import paddle
import paddle.nn.functional as F
from paddle._basics.later_names import IN_PLACE
from paddle._dispatch.in_place import in_place_in_dygraph
from paddle.tensor.manipulation import computed_in_place

__all__: list[str] = []


def _made(name: str) -> Callable[..., Any]:
    plain = getattr(paddle, name[:-1], None) or getattr(F, name[:-1])

    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return computed_in_place(name, plain, x, *args, **kwargs)

    functools.update_wrapper(function, plain)
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = (
        f"`paddle.{name[:-1]}` in place: `x` becomes the result. Its arguments are those of `{name[:-1]}`."
    )
    return in_place_in_dygraph(plain)(function)


globals().update({name: _made(name) for name in IN_PLACE.split()})
