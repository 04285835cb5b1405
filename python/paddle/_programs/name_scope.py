"""Name scopes: prefixes that operators store for display."""

from __future__ import annotations

import contextlib

import paddle._core as core
from paddle._basics import mode

__all__: list[str] = []


class NameScope:
    """A node of the tree of name scopes; equal prefixes under one parent are numbered."""

    def __init__(self, name: str = "", parent: NameScope | None = None) -> None:
        self._children: dict[str, int] = {}
        self._name = name
        self._parent = parent

    def child(self, prefix: str) -> NameScope:
        count = self._children.get(prefix, 0)
        self._children[prefix] = count + 1
        return NameScope(f"{prefix}_{count}" if count else prefix, self)

    def parent(self) -> NameScope | None:
        return self._parent

    def name(self) -> str:
        return self._name


_name_scope = NameScope()


@contextlib.contextmanager
def name_scope(prefix: str | None = None):
    """Operators appended in the ``with`` block carry a scope name for display; nothing else changes.

    Args:
        prefix (str): must not be empty.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> with paddle.static.name_scope("s1"):
        ...     a = paddle.static.data("a", [None, 1], "int32") + 1
        >>> a.op.attr("op_namescope")
        '/s1/'
    """
    global _name_scope
    if not mode.in_static_mode() and not core.is_undecided():
        yield
        return
    assert prefix, "name_scope: prefix must have a character"
    former = _name_scope
    _name_scope = former.child(prefix)
    try:
        yield
    finally:
        _name_scope = former


def _full_name_scope() -> str:
    scope: NameScope | None = _name_scope
    name = ""
    while scope is not None:
        name = scope.name() + "/" + name
        scope = scope.parent()
    return name
