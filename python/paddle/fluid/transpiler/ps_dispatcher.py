"""paddle.fluid.transpiler.ps_dispatcher."""

from paddle.distributed.ps.dispatcher import HashName, PSDispatcher, RoundRobin

__all__ = ["PSDispatcher", "HashName", "RoundRobin"]
