"""paddle.compat: helpers of programs for Python 2 and 3."""

from __future__ import annotations

import math

__all__ = ["long_type", "to_text", "to_bytes", "round", "floor_division", "get_exception_message"]

int_type = int
long_type = int


def _mapped(obj, one, inplace: bool):
    if isinstance(obj, list):
        items = [_mapped(v, one, inplace) for v in obj]
        if inplace:
            obj[:] = items
            return obj
        return items
    if isinstance(obj, set):
        found = {_mapped(v, one, inplace) for v in obj}
        if inplace:
            obj.clear()
            obj.update(found)
            return obj
        return found
    if isinstance(obj, dict):
        pairs = {_mapped(k, one, inplace): _mapped(v, one, inplace) for k, v in obj.items()}
        if inplace:
            obj.clear()
            obj.update(pairs)
            return obj
        return pairs
    return one(obj)


def to_text(obj, encoding="utf-8", inplace=False):
    """`obj` with bytes decoded; lists, sets and dicts are converted recursively, in place if `inplace`."""
    return _mapped(obj, lambda v: v.decode(encoding) if isinstance(v, bytes) else v, inplace)


def to_bytes(obj, encoding="utf-8", inplace=False):
    """`obj` with strings encoded; lists and sets are converted recursively, in place if `inplace`."""
    return _mapped(obj, lambda v: v.encode(encoding) if isinstance(v, str) else v, inplace)


def round(x, d=0):  # noqa: A001
    """`x` rounded to `d` decimals, halves away from zero."""
    p = 10**d
    if x > 0.0:
        return math.floor(x * p + 0.5) / p
    if x < 0.0:
        return math.ceil(x * p - 0.5) / p
    return math.copysign(0.0, x)


def floor_division(x, y):
    """x // y."""
    return x // y


def get_exception_message(exc) -> str:
    """The message of an exception."""
    assert exc is not None
    return str(exc)
