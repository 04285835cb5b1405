"""The strategy `lars`: Momentum becomes LARS."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.rules import LarsRule, MomentumRule

from ..base.strategy_registry import Configs, Flag, register
from .graph_execution_optimizer import GraphExecutionOptimizer
from .meta_optimizer_base import AroundAnother, applies_to, updated_by

__all__ = ["LarsOptimizer"]


@register
class LarsOptimizer(AroundAnother):
    """Replaces Momentum by LARS."""

    flag = Flag("lars", 7, "bool: Momentum becomes LARS. False by default.")
    configs = Configs(
        "LarsConfig",
        108,
        "Settings of LARS.",
        lars_coeff=0.001,
        lars_weight_decay=0.0005,
        epsilon=0.0,
        exclude_from_weight_decay=str,
    )
    auto_configs = {"lars_coeff": 0.01, "lars_weight_decay": 0.0005}
    inner = (GraphExecutionOptimizer,)

    def _can_apply(self) -> bool:
        return super()._can_apply() and applies_to(self.inner_opt, MomentumRule, "lars")

    def _make(self) -> Any:
        config = self._config()
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
