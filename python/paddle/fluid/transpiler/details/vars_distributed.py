"""paddle.fluid.transpiler.details.vars_distributed."""

from paddle.distributed.ps.vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = ["VarDistributed", "VarStruct", "VarsDistributed"]
