"""RecomputeOptimizer: the strategy's `recompute`."""

from __future__ import annotations

from typing import Any

from paddle.incubate.optimizer.recompute import RecomputeOptimizer as Recompute

from .meta_optimizer_base import AroundAnother

__all__ = ["RecomputeOptimizer"]


class RecomputeOptimizer(AroundAnother):
    """Backward keeps the checkpoints, and computes again what lies between them."""

    field = "recompute"

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = ["LarsOptimizer", "LambOptimizer", "GraphExecutionOptimizer", "DGCOptimizer"]

    def _can_apply(self) -> bool:
        return super()._can_apply() and bool(self.user_defined_strategy.recompute_configs["checkpoints"])

    def _make(self) -> Any:
        config = self.user_defined_strategy.recompute_configs
        made = Recompute(self.inner_opt)
        made._set_checkpoints(list(config["checkpoints"]))
        if config["enable_offload"]:
            made._enable_offload()
            made.checkpoint_shape = list(config["checkpoint_shape"])
        return made
