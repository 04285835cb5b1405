"""Sizes, borders and boxes from transform arguments, for all kinds of images."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__: list[str] = []

MODES = ("constant", "edge", "reflect", "symmetric")


class Border(NamedTuple):
    """Number of added columns and rows on each side."""

    left: int
    top: int
    right: int
    bottom: int


def border(padding: Any, fill: Any, padding_mode: Any) -> Border:
    """The border from `padding`: a number for all sides, (columns, rows), or (left, top, right, bottom)."""
    if not isinstance(padding, (numbers.Number, list, tuple)):
        raise TypeError(f"pad: padding must be a number, list or tuple, got {type(padding)}")
    if not isinstance(fill, (numbers.Number, str, list, tuple)):
        raise TypeError(f"pad: fill must be a number, str, list or tuple, got {type(fill)}")
    if not isinstance(padding_mode, str):
        raise TypeError(f"pad: padding_mode must be a str, got {type(padding_mode)}")
    if isinstance(padding, Sequence) and len(padding) not in (2, 4):
        raise ValueError(f"Padding must be an int or a 2, or 4 element tuple, not a {len(padding)} element tuple")
    assert padding_mode in MODES, f"Padding mode should be one of {', '.join(MODES)}, got {padding_mode!r:.200}"
    if not isinstance(padding, Sequence):
        padding = (padding,)
    return Border(*(int(n) for n in tuple(padding) * (4 // len(padding))))


def output_size(width: int, height: int, wanted: Any) -> tuple[int, int] | None:
    """(width, height) after resizing to (height, width), or to a number for the shorter side; None: unchanged."""
    if isinstance(wanted, str) or not (
        isinstance(wanted, int) or (isinstance(wanted, Iterable) and len(list(wanted)) == 2)
    ):
        raise TypeError(f"Got inappropriate size arg: {wanted}")
    if not isinstance(wanted, int):
        rows, columns = wanted
        return int(columns), int(rows)
    if min(width, height) == wanted:
        return None
    if width < height:
        return wanted, int(wanted * height / width)
    return int(wanted * width / height), wanted


def center_box(width: int, height: int, wanted: Any) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the centered box."""
    rows, columns = (int(wanted), int(wanted)) if isinstance(wanted, numbers.Number) else wanted  # type: ignore[call-overload]
    return round((height - rows) / 2.0), round((width - columns) / 2.0), rows, columns
