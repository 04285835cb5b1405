"""Which server gets which variable (`paddle.distributed.ps.dispatcher`)."""

from __future__ import annotations

from paddle.distributed.ps.dispatcher import HashName as HashName
from paddle.distributed.ps.dispatcher import PSDispatcher as PSDispatcher
from paddle.distributed.ps.dispatcher import RoundRobin as RoundRobin

__all__: list[str] = []
