"""paddle.fluid.transpiler: Programs of one process rewritten for several."""

from .distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from .memory_optimization_transpiler import memory_optimize, release_memory
from .ps_dispatcher import HashName, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "memory_optimize",
    "release_memory",
    "HashName",
    "RoundRobin",
    "DistributeTranspilerConfig",
]
