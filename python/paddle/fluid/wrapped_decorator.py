"""fluid.wrapped_decorator: decorators that preserve the signature of the decorated function."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

__all__ = ["wrap_decorator", "signature_safe_contextmanager"]


def wrap_decorator(decorator_func: Callable) -> Callable:
    """A decorator like `decorator_func` that preserves a function's name, docstring and signature.

    The function is decorated at every call, as `decorator_func` may depend on global state.
    """

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args, **kwargs):
            return decorator_func(func)(*args, **kwargs)

        return call

    return decorate


signature_safe_contextmanager = wrap_decorator(contextlib.contextmanager)
