"""paddle.fluid.compiler."""

from paddle.static.compiler import BuildStrategy, CompiledProgram, ExecutionStrategy

__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]
