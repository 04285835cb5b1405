"""The kinds of fleets of 1.x."""

from __future__ import annotations

__all__ = ["Mode"]


class Mode:
    """The kinds of fleets."""

    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3
