"""ShardingOptimizer: the strategy's `sharding`."""

from __future__ import annotations

from typing import Any

from paddle._programs.guards import default_startup_program
from paddle.distributed.program_rings import append_ring

from .common import scale_loss_grad
from .meta_optimizer_base import MetaOptimizerBase
from .sharding.leaving_out import LeavingOut, prune_startup
from .sharding.shard import Shard
from .sharding.travel import Travel

__all__ = ["ShardingOptimizer"]


class ShardingOptimizer(MetaOptimizerBase):
    """Each worker holds a part of the parameters and of the optimizer's states, and gets the others when it needs them.

    With `hybrid_dp` groups of `sharding_group_size` workers do so, and groups average their gradients.
    """

    field = "sharding"
    auto_configs = {"fuse_broadcast_MB": 32.0}

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = ["RecomputeOptimizer", "AMPOptimizer", "LarsOptimizer", "LambOptimizer"]
        self.meta_optimizers_black_list = ["GraphExecutionOptimizer"]
        self._shard = Shard()

    def _can_apply(self) -> bool:
        return super()._can_apply() and self.role_maker._worker_num() > 1

    def _groups(self, startup_program: Any) -> tuple[int, int, int]:
        """Appends the rings; returns (rank among those that share parameters, their count, ring of the groups)."""
        config, role = self.user_defined_strategy.sharding_configs, self.role_maker
        endpoints, rank = role._get_trainer_endpoints(), role._worker_index()
        workers = len(endpoints)
        if not config["hybrid_dp"]:
            append_ring(startup_program, endpoints[rank], endpoints, rank, 0, False)
            return rank, workers, -1
        size = config["sharding_group_size"]
        assert workers > size > 0 and workers % size == 0, (
            f"sharding: with hybrid_dp the {workers} workers must be several groups of sharding_group_size, got {size}"
        )
        group, place = divmod(rank, size)
        inner = endpoints[group * size : (group + 1) * size]
        append_ring(startup_program, endpoints[rank], inner, place, 0, False)
        append_ring(startup_program, endpoints[rank], endpoints[place::size], group, place + 1, False)
        return place, size, place + 1

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """The update of the optimizer inside, cut down to this worker's part, and the exchanges."""
        ops, pairs = self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)
        startup_program = startup_program or default_startup_program()
        block = loss.block
        place, size, dp_ring = self._groups(startup_program)
        self._shard.setup(pairs, place, size)
        megabytes = self.user_defined_strategy.sharding_configs["fuse_broadcast_MB"]
        travel = Travel(block, self._shard, megabytes, 0, dp_ring)
        travel.insert()
        scale_loss_grad(block, 1.0 / self.role_maker._worker_num(), block._insert_op_without_sync)
        LeavingOut(block, self._shard, 0, travel.reduced).prune()
        prune_startup(startup_program.global_block(), self._shard)
        return ops, pairs
