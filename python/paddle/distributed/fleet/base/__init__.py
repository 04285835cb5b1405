"""What fleet is made of: the strategy and the roles of processes."""

from __future__ import annotations

from . import private_helper_function as private_helper_function

__all__: list[str] = []
