"""Errors of composed functions name the function that was called, not the operators within it."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

__all__: list[str] = []

_state = threading.local()
_KINDS = (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
#: Parameters that take Tensors.
_TENSORS = frozenset(("x", "y", "input", "other"))


def named(function: Callable) -> Callable:
    """The function, whose errors begin with its name; a text or dict in place of a Tensor is a TypeError."""
    name = function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    needed = [(i, p.name) for i, p in enumerate(parameters) if p.name in _TENSORS and p.default is p.empty]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(_state, "inside", False):
            return function(*args, **kwargs)
        for i, parameter in needed:
            given = args[i] if i < len(args) else kwargs.get(parameter, 0)
            if given is None or isinstance(given, (str, bytes, dict)):
                raise TypeError(f"{name}: {parameter} must be a Tensor, got {type(given).__name__}")
        _state.inside = True
        try:
            return function(*args, **kwargs)
        except _KINDS as error:
            text = error.args[0] if error.args and isinstance(error.args[0], str) else None
            if text is not None and not text.startswith((f"{name}:", f"{name}(")):
                error.args = (f"{name}: {text}", *error.args[1:])
            raise
        finally:
            _state.inside = False

    return call


def name_errors(module: dict[str, Any]) -> None:
    """Applies `named` to the public functions that a module defines."""
    for name, value in list(module.items()):
        if inspect.isfunction(value) and value.__module__ == module["__name__"] and not name.startswith("_"):
            module[name] = named(value)
