"""Nested lists, tuples and dicts of Variables: mapping over them, flattening, comparing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def is_sequence(seq: Any) -> bool:
    """Whether `seq` is a list, tuple or dict."""
    return isinstance(seq, (list, tuple, dict))


def _items(value) -> list:
    # by key, so that equal dicts flatten equally
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


def map_structure(func: Callable, *structure: Any) -> Any:
    """`func` on the leaves of nests of one structure, in the structure of the first."""
    if not is_sequence(structure[0]):
        return func(*structure)
    for nest in structure[1:]:
        assert_same_structure(structure[0], nest, check_types=False)
    return _like(structure[0], [map_structure(func, *parts) for parts in zip(*map(_items, structure), strict=False)])


def pack_sequence_as(structure: Any, flat_sequence: list) -> Any:
    """`flat_sequence`, in the order of :func:`flatten`, in the given structure."""
    waiting = iter(flat_sequence)
    return map_structure(lambda _: next(waiting), structure)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """ValueError unless both have the same structure; with `check_types`, TypeError for other container types."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(f"The two structures do not have the same nested structure: {nest1} and {nest2}")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"The two structures do not have the same sequence type: {type(nest1)} and {type(nest2)}")
    if isinstance(nest1, dict) and isinstance(nest2, dict) and set(nest1) != set(nest2):
        raise ValueError(f"The two dictionaries do not have the same keys: {list(nest1)} and {list(nest2)}")
    if len(nest1) != len(nest2):
        raise ValueError(f"The two structures have {len(nest1)} and {len(nest2)} items: {nest1} and {nest2}")
    for a, b in zip(_items(nest1), _items(nest2), strict=False):
        assert_same_structure(a, b, check_types)


def hold_mutable_vars(structure: Any) -> bool:
    """Whether the structure has a list or dict, which a function could change."""
    if not is_sequence(structure):
        return False
    return any(isinstance(item, (list, dict)) or hold_mutable_vars(item) for item in _items(structure))


def copy_mutable_vars(structure: Any) -> Any:
    """The same leaves in new containers."""
    return map_structure(lambda leaf: leaf, structure)
