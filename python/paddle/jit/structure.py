"""Nested arguments and results: their leaves, and the same nest with other leaves.

Unlike `paddle._basics.structure`, dicts keep the order of their keys, and keys of different types may be in one dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def _contents(nest: Any) -> list | None:
    kind = type(nest)
    if kind is list or kind is tuple:
        return nest
    if isinstance(nest, dict):
        return list(nest.values())
    if isinstance(nest, (list, tuple)):
        return list(nest)
    return None


def leaves(nest: Any, out: list | None = None) -> list:
    """The leaves of nested lists, tuples and dicts, depth first."""
    found = [] if out is None else out
    contents = _contents(nest)
    if contents is None:
        found.append(nest)
    else:
        for item in contents:
            leaves(item, found)
    return found


def rebuild(nest: Any, function: Callable[[Any], Any]) -> Any:
    """The same nest with `function(leaf)` for each leaf, called depth first."""
    if isinstance(nest, dict):
        items = [(key, rebuild(value, function)) for key, value in nest.items()]
        if type(nest) is dict:
            return dict(items)
        other = type(nest)()
        other.update(items)
        return other
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(rebuild(value, function) for value in nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(rebuild(value, function) for value in nest)
    return function(nest)
