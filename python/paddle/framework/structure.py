"""Nested lists, tuples and dicts of Variables: mapping over them, flattening, comparing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def is_sequence(value: Any) -> bool:
    """Whether `value` is a list, tuple or dict, and so has items."""
    return isinstance(value, (list, tuple, dict))


def _items(value) -> list:
    # dicts in the order of their keys, so that equal dicts flatten equally
    return [value[k] for k in sorted(value)] if isinstance(value, dict) else list(value)


def _like(value, items: list):
    if isinstance(value, dict):
        by_key = dict(zip(sorted(value), items, strict=False))
        return type(value)((k, by_key[k]) for k in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*items)
    return type(value)(items)


def flatten(nest: Any) -> list:
    """The leaves, depth first."""
    return [leaf for item in _items(nest) for leaf in flatten(item)] if is_sequence(nest) else [nest]


def map_structure(function: Callable, *nests: Any) -> Any:
    """`function` on the leaves of nests of one structure, in the structure of the first."""
    if not is_sequence(nests[0]):
        return function(*nests)
    for nest in nests[1:]:
        assert_same_structure(nests[0], nest, check_types=False)
    return _like(nests[0], [map_structure(function, *parts) for parts in zip(*map(_items, nests), strict=False)])


def pack_sequence_as(structure: Any, leaves: list) -> Any:
    """`leaves`, in the order of :func:`flatten`, in the given structure."""
    waiting = iter(leaves)
    return map_structure(lambda _: next(waiting), structure)


def assert_same_structure(first: Any, second: Any, check_types: bool = True) -> None:
    """ValueError (TypeError for types, when asked) unless both are nested alike."""
    if is_sequence(first) != is_sequence(second):
        raise ValueError(f"The two structures do not have the same nested structure: {first} and {second}")
    if not is_sequence(first):
        return
    if check_types and type(first) is not type(second):
        raise TypeError(f"The two structures do not have the same sequence type: {type(first)} and {type(second)}")
    if isinstance(first, dict) and isinstance(second, dict) and set(first) != set(second):
        raise ValueError(f"The two dictionaries do not have the same keys: {list(first)} and {list(second)}")
    if len(first) != len(second):
        raise ValueError(f"The two structures have {len(first)} and {len(second)} items: {first} and {second}")
    for a, b in zip(_items(first), _items(second), strict=False):
        assert_same_structure(a, b, check_types)


def hold_mutable_vars(structure: Any) -> bool:
    """Whether a list or dict is in it, which a function could change."""
    if not is_sequence(structure):
        return False
    return any(isinstance(item, (list, dict)) or hold_mutable_vars(item) for item in _items(structure))


def copy_mutable_vars(structure: Any) -> Any:
    """The same leaves in new containers."""
    return map_structure(lambda leaf: leaf, structure)
