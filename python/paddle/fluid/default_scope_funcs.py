"""fluid.default_scope_funcs: a stack of scopes per thread; the innermost one is the current scope."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import paddle._core as _core

__all__ = ["get_cur_scope", "enter_local_scope", "leave_local_scope", "var", "find_var", "scoped_function"]


class _Stack(threading.local):
    """The stack of a thread."""

    def __init__(self) -> None:
        self.scopes: list[Any] = [_core._Scope()]


_stack = _Stack()


def get_cur_scope() -> Any:
    """The innermost scope of this thread.

    Examples:
        >>> from paddle.fluid import default_scope_funcs as scopes
        >>> outer = scopes.get_cur_scope()
        >>> scopes.scoped_function(lambda: scopes.get_cur_scope() is outer)
        False
    """
    return _stack.scopes[-1]


def enter_local_scope() -> None:
    """Creates a scope inside the current one, and makes it current."""
    _stack.scopes.append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Deletes the current scope with its children; IndexError if none was entered."""
    if len(_stack.scopes) == 1:
        raise IndexError("leave_local_scope: no scope was entered")
    _stack.scopes.pop()
    get_cur_scope().drop_kids()


def var(name: str) -> Any:
    """The variable `name` of the current scope, created if it does not exist."""
    return get_cur_scope().var(name)


def find_var(name: str) -> Any:
    """The variable `name` of the current scope or its ancestors; None if it does not exist."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], Any]) -> Any:
    """Calls `func()` in a new scope, and returns its result."""
    enter_local_scope()
    try:
        return func()
    finally:
        leave_local_scope()
