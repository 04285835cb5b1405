"""`paddle.fluid.DistributeTranspiler` under the name that the pages of incubate.fleet give it."""

from paddle.distributed.ps.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig"]
