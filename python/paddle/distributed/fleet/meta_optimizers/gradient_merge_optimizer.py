"""The strategy `gradient_merge`: one update for the gradients of several batches."""

from __future__ import annotations

from typing import Any

from paddle.incubate.optimizer.gradient_merge import GradientMergeOptimizer as GradientMerge

from ..base.strategy_registry import Configs, Flag, register
from .amp_optimizer import AMPOptimizer
from .graph_execution_optimizer import GraphExecutionOptimizer
from .lamb_optimizer import LambOptimizer
from .lars_optimizer import LarsOptimizer
from .meta_optimizer_base import AroundAnother
from .recompute_optimizer import RecomputeOptimizer

__all__ = ["GradientMergeOptimizer"]


@register
class GradientMergeOptimizer(AroundAnother):
    """Updates once for the gradients of `k_steps` batches: their sum, or with `avg` their mean."""

    flag = Flag("gradient_merge", 6, "bool: gradients of `k_steps` batches make one update. False by default.")
    configs = Configs("GradientMergeConfig", 104, "Settings of merged gradients.", k_steps=1, avg=True)
    inner = (AMPOptimizer, LarsOptimizer, LambOptimizer, GraphExecutionOptimizer, RecomputeOptimizer)

    def _can_apply(self) -> bool:
        return super()._can_apply() and self._config()["k_steps"] > 1

    def _make(self) -> Any:
        config = self._config()
        return GradientMerge(self.inner_opt, config["k_steps"], config["avg"])
