"""The kinds of fleets with parameter servers, and the synchronization modes."""

from __future__ import annotations

from paddle.distributed.ps.config import DistributedMode

__all__ = ["DistributedMode", "PSMode"]


class PSMode:
    """The kinds of fleets with parameter servers."""

    TRANSPILER = 1
    PSLIB = 2
