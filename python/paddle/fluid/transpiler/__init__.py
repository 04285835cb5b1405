"""paddle.fluid.transpiler: rewriting of a Program of one process for several."""

from paddle.distributed.ps.config import DistributeTranspilerConfig
from paddle.distributed.ps.dispatcher import HashName, RoundRobin
from paddle.distributed.ps.distribute_transpiler import DistributeTranspiler

from .memory_optimization_transpiler import memory_optimize, release_memory

__all__ = [
    "DistributeTranspiler",
    "memory_optimize",
    "release_memory",
    "HashName",
    "RoundRobin",
    "DistributeTranspilerConfig",
]
