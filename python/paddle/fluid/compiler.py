"""paddle.fluid.compiler."""

from paddle.static.compiler import CompiledProgram
from paddle.static.strategies import BuildStrategy, ExecutionStrategy

__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]
