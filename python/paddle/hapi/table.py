"""Framed text tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__: list[str] = []


def framed(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with centered contents and columns of the required width."""
    cells = [[str(c) for c in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"

    def cell(text: str, width: int) -> str:
        # for an odd number of spaces, text of even length gets more on its left, as in 2.0.2's tables
        left = (width - len(text) + (len(text) + 1) % 2) // 2
        return " " * (left + 1) + text + " " * (width - len(text) - left + 1)

    def line(row: Sequence[str]) -> str:
        return "|" + "|".join(cell(c, w) for c, w in zip(row, widths, strict=True)) + "|"

    return "\n".join([rule, line(cells[0]), rule, *map(line, cells[1:]), rule])
