"""The parts of fleet: the strategy, the role makers, the collectives of small values."""

from __future__ import annotations

from . import private_helper_function as private_helper_function

__all__: list[str] = []
