"""Which kind of parameter server this package has."""

from __future__ import annotations

__all__: list[str] = []


def is_transpiler() -> bool:
    """Whether Programs of servers are made by the transpiler: they are."""
    return True
