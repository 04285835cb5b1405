"""How fleets with parameter servers are built, and keep step."""

from __future__ import annotations

from paddle.distributed.ps.config import DistributedMode

__all__ = ["DistributedMode", "PSMode"]


class PSMode:
    """What a fleet with parameter servers is built on."""

    TRANSPILER = 1
    PSLIB = 2
