"""What fleet is made of: the strategy and the roles of processes."""
from __future__ import annotations

__all__: list[str] = []
