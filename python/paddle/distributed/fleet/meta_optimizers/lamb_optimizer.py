"""The strategy `lamb`: Adam becomes LAMB."""

from __future__ import annotations

from typing import Any

from paddle.optimizer.rules import AdamRule, LambRule

from ..base.strategy_registry import Configs, Flag, register
from .graph_execution_optimizer import GraphExecutionOptimizer
from .meta_optimizer_base import AroundAnother, applies_to, updated_by

__all__ = ["LambOptimizer"]


@register
class LambOptimizer(AroundAnother):
    """Replaces Adam by LAMB."""

    flag = Flag("lamb", 8, "bool: Adam becomes LAMB. False by default.")
    configs = Configs("LambConfig", 109, "Settings of LAMB.", lamb_weight_decay=0.01, exclude_from_weight_decay=str)
    auto_configs = {"lamb_weight_decay": 0.01, "exclude_from_weight_decay": []}
    inner = (GraphExecutionOptimizer,)

    def _can_apply(self) -> bool:
        return super()._can_apply() and applies_to(self.inner_opt, AdamRule, "lamb")

    def _make(self) -> Any:
        config, adam = self._config(), self.user_defined_optimizer
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
