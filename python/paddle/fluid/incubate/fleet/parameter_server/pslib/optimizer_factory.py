"""paddle.fluid.incubate.fleet.parameter_server.pslib.optimizer_factory."""

from paddle.distributed.ps.pslib.optimizer_factory import FLEET_GLOBAL_DICT, DistributedAdam

__all__ = ["DistributedAdam", "FLEET_GLOBAL_DICT"]
