"""Which server gets which variable (`paddle.fluid.transpiler.ps_dispatcher`)."""

from __future__ import annotations

from paddle.fluid.transpiler.ps_dispatcher import HashName as HashName
from paddle.fluid.transpiler.ps_dispatcher import PSDispatcher as PSDispatcher
from paddle.fluid.transpiler.ps_dispatcher import RoundRobin as RoundRobin

__all__: list[str] = []
