"""Wrapped: what StaticFunction and other wrappers of functions have in common."""

from __future__ import annotations

from types import MethodType
from typing import Any

__all__: list[str] = []


class Wrapped:
    """A function under a decorator of paddle.jit."""

    _dygraph_function: Any = None
    #: the object that the function is a method of, or None
    _class_instance: Any = None

    @property
    def dygraph_function(self) -> Any:
        """The original function."""
        return self._dygraph_function


def unwrap_decorators(func: Any) -> tuple[list[Any], Any]:
    """The wrappers around a function, and the function itself (bound, if it is a method)."""
    decorators: list[Any] = []
    while isinstance(func, Wrapped):
        decorators.append(func)
        instance, inner = func._class_instance, func.dygraph_function
        func = MethodType(inner, instance) if instance is not None else inner
    return decorators, func
