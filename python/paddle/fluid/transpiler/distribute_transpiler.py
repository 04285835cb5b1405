"""paddle.fluid.transpiler.distribute_transpiler."""

from paddle.distributed.ps.blocks import VarBlock, slice_variable
from paddle.distributed.ps.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from paddle.distributed.ps.distribute_transpiler import DistributeTranspiler, same_or_split_var

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "DistributedMode",
    "ServerRuntimeConfig",
    "VarBlock",
    "same_or_split_var",
    "slice_variable",
]
