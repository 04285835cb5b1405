"""paddle.fluid.transpiler.collective."""

from paddle.distributed.collective_transpiler import Collective as Collective
from paddle.distributed.collective_transpiler import GradAllReduce, LocalSGD
from paddle.distributed.collective_transpiler import MultiThread as MultiThread
from paddle.distributed.collective_transpiler import SingleProcessMultiThread as SingleProcessMultiThread

__all__ = ["GradAllReduce", "LocalSGD"]
