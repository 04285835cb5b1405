"""The global Scope, which holds the variables of static Programs between runs."""

from __future__ import annotations

import contextlib

import paddle._core as core

__all__: list[str] = []

g_scope = core._Scope()


def global_scope():
    """The default Scope of :class:`Executor`.

    Examples:
        >>> import paddle.static as static
        >>> static.global_scope().find_var("never made") is None
        True
    """
    return g_scope


def _switch_scope(scope):
    """Make `scope` the global one; returns the previous one."""
    global g_scope
    former, g_scope = g_scope, scope
    return former


@contextlib.contextmanager
def scope_guard(scope):
    """In the ``with`` block `scope` is the global Scope.

    Examples:
        >>> import paddle.static as static
        >>> new = static.Scope()
        >>> with static.scope_guard(new):
        ...     static.global_scope() is new
        True
    """
    former = _switch_scope(scope)
    try:
        yield
    finally:
        _switch_scope(former)
