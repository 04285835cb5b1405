"""Decorators that keep the signature of what they decorate."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

__all__ = ["wrap_decorator", "signature_safe_contextmanager"]


def wrap_decorator(decorator_func: Callable) -> Callable:
    """A decorator like `decorator_func`, under which a function keeps its name, text and signature.

    The function is decorated anew for every call, as `decorator_func` may look at the state of the process.
    """

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args, **kwargs):
            return decorator_func(func)(*args, **kwargs)

        return call

    return decorate


signature_safe_contextmanager = wrap_decorator(contextlib.contextmanager)
