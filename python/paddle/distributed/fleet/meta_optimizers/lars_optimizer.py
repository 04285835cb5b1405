"""LarsOptimizer: the strategy's `lars`."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.rules import LarsRule, MomentumRule

from .meta_optimizer_base import AroundAnother, applies_to, updated_by

__all__ = ["LarsOptimizer"]


class LarsOptimizer(AroundAnother):
    """Momentum becomes LARS."""

    field = "lars"
    auto_configs = {"lars_coeff": 0.01, "lars_weight_decay": 0.0005}

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer)
        self.meta_optimizers_white_list = ["GraphExecutionOptimizer"]

    def _can_apply(self) -> bool:
        return super()._can_apply() and applies_to(self.inner_opt, MomentumRule, "lars")

    def _make(self) -> Any:
        config = self.user_defined_strategy.lars_configs
        made = updated_by(
            self.user_defined_optimizer,
            LarsRule,
            momentum=self.user_defined_optimizer._momentum,
            lars_coeff=config["lars_coeff"],
            lars_weight_decay=config["lars_weight_decay"],
            epsilon=config["epsilon"],
        )
        made._exclude_from_weight_decay = list(config["exclude_from_weight_decay"])
        return made
