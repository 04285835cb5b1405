"""Data parallelism of the compiled Program: the strategy without a flag, on in every collective job."""

from __future__ import annotations

from typing import Any

from paddle._programs.guards import default_startup_program
from paddle._programs.runners import assign
from paddle.distributed.parallel import is_initialized
from paddle.distributed.program_rings import append_world
from paddle.static import BuildStrategy, CompiledProgram, ExecutionStrategy

from ..base.strategy_registry import register
from .meta_optimizer_base import MetaOptimizerBase, logger

__all__ = ["GraphExecutionOptimizer"]


def options(made: Any, given: dict[str, Any]) -> Any:
    """`made`, a BuildStrategy or ExecutionStrategy, with the `given` fields that it has."""
    for name, value in given.items():
        if name in made._defaults:
            setattr(made, name, value)
    return made


@register
class GraphExecutionOptimizer(MetaOptimizerBase):
    """Averages gradients over workers when the compiled Program runs; the Program itself stays as it is."""

    def _is_graph_out(self) -> bool:
        return True

    def _can_apply(self) -> bool:
        return bool(self.role_maker._is_collective)

    def _disable_strategy(self, dist_strategy: Any) -> None:
        """No flag selects it."""

    def _enable_strategy(self, dist_strategy: Any, context: Any = None) -> None:
        """It is always on."""

    def _compiled(self, startup_program: Any, program: Any, loss: Any) -> CompiledProgram:
        strategy, role = self.user_defined_strategy, self.role_maker
        build = options(BuildStrategy(), strategy.strategy.get("build_strategy").as_dict())
        run = options(ExecutionStrategy(), strategy.strategy.get("execution_strategy").as_dict())
        for name in ("hierarchical_allreduce_inter_nranks", "sync_batch_norm", "fuse_all_reduce_ops", "nccl_comm_num"):
            setattr(build, name, getattr(strategy, name))
        # A hierarchy needs several hosts; statistics of several ranks need the same order of exchanges on each rank.
        build.use_hierarchical_allreduce = (
            strategy.use_hierarchical_allreduce and role._node_num() > 1 and not build.sync_batch_norm
        )
        if strategy.use_hierarchical_allreduce and role._node_num() <= 1:
            logger.warning("use_hierarchical_allreduce is for several hosts, and there is one: it is off")
        workers = role._worker_num()
        if workers == 1 or build.sync_batch_norm:
            build.nccl_comm_num = 1
        if strategy.recompute:
            build.enable_sequential_execution = True
        program._nccl_comm_num = build.nccl_comm_num
        program._use_hierarchical_allreduce = build.use_hierarchical_allreduce
        program._hierarchical_allreduce_inter_nranks = build.hierarchical_allreduce_inter_nranks
        endpoints, rank = role._get_trainer_endpoints(), role._worker_index()
        build.num_trainers, build.trainer_id, build.trainers_endpoints = workers, rank, endpoints
        if workers > 1 and not is_initialized():
            append_world(startup_program, endpoints, rank, build)
        return CompiledProgram(program).with_data_parallel(loss.name, build, run)

    def backward(self, *args: Any, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """No gradients of its own."""
        return []

    def minimize(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[None, None]:
        """Compiles the Program of `loss`; the Executor runs the compiled form."""
        program = loss.block.program
        assign(program, "compiled", self._compiled(startup_program or default_startup_program(), program, loss))
        return None, None
