"""The strategy `sharding`: parameters and optimizer states are partitioned over workers."""

from __future__ import annotations

from typing import Any

from paddle._programs.guards import default_startup_program
from paddle.distributed.program_rings import append_ring

from ..base.strategy_registry import Configs, Flag, register
from .amp_optimizer import AMPOptimizer
from .common import scale_loss_grad
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .meta_optimizer_base import MetaOptimizerBase
from .recompute_optimizer import RecomputeOptimizer
from .sharding.insert_collectives import CollectiveInserter
from .sharding.prune_unused import UnusedPruner, prune_startup
from .sharding.shard import Shard

__all__ = ["ShardingOptimizer"]


@register
class ShardingOptimizer(MetaOptimizerBase):
    """Each worker holds a part of the parameters and optimizer states; the others are broadcast before their use.

    With `hybrid_dp` each group of `sharding_group_size` workers does so, and groups average their gradients.
    """

    flag = Flag("sharding", 26, "bool: each rank keeps a part of parameters and optimizer state. False by default.")
    configs = Configs(
        "ShardingConfig",
        111,
        "Settings of sharding.",
        fuse_broadcast_MB=32.0,
        hybrid_dp=False,
        sharding_group_size=8,
    )
    auto_configs = {"fuse_broadcast_MB": 32.0}
    inner = (RecomputeOptimizer, AMPOptimizer, LarsOptimizer, LambOptimizer)
    conflicts = (GraphExecutionOptimizer,)

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self._shard = Shard()

    def _can_apply(self) -> bool:
        return super()._can_apply() and self.role_maker._worker_num() > 1

    def _groups(self, startup_program: Any) -> tuple[int, int, int]:
        """Appends the rings; returns (rank in the sharding group, its size, ring across groups or -1)."""
        config, role = self._config(), self.role_maker
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
        """The inner optimizer's update, reduced to this worker's part, and the collectives."""
        ops, pairs = self.inner_opt.minimize(loss, startup_program, parameter_list, no_grad_set)
        startup_program = startup_program or default_startup_program()
        block = loss.block
        place, size, dp_ring = self._groups(startup_program)
        self._shard.setup(pairs, place, size)
        megabytes = self._config()["fuse_broadcast_MB"]
        inserter = CollectiveInserter(block, self._shard, megabytes, 0, dp_ring)
        inserter.insert()
        scale_loss_grad(block, 1.0 / self.role_maker._worker_num(), block._insert_op_without_sync)
        UnusedPruner(block, self._shard, 0, inserter.reduced).prune()
        prune_startup(startup_program.global_block(), self._shard)
        return ops, pairs
