"""paddle.fluid.parallel_executor."""

from paddle.static.compiler import BuildStrategy, ExecutionStrategy
from paddle.static.parallel_executor import ParallelExecutor

__all__ = ["ParallelExecutor", "BuildStrategy", "ExecutionStrategy"]
