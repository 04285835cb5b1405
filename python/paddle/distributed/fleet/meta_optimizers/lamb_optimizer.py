"""LambOptimizer: the strategy's `lamb`."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.rules import AdamRule, LambRule

from .meta_optimizer_base import AroundAnother, applies_to, updated_by

__all__ = ["LambOptimizer"]


class LambOptimizer(AroundAnother):
    """Adam becomes LAMB."""

    field = "lamb"
    auto_configs = {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []}

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = ["GraphExecutionOptimizer"]

    def _can_apply(self) -> bool:
        return super()._can_apply() and applies_to(self.inner_opt, AdamRule, "lamb")

    def _make(self) -> Any:
        config, adam = self.user_defined_strategy.lamb_configs, self.user_defined_optimizer
        endings = tuple(config["exclude_from_weight_decay"])
        made = updated_by(
            adam,
            LambRule,
            beta1=adam._beta1,
            beta2=adam._beta2,
            epsilon=adam._epsilon,
            lamb_weight_decay=config["lamb_weight_decay"],
        )
        made._exclude_from_weight_decay_fn = (lambda p: p.name.endswith(endings)) if endings else None
        return made
