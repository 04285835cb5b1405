"""GradientMergeOptimizer: the strategy's `gradient_merge`."""

from __future__ import annotations

from typing import Any

from paddle.incubate.optimizer.gradient_merge import GradientMergeOptimizer as GradientMerge

from .meta_optimizer_base import AroundAnother

__all__ = ["GradientMergeOptimizer"]


class GradientMergeOptimizer(AroundAnother):
    """The gradients of `k_steps` batches make one update."""

    field = "gradient_merge"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = [
            "AMPOptimizer",
            "LarsOptimizer",
            "LambOptimizer",
            "GraphExecutionOptimizer",
            "RecomputeOptimizer",
        ]

    def _can_apply(self) -> bool:
        return super()._can_apply() and self.user_defined_strategy.gradient_merge_configs["k_steps"] > 1

    def _make(self) -> Any:
        config = self.user_defined_strategy.gradient_merge_configs
        return GradientMerge(self.inner_opt, config["k_steps"], config["avg"])
