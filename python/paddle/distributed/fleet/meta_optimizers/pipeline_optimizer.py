"""The strategy `pipeline`: each worker runs a section of the Program."""

from __future__ import annotations

from typing import Any

from paddle.distributed.program_rings import append_ring
from paddle.incubate.optimizer.pipeline import PipelineOptimizer as Pipeline

from ..base.strategy_registry import Configs, Flag, register
from .common import OP_ROLE_KEY, OpRole, role_vars, scale_loss_grad
from .graph_execution_optimizer import GraphExecutionOptimizer
from .meta_optimizer_base import MetaOptimizerBase

__all__ = ["PipelineOptimizer"]


@register
class PipelineOptimizer(MetaOptimizerBase):
    """Cuts the Program into sections, one a worker; several pipelines average their gradients."""

    flag = Flag("pipeline", 9, "bool: the Program is cut into stages by device_guard. False by default.")
    configs = Configs("PipelineConfig", 106, "Settings of the pipeline.", micro_batch=1)
    auto_configs = {"micro_batch": 1}
    conflicts = (GraphExecutionOptimizer,)

    def minimize_impl(
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[Any, Any]:
        """The inner optimizer's update, cut into sections, and the rings of neighbouring sections and of pipelines."""
        role, program = self.role_maker, loss.block.program
        endpoints, rank = role._get_trainer_endpoints(), role._worker_index()
        program._pipeline_opt = {"local_rank": rank}
        wrapped = Pipeline(self.inner_opt, self._config()["micro_batch"])
        ops, pairs, sections = wrapped.minimize(loss, startup_program, parameter_list, no_grad_set)
        depth = program._pipeline_opt["inner_parallelism"]
        assert len(endpoints) % depth == 0, (
            f"pipeline: {len(endpoints)} workers cannot run pipelines of {depth} sections"
        )
        startup = wrapped.startup_program
        pipeline, place = divmod(rank, depth)
        if depth > 1:
            inner = endpoints[pipeline * depth : (pipeline + 1) * depth]
            append_ring(startup, endpoints[rank], inner, place, 0, False)
        count = len(endpoints) // depth
        if count > 1:
            append_ring(startup, endpoints[rank], endpoints[place::depth], pipeline, place + 1, False)
            self._share(startup.global_block(), place + 1)
            scale_loss_grad(sections[-1]["program"].global_block(), 1.0 / count)
            self._average(sections[place]["program"].global_block(), place + 1)
        return ops, pairs

    @staticmethod
    def _share(block: Any, ring: int) -> None:
        """Broadcasts the first pipeline's values at the start."""
        for var in [v for v in block.vars.values() if v.persistable and "nccl_id" not in v.name]:
            attrs = {"ring_id": ring, "root": 0, OP_ROLE_KEY: OpRole.Forward}
            block.append_op(type="c_broadcast", inputs={"X": var}, outputs={"Out": var}, attrs=attrs)

    @staticmethod
    def _average(block: Any, ring: int) -> None:
        """Sums a batch's gradients over the pipelines before the update."""
        grads = list(dict.fromkeys(grad for op in block.ops for _, grad in role_vars(op)))
        at = next(i for i, op in enumerate(block.ops) if int(op.attr(OP_ROLE_KEY)) == int(OpRole.Optimize))
        for name in reversed(grads):
            grad = block.vars[name]
            attrs = {"ring_id": ring, OP_ROLE_KEY: OpRole.Optimize}
            block._insert_op(at, type="c_allreduce_sum", inputs={"X": grad}, outputs={"Out": grad}, attrs=attrs)
