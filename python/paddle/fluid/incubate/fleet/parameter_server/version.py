"""The kind of parameter server of this package."""

from __future__ import annotations

__all__: list[str] = []


def is_transpiler() -> bool:
    """Whether the transpiler creates the servers' Programs: True."""
    return True
