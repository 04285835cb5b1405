"""paddle.fluid.parallel_executor."""

from paddle.static.parallel_executor import ParallelExecutor
from paddle.static.strategies import BuildStrategy, ExecutionStrategy

__all__ = ["ParallelExecutor", "BuildStrategy", "ExecutionStrategy"]
